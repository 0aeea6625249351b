"""`penstock peek`: look at messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock import limits
from penstock.cli.messages import message_as_json, print_peeked
from penstock.cli.options import queue_argument, talks_to_server
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE

if TYPE_CHECKING:
    from penstock.client import Client


@click.command()
@queue_argument
@click.option(
    "--limit", type=click.IntRange(1, limits.BULK_LIMIT), default=10, show_default=True, help="Messages at most."
)
@click.option("--after", metavar="CURSOR", help="Go on where an earlier peek ended.")
@talks_to_server
def peek(client: Client, queue: str, limit: int, after: str | None, as_json: bool) -> int | None:
    """Look at messages, ready or not. Nothing is claimed."""
    peeked = client.peek(queue, limit, after)
    if as_json:
        print_json({"messages": [message_as_json(message) for message in peeked.messages], "after": peeked.after})
    elif peeked.messages:
        print_peeked(peeked.messages)
        if peeked.after is not None and len(peeked.messages) == limit:
            note(f"there may be more: --after {peeked.after}")
    if not peeked.messages:
        note(f"queue {queue} has no {'more ' if after else ''}messages")
        return NOT_ALL_DONE
    return None
