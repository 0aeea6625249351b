"""`penstock shipment`: messages handed over in numbered sets, each settled as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from penstock import limits
from penstock.cli.messages import MessageTable, message_as_json
from penstock.cli.options import Duration, WholeNumber, queue_argument, talks_to_server
from penstock.cli.output import note, print_json, print_json_line, print_table
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import instant, number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Shipment, ShipmentRef

_TOGETHER = 1_000
_HOLD = Duration(least=1_000)
_hold_option = click.option("--hold", "hold_ms", type=_HOLD, default="1h", show_default=True, help="How long from now.")
_consumer_argument = click.argument("consumer")


def _named(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds QUEUE, CONSUMER and NUMBER."""
    command = click.argument("number", type=WholeNumber(min=1), metavar="NUMBER")(command)
    return queue_argument(_consumer_argument(command))


@click.group()
def shipment() -> None:
    """Claim, read and settle shipments: numbered sets of messages for one consumer.

    A consumer's shipments from a queue are numbered from 1 on, and one is in progress at a time. It can be read again
    and again until it is settled, which finishes its messages, or released.
    """


@shipment.command()
@queue_argument
@_consumer_argument
@click.option("--number", type=WholeNumber(min=1), metavar="N", help="Which one.  [default: the next]")
@click.option("--limit", type=WholeNumber(1, limits.SHIPMENT_ROWS), default=100_000, show_default=True,
              help="Messages at most.")  # fmt: skip
@click.option("--max-bytes", type=WholeNumber(1, limits.SHIPMENT_BYTES), metavar="N",
              help="Bytes of their bodies at most, if there are two.  [default: any number]")  # fmt: skip
@_hold_option
@talks_to_server
def claim(
    client: Client,
    queue: str,
    consumer: str,
    number: int | None,
    limit: int,
    max_bytes: int | None,
    hold_ms: int,
    as_json: bool,
) -> int | None:
    """Claim a shipment, or the one that is in progress again."""
    ref = client.next_shipment(queue, consumer) if number is None else _ref(queue, consumer, number)
    claimed = client.claim_shipment(ref, limit, hold_ms, max_bytes)
    if claimed is None:
        note(f"no message is ready in queue {queue}")
        return NOT_ALL_DONE
    _print(claimed, as_json, f"claimed {_described(claimed)} until {instant(claimed.until)}")
    return None


@shipment.command()
@_named
@talks_to_server
def show(client: Client, queue: str, consumer: str, number: int, as_json: bool) -> None:
    """Show the state of a shipment, or how it ended."""
    found = client.shipment(_ref(queue, consumer, number))
    if as_json:
        print_json(asdict(found))
        return
    rows = {
        "queue": found.queue,
        "consumer": found.consumer,
        "number": str(found.number),
        "state": found.state,
        "messages": f"{found.messages:,}",
        "bytes": f"{found.bytes:,}",
        "claimed": instant(found.claimed_at),
        "ended" if found.has_ended else "until": _end(found),
    }
    if found.stored_in is not None:
        rows["stored in"] = found.stored_in
    print_table(list(rows.items()))


@shipment.command()
@_named
@click.option("--start", type=WholeNumber(min=0), default=0, show_default=True, metavar="POSITION",
              help="The first is at 0.")  # fmt: skip
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Messages at most.  [default: all]")
@talks_to_server
def read(
    client: Client, queue: str, consumer: str, number: int, start: int, limit: int | None, as_json: bool
) -> int | None:
    """Show the messages of a shipment, always in the same order. With --json a message is a line."""
    stop = None if limit is None else start + limit
    messages = client.read_shipment(_ref(queue, consumer, number), start, stop)
    count = 0
    table = MessageTable("id")
    while some := list(islice(messages, _TOGETHER)):
        count += len(some)
        if as_json:
            for message in some:
                print_json_line(message_as_json(message))
        else:
            table.print(some)
    if not count:
        note(f"shipment {number} of {consumer} has no message at position {start} or behind it")
        return NOT_ALL_DONE
    return None


@shipment.command()
@_named
@click.option("--keep", is_flag=True, help="Leave it readable until the consumer's next one is settled.")
@click.option("--stored-in", metavar="TEXT", help="Where its messages are now, for those who look at it later.")
@talks_to_server
def settle(
    client: Client, queue: str, consumer: str, number: int, keep: bool, stored_in: str | None, as_json: bool
) -> None:
    """Finish all messages of a shipment."""
    settled = client.settle_shipment(_ref(queue, consumer, number), keep, stored_in)
    _print(settled, as_json, f"settled {_described(settled)}")


@shipment.command()
@_named
@talks_to_server
def release(client: Client, queue: str, consumer: str, number: int, as_json: bool) -> None:
    """Give all messages of a shipment back: they are ready."""
    released = client.release_shipment(_ref(queue, consumer, number))
    _print(released, as_json, f"released {_described(released)}")


@shipment.command()
@_named
@_hold_option
@talks_to_server
def heartbeat(client: Client, queue: str, consumer: str, number: int, hold_ms: int, as_json: bool) -> None:
    """Hold a shipment for longer."""
    held = client.beat_shipment(_ref(queue, consumer, number), hold_ms)
    _print(held, as_json, f"held {_described(held)} until {instant(held.until)}")


@shipment.command("list")
@queue_argument
@click.option("--consumer", help="Only those of this consumer.")
@talks_to_server
def list_shipments(client: Client, queue: str, consumer: str | None, as_json: bool) -> int | None:
    """List the shipments of a queue, by consumer and number."""
    found = list(client.shipments(queue, consumer))
    if as_json:
        print_json({"shipments": [asdict(one) for one in found]})
    elif found:
        header = ("consumer", "number", "state", "messages", "bytes", "claimed", "until or ended")
        print_table([_row(one) for one in found], header, right=("number", "messages", "bytes"))
    if not found:
        note(f"queue {queue} has no shipments")
        return NOT_ALL_DONE
    return None


def _ref(queue: str, consumer: str, number: int) -> ShipmentRef:
    from penstock.client import ShipmentRef

    return ShipmentRef(queue, consumer, number)


def _print(changed: Shipment, as_json: bool, line: str) -> None:
    if as_json:
        print_json(asdict(changed))
    else:
        click.echo(line)


def _described(shipment: Shipment) -> str:
    return f"shipment {shipment.number} of {shipment.consumer}: {plural(shipment.messages, 'message')}"


def _end(shipment: Shipment) -> str:
    return instant(shipment.until if shipment.ended_at is None else shipment.ended_at)


def _row(one: Shipment) -> tuple[str, ...]:
    counts = (number(one.messages), number(one.bytes))
    return (one.consumer, str(one.number), one.state, *counts, instant(one.claimed_at), _end(one))
