"""`penstock check`: whether a store is sound. It opens the store itself, to read; no server takes part."""

from __future__ import annotations

import os
from collections import Counter

import click

from penstock.cli.output import print_json, print_table
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number, plural
from penstock.terminal import Quiet, fitting


@click.command()
@click.argument("store", required=False)
@click.option("--config", "path", metavar="PATH", help="File to read settings from.  [else as 'penstock serve']")
@click.option("--bodies", is_flag=True, help="Read every body as well, and compare it with its hash.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(store: str | None, path: str | None, bodies: bool, as_json: bool) -> int:
    """Verify a store: its file, its tables, and that what they say of each other is true.

    STORE is its URL: sqlite, postgresql or mariadb; without one, the store that 'penstock serve' would have here. It
    may be in use. Nothing is changed in it. The exit code is 0 if it is sound, and 1 if something was found.
    """
    from penstock.server.config import load
    from penstock.stores.transfer.marks import without_password
    from penstock.stores.verification.verification import verify

    url = store or load({}, os.environ, path=path).config.store
    progress = Quiet() if as_json else fitting()
    verdict = verify(url, lambda part: progress.say(f"checking {part}"), bodies=bodies)
    found = Counter(finding.check for finding in verdict.findings)
    if as_json:
        print_json(
            {
                "store": without_password(url),
                "is_sound": verdict.is_sound,
                "counts": verdict.counts,
                "checks": {part: found[part] for part in verdict.checks},
                "findings": [
                    {"check": one.check, "queue": one.queue, "text": one.text} for one in verdict.findings
                ],
                "seconds": verdict.seconds,
            }
        )  # fmt: skip
    else:
        rows = [(part, plural(found[part], "problem") if found[part] else "sound") for part in verdict.checks]
        print_table(rows, ("check", "result"))
        if verdict.findings:
            click.echo()
            print_table([(one.check, one.queue or "", one.text) for one in verdict.findings],
                        ("check", "queue", "problem"))  # fmt: skip
        counted = ", ".join(f"{number(count)} {noun.replace('_', ' ')}" for noun, count in verdict.counts.items())
        click.echo()
        click.echo(f"{'sound' if verdict.is_sound else plural(len(verdict.findings), 'problem')}: {counted}")
    return 0 if verdict.is_sound else NOT_ALL_DONE
