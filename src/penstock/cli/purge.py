"""`penstock purge`: remove every message of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import confirmed, queue_argument, talks_to_server, yes_option
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import plural

if TYPE_CHECKING:
    from penstock.client import Client


@click.command()
@queue_argument
@yes_option
@talks_to_server
def purge(client: Client, queue: str, yes: bool, as_json: bool) -> int | None:
    """Remove every message of a queue, claimed or not. The queue stays."""
    if not confirmed(f"Remove every message of queue {queue}?", yes):
        note("nothing was purged")
        return NOT_ALL_DONE
    purged = client.purge(queue)
    if as_json:
        print_json({"purged": purged})
    else:
        click.echo(f"purged {plural(purged, 'message')}")
    return None
