"""The verbs that carry much, with messages and rows in Arrow: what `client.arrow` has. It needs pyarrow, and is loaded
when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from penstock import limits
from penstock.client import verbs
from penstock.client.address import Answer
from penstock.client.errors import InvalidRequest
from penstock.client.methods import Asks, AsksAsync, async_pages, async_verb, pages, verb
from penstock.client.requests import Moot, Pages, Request, queue_path
from penstock.client.values import Export, ExportRef, LedgerFilter, SentCounts, Shipment, ShipmentRef
from penstock.client.verbs import Form

Column: TypeAlias = pa.Array | pa.ChunkedArray

ARROW = "application/vnd.apache.arrow.stream"
_ACCEPT: Mapping[str, str] = {"Accept": ARROW}


@dataclass(frozen=True, slots=True)
class PeekedBatch:
    """`after` is where the next peek goes on, None past the end."""

    batch: pa.RecordBatch
    after: str | None


def send(queue: str, messages: pa.RecordBatch | pa.Table, key: str | None = None) -> Request[SentCounts]:
    """All or nothing, in one request: a column `body`, and if you like `content_type`, `attributes`, `delay_ms`,
    `group` and `dedup_id`. With a `key` as `send_once`, and without it each call stores them."""
    return verbs.bulk_send(queue, _written(messages), ARROW, key)


def claim(
    queue: str, limit: int = 1, hold_ms: int | None = None, wait_ms: int = 0, attempt: str | None = None
) -> Request[pa.RecordBatch]:
    """As `Client.claim`."""
    asked = verbs.claim(queue, limit, hold_ms, wait_ms, attempt)
    return Request(_whole, asked.method, asked.path, asked.body, asked.repeatable, wait_s=asked.wait_s, headers=_ACCEPT)


def ack(queue: str, receipts: Column) -> Request[list[bool]] | Moot[list[bool]]:
    """As `Client.ack`, of the column `receipt` of a claim."""
    if not len(receipts):
        return Moot([])
    body = _written(pa.table({"receipt": receipts}))
    return Request(verbs.done_from, "POST", queue_path(queue, "/ack"), body, headers={"Content-Type": ARROW})


def renew(queue: str, receipts: Column, hold_ms: int) -> Request[list[bool]] | Moot[list[bool]]:
    """As `Client.renew`, of the column `receipt` of a claim."""
    return verbs.renew(queue, _texts(receipts), hold_ms)


def release(queue: str, receipts: Column, delay_ms: int | None = None) -> Request[list[bool]] | Moot[list[bool]]:
    """As `Client.release`, of the column `receipt` of a claim."""
    return verbs.release(queue, _texts(receipts), delay_ms)


def peek(queue: str, limit: int = limits.BULK_LIMIT, after: str | None = None) -> Request[PeekedBatch]:
    """Look without claiming. `after` goes on where an earlier peek ended."""
    path = queue_path(queue, "/messages", limit=limit, after=after)
    return Request(_peeked, "GET", path, repeatable=True, headers=_ACCEPT)


def read_shipment(
    shipment: ShipmentRef | Shipment, start: int = 0, stop: int | None = None, per_page: int = limits.BULK_LIMIT
) -> Pages[pa.RecordBatch]:
    """The messages at positions `start` up to, not including, `stop`."""
    return verbs.read_positions(shipment, start, stop, per_page, _FORM)


def ledger(
    *, after: int = 0, per_page: int = limits.BULK_LIMIT, **wanted: Unpack[LedgerFilter]
) -> Pages[pa.RecordBatch]:
    """What became of messages: the rows numbered above `after`."""
    return verbs.read_ledger(after, per_page, wanted, _FORM)


def read_export(
    export: ExportRef | Export, after: int = 0, through: int | None = None, per_page: int = limits.BULK_LIMIT
) -> Pages[pa.RecordBatch]:
    """Its rows numbered above `after`, up to and including `through`."""
    return verbs.read_numbers(export, after, through, per_page, _FORM)


class Arrow:
    """A client's verbs in Arrow. Pages come as record batches with at least one row."""

    def __init__(self, client: Asks) -> None:
        self._ask = client._ask

    send = verb(send)
    claim = verb(claim)
    ack = verb(ack)
    renew = verb(renew)
    release = verb(release)
    peek = verb(peek)
    read_shipment = pages(read_shipment)
    ledger = pages(ledger)
    read_export = pages(read_export)


class AsyncArrow:
    """The same, to be awaited."""

    def __init__(self, client: AsksAsync) -> None:
        self._ask = client._ask

    send = async_verb(send)
    claim = async_verb(claim)
    ack = async_verb(ack)
    renew = async_verb(renew)
    release = async_verb(release)
    peek = async_verb(peek)
    read_shipment = async_pages(read_shipment)
    ledger = async_pages(ledger)
    read_export = async_pages(read_export)


def _texts(receipts: Column) -> list[str]:
    """For the routes that read receipts in JSON only."""
    if receipts.null_count:
        raise InvalidRequest("a receipt must not be null")
    texts: list[str] = receipts.to_pylist()
    return texts


def _written(messages: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, messages.schema) as writer:
        writer.write(messages)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _opened(answer: Answer) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    try:
        with pa.ipc.open_stream(answer.body) as reader:
            return reader.schema, list(reader)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is not in Arrow's format: {error}") from error


def _whole(answer: Answer) -> pa.RecordBatch:
    schema, batches = _opened(answer)
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _peeked(answer: Answer) -> PeekedBatch:
    return PeekedBatch(_whole(answer), answer.headers.get("Penstock-After"))


def _batches(answer: Answer) -> list[pa.RecordBatch]:
    return [batch for batch in _opened(answer)[1] if batch.num_rows]


def _rows_in(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _last_number(batches: Sequence[pa.RecordBatch]) -> int:
    last: int = batches[-1]["number"][-1].as_py()
    return last


def _through(batches: Sequence[pa.RecordBatch], number: int) -> list[pa.RecordBatch]:
    kept: list[Any] = [batch.filter(pc.less_equal(batch["number"], number)) for batch in batches]
    return [batch for batch in kept if batch.num_rows]


_FORM: Form[pa.RecordBatch] = Form(_batches, _rows_in, _last_number, _through, _ACCEPT)
