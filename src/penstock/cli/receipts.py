"""`penstock ack`, `renew` and `release`: what becomes of claimed messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import Duration, queue_argument, talks_to_server
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import plural

if TYPE_CHECKING:
    from penstock.client import Client

_receipts = click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")


@click.command()
@queue_argument
@_receipts
@talks_to_server
def ack(client: Client, queue: str, receipts: tuple[str, ...], as_json: bool) -> int | None:
    """Finish claimed messages: they are gone for good.

    A RECEIPT comes from 'penstock claim'; a message id means the message whoever holds it.
    """
    return _report("acked", client, queue, receipts, client.ack(queue, receipts), as_json)


@click.command()
@queue_argument
@_receipts
@click.option("--hold", "hold_ms", type=Duration(), default="30s", show_default=True, help="How long from now.")
@talks_to_server
def renew(client: Client, queue: str, receipts: tuple[str, ...], hold_ms: int, as_json: bool) -> int | None:
    """Hold claimed messages for longer."""
    return _report("renewed", client, queue, receipts, client.renew(queue, receipts, hold_ms), as_json)


@click.command()
@queue_argument
@_receipts
@click.option("--delay", "delay_ms", type=Duration(), help="Ready after this, instead of the queue's backoff.")
@talks_to_server
def release(client: Client, queue: str, receipts: tuple[str, ...], delay_ms: int | None, as_json: bool) -> int | None:
    """Give claimed messages back: they are ready at once, or after a delay or the queue's backoff."""
    return _report("released", client, queue, receipts, client.release(queue, receipts, delay_ms), as_json)


def _report(
    verb: str, client: Client, queue: str, receipts: tuple[str, ...], done: list[bool], as_json: bool
) -> int | None:
    if not any(done):
        # An unknown queue holds no claims, and the server says no more; a peek raises, and needs no further right.
        client.peek(queue, 1)
    if as_json:
        print_json({"done": done})
    else:
        click.echo(f"{verb} {plural(sum(done), 'message')}")
    for receipt, was_done in zip(receipts, done, strict=True):
        if not was_done:
            note(f"not {verb}: {receipt} (its claim has ended, or there is no such message)")
    return None if all(done) else NOT_ALL_DONE
