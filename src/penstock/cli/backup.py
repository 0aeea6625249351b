"""`penstock backup`: copy a SQLite store into a file while servers use it. No server takes part."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.output import note, print_json
from penstock.cli.text import number
from penstock.terminal import fitting, printable


@click.command()
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(store: str, file: Path, force: bool, as_json: bool) -> None:
    """Copy a SQLite store into one file, as it is at one moment.

    STORE is its URL, such as sqlite:////var/lib/penstock/queue.db. Servers may use it meanwhile, and do not wait. The
    copy is a store: 'penstock check' verifies it, and a server can be started on it. FILE appears when it is complete.
    """
    from penstock.stores.backup import back_up

    progress = fitting()
    try:
        done = back_up(store, file, lambda pages, total: progress.show("copying pages", pages, total), force=force)
    except KeyboardInterrupt:
        progress.end()
        note("interrupted: no copy was made")
        raise
    progress.end()
    if as_json:
        print_json({"file": str(done.file), "bytes": done.size, "seconds": done.seconds})
    else:
        click.echo(f"copied {number(done.size)} bytes into {printable(str(done.file))} in {done.seconds:.1f} s")
