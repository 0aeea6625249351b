"""`penstock migrate-store`: copy one store into another. It opens both itself; no server takes part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from penstock.cli.output import print_json
from penstock.cli.text import plural
from penstock.terminal import Progress, fitting


@click.command("migrate-store")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO", required=False)
@click.option(
    "--take-back", is_flag=True, help="Copy nothing: let servers open FROM again, which is being copied or was."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate_store(source: str, target: str | None, take_back: bool, as_json: bool) -> None:
    """Copy everything from one store into another, empty one.

    FROM and TO are URLs of stores: sqlite, postgresql or mariadb. Stop every server that uses one of them first.
    Servers refuse to open FROM from then on.
    Queues, messages, claims, ledger and API keys are copied; ids, receipts and keys stay good. In the end all rows are
    compared. When it is interrupted, the same command goes on where it was; until it has ended, TO cannot be used.
    """
    from penstock.stores.transfer import copy
    from penstock.stores.transfer.tables import TALLY

    if take_back:
        if target is not None:
            raise click.UsageError("--take-back needs FROM alone.", click.get_current_context())
        copy.take_back(source)
        print_json({"taken_back": True}) if as_json else click.echo("servers may open it again")
        return
    if target is None:
        raise click.UsageError("Missing argument 'TO'.", click.get_current_context())
    summary = copy.migrate(source, target, Shown(fitting()))
    rows = {table: count for table, count in summary.rows.items() if table is not TALLY}
    if as_json:
        print_json({"copied": {table.name: count for table, count in rows.items()}, "seconds": summary.seconds})
        return
    copied = ", ".join(plural(count, table.noun) for table, count in rows.items())
    click.echo(f"copied {copied} in {summary.seconds:.1f} s; all of it was compared")


class Shown:
    """How far a transfer is, on a terminal or in a log."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.say = progress.say

    @contextmanager
    def task(self, doing: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress.show(doing, done, total)

        advance(0)
        yield advance
        self._progress.end()
