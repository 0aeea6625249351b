"""`penstock purge`: remove every message of a queue, or the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import Duration, confirmed, queue_argument, talks_to_server, yes_option
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import duration, plural

if TYPE_CHECKING:
    from penstock.client import Client


@click.command()
@queue_argument
@click.option("--older-than", "older_than_ms", type=Duration(), help="Only messages that were sent longer ago.")
@yes_option
@talks_to_server
def purge(client: Client, queue: str, older_than_ms: int | None, yes: bool, as_json: bool) -> int | None:
    """Remove every message of a queue, claimed or not. The queue stays."""
    which = "" if older_than_ms is None else f" that is older than {duration(older_than_ms)}"
    if not confirmed(f"Remove every message of queue {queue}{which}?", yes):
        note("nothing was purged")
        return NOT_ALL_DONE
    purged = client.purge(queue, older_than_ms)
    if as_json:
        print_json({"purged": purged})
    else:
        click.echo(f"purged {plural(purged, 'message')}")
    return None
