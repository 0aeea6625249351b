"""`penstock claim`: take messages to work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock import limits
from penstock.cli.messages import message_as_json, print_claimed
from penstock.cli.options import Duration, queue_argument, talks_to_server
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE

if TYPE_CHECKING:
    from penstock.client import Client


@click.command()
@queue_argument
@click.option(
    "--limit", type=click.IntRange(1, limits.BULK_LIMIT), default=1, show_default=True, help="Messages at most."
)
@click.option("--hold", "hold_ms", type=Duration(), help="How long to hold them.  [default: as the queue is set]")
@click.option("--wait", "wait_ms", type=Duration(most=limits.WAIT_MS), default="0s", show_default=True,
              help="How long to wait for the first one.")  # fmt: skip
@talks_to_server
def claim(client: Client, queue: str, limit: int, hold_ms: int | None, wait_ms: int, as_json: bool) -> int | None:
    """Claim messages to work on.

    Nobody else gets them until they are released or the hold ends. Finish a message with
    'penstock ack QUEUE RECEIPT'.
    """
    messages = client.claim(queue, limit, hold_ms, wait_ms)
    if as_json:
        print_json({"messages": [message_as_json(message) for message in messages]})
    elif messages:
        print_claimed(messages)
    if not messages:
        note(f"no message is ready in queue {queue}")
        return NOT_ALL_DONE
    return None
