"""`penstock ack`, `renew`, `release`, `peek` and `purge`, and how the commands write messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import click

from penstock import limits
from penstock.cli.options import Duration, WholeNumber, confirmed, queue_argument, talks_to_server, yes_option
from penstock.cli.output import Table, line_width, note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import age, body, number, plural
from penstock.clock import system_clock
from penstock.durations import duration

if TYPE_CHECKING:
    from penstock.client import Client, Message

_receipts = click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")


@click.command()
@queue_argument
@_receipts
@talks_to_server
def ack(client: Client, queue: str, receipts: tuple[str, ...], as_json: bool) -> int | None:
    """Finish claimed messages: they are gone for good.

    A RECEIPT comes from 'penstock claim'; a message id means the message, whichever claim holds it.
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


@click.command()
@queue_argument
@click.option(
    "--limit", type=WholeNumber(1, limits.BULK_LIMIT), default=10, show_default=True, help="Messages at most."
)
@click.option("--after", metavar="CURSOR", help="Go on where an earlier peek ended.")
@talks_to_server
def peek(client: Client, queue: str, limit: int, after: str | None, as_json: bool) -> int | None:
    """Look at messages, ready or not. Nothing is claimed."""
    peeked = client.peek(queue, limit, after)
    if as_json:
        print_json({"messages": [message_as_json(message) for message in peeked.messages], "after": peeked.after})
    elif peeked.messages:
        MessageTable("id", peeked.messages, shows_ready=True).print(peeked.messages)
        if peeked.after is not None and len(peeked.messages) == limit:
            note(f"there may be more: --after {peeked.after}")
    if not peeked.messages:
        note(f"queue {queue} has no {'more ' if after else ''}messages")
        return NOT_ALL_DONE
    return None


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


# How messages are written


def message_as_json(message: Message) -> dict[str, object]:
    """As the native API writes it."""
    value = asdict(message)
    del value["body"]
    if "receipt" in value:
        del value["behind"]
    if message.state is None:  # told only of a message that was found by a filter or by its id
        for name in ("state", "shipped", "claim", "last_claimed_at"):
            del value[name]
    return {**value, **body_as_json(message.body)}


def body_as_json(body: bytes) -> dict[str, str]:
    """Bytes that are not text become `body_base64`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


class MessageTable:
    """Messages, more of which may come. `key` is what the first column shows of them."""

    def __init__(
        self, key: Literal["id", "receipt"], first: Sequence[Message] | None = None, *, shows_ready: bool = False
    ) -> None:
        """There are columns of groups and of attributes where the `first` messages have any; without them, always."""
        self._key = key
        self._shows_ready = shows_ready
        self._has_attributes = first is None or any(message.attributes for message in first)
        self._has_groups = first is None or any(message.group is not None for message in first)
        header = [key, *(["ready"] if shows_ready else []), "receives", "age"]
        header += [*(["group"] if self._has_groups else []), *(["attributes"] if self._has_attributes else []), "body"]
        self._table = Table(header, right=("receives", "age"), narrow=("group", "attributes"), width=line_width())

    def print(self, messages: Sequence[Message]) -> None:
        now = system_clock()
        self._table.print([self._row(message, now) for message in messages])

    def _row(self, message: Message, now: int) -> list[str]:
        ready = [_ready(message, now)] if self._shows_ready else []
        groups = [message.group or ""] if self._has_groups else []
        attributes = [_attributes(message)] if self._has_attributes else []
        start = [getattr(message, self._key), *ready, number(message.receives), age(message.sent_at, now)]
        return [*start, *groups, *attributes, body(message.body)]


def _ready(message: Message, now: int) -> str:
    ready_at = message.ready_at
    if ready_at == limits.SHIPPED:
        return "in a shipment"
    if message.behind:
        return "behind others"
    return f"in {age(now, ready_at)}" if ready_at > now else "now"


def _attributes(message: Message) -> str:
    return " ".join(f"{key}={value}" for key, value in message.attributes.items())
