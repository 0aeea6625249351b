"""`penstock shrink`: give room back to the file system. A server does it, or the file of a store is rebuilt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from penstock.cli.options import talks_to_server
from penstock.cli.output import note, print_json
from penstock.cli.text import number

if TYPE_CHECKING:
    from penstock.client import Client


@click.command()
@click.option("--store", metavar="URL", help="Rebuild this SQLite store instead; no server may have it open.")
@talks_to_server
def shrink(client: Client, store: str | None, as_json: bool) -> None:
    """Give back to the file system what the store does not use.

    A server does so by itself, in time; this asks it to do so now, a little at a time, while it serves others. With
    --store no server takes part: the file is rebuilt, which takes about twice its room meanwhile, and one that an
    earlier version has made can shrink by itself from then on.
    """
    if store is not None:
        _rebuild(store, as_json)
        return
    returned = 0
    while (shrunk := client.shrink()).returned_bytes:
        returned += shrunk.returned_bytes
    if as_json:
        print_json({"returned_bytes": returned, "unused_bytes": shrunk.unused_bytes})
        return
    click.echo(f"gave back {number(returned)} bytes")
    if shrunk.unused_bytes is None:
        note("this store holds nothing that it does not use, or a database server sees to that")
    elif shrunk.unused_bytes:
        note(
            f"{number(shrunk.unused_bytes)} bytes are unused, but this file cannot shrink: stop the server, and "
            "rebuild it with 'penstock shrink --store URL'"
        )


def _rebuild(url: str, as_json: bool) -> None:
    # SQLite looks for this when it is loaded: what is to be written must not fill a small /tmp.
    path = url.partition("sqlite:///")[2]
    if path:
        os.environ.setdefault("SQLITE_TMPDIR", os.path.dirname(os.path.abspath(path)))
    from penstock.stores.rebuilding import rebuild

    done = rebuild(url)
    if as_json:
        print_json({"bytes_before": done.before, "bytes_after": done.after, "seconds": done.seconds})
    else:
        click.echo(f"rebuilt in {done.seconds:.1f} s: {number(done.before)} bytes before, {number(done.after)} now")
