"""The bulk verbs of the native API, messages as Arrow: all that the Spark side says to a server is said here.

Every verb may be repeated without doing anything twice: shipments are claimed and ended by number, sends carry a key.
So a request that was lost, or answered with "try again", is made again until the patience is over. Nothing here knows
of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.compute as pc

from penstock import limits
from penstock.client.address import Answer
from penstock.spark.asking import Asking, object_of
from penstock.spark.failures import Conflict, Ended, Failed, Refused, Unreachable, WireError

__all__ = [
    "ARROW", "PAGE_ROWS", "Conflict", "Ended", "Export", "Failed", "Refused", "SentOnce", "Shipment", "Unreachable",
    "Wire", "WireError",
]  # fmt: skip

ARROW = "application/vnd.apache.arrow.stream"
PAGE_ROWS = 10_000
_LIST_PAGE = limits.LIST_LIMIT
_IN_PROGRESS = ("open", "gathering")

T = TypeVar("T")


@dataclass(frozen=True)
class Shipment:
    """`state` is open, gathering, settled, released or lost. Instants are milliseconds since the epoch."""

    queue: str
    consumer: str
    number: int
    state: str
    messages: int
    bytes: int
    claimed_at: int
    until: int
    ended_at: int | None = None


@dataclass(frozen=True)
class Export:
    """The ledger rows numbered above `after` through `through`: `rows` of them."""

    consumer: str
    number: int
    after: int
    through: int
    rows: int
    claimed_at: int
    settled_at: int | None = None


@dataclass(frozen=True)
class SentOnce:
    count: int
    stored: int
    repeated: bool


class Wire(Asking):
    """A server's bulk verbs, for any number of threads. It can be pickled, and then opens connections of its own."""

    # Queues

    def queue(self, name: str) -> dict[str, Any]:
        return self._ask("GET", _queue(name))

    def queues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            query = urlencode({"offset": len(found), "limit": _LIST_PAGE, "count": "false"})
            answer = self._ask("GET", f"/v1/queues?{query}")
            found += answer["queues"]
            if not answer["queues"] or len(found) >= answer["total"]:
                return found

    def create_queue(self, name: str, settings: Mapping[str, object] | None = None) -> None:
        """A queue that exists already stays as it is."""
        try:
            self._ask("PUT", _queue(name), settings or {})
        except Conflict:
            self.queue(name)

    # Shipments

    def claim_shipment(self, queue: str, consumer: str, number: int, limit: int, hold_ms: int) -> Shipment | None:
        """The shipment of this number, claimed now or before; None when nothing is ready."""
        asked = {"limit": limit, "hold_ms": hold_ms}
        answer = self._ask("PUT", _shipment(queue, consumer, number), asked)
        return _made(Shipment, answer) if answer else None

    def shipment(self, queue: str, consumer: str, number: int) -> Shipment | None:
        try:
            return _made(Shipment, self._ask("GET", _shipment(queue, consumer, number)))
        except Refused as error:
            if error.status != 404:
                raise
        self.queue(queue)  # a missing queue is another matter than a missing number
        return None

    def shipments(self, queue: str, consumer: str | None = None) -> list[Shipment]:
        return self._listed(Shipment, _queue(queue, "/shipments"), "shipments", consumer)

    def next_shipment(self, queue: str, consumer: str) -> int:
        """The number of the one in progress, else the number after the last."""
        last = self.shipments(queue, consumer)[-1:]
        return next((it.number if it.state in _IN_PROGRESS else it.number + 1 for it in last), 1)

    def read_shipment(self, queue: str, consumer: str, number: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The messages at positions `start` up to, not including, `stop`, as far as there are any."""
        while start < stop:
            query = urlencode({"start": start, "limit": min(PAGE_ROWS, stop - start)})
            path = _shipment(queue, consumer, number, f"/messages?{query}")
            before = start
            for batch in _batches(self._answer("GET", path, accept=ARROW)):
                start += batch.num_rows
                if batch.num_rows:
                    yield batch
            if start == before:
                return

    def settle_shipment(self, queue: str, consumer: str, number: int, keep: bool = False) -> Shipment:
        """`keep` leaves it readable until the consumer's next one is settled."""
        return _made(Shipment, self._ask("POST", _shipment(queue, consumer, number, "/settle"), {"keep": keep}))

    def release_shipment(self, queue: str, consumer: str, number: int) -> Shipment:
        return _made(Shipment, self._ask("POST", _shipment(queue, consumer, number, "/release"), {}))

    def beat_shipment(self, queue: str, consumer: str, number: int, hold_ms: int) -> Shipment:
        asked = {"hold_ms": hold_ms}
        return _made(Shipment, self._ask("POST", _shipment(queue, consumer, number, "/heartbeat"), asked))

    # Exports of the ledger

    def claim_export(self, consumer: str, number: int, limit: int) -> Export | None:
        answer = self._ask("PUT", _export(consumer, number), {"limit": limit})
        return _made(Export, answer) if answer else None

    def exports(self, consumer: str | None = None) -> list[Export]:
        return self._listed(Export, "/v1/ledger/exports", "exports", consumer)

    def next_export(self, consumer: str) -> int:
        last = self.exports(consumer)[-1:]
        return next((it.number if it.settled_at is None else it.number + 1 for it in last), 1)

    def read_export(self, consumer: str, number: int, after: int, through: int) -> Iterator[pa.RecordBatch]:
        """Its rows numbered above `after`, up to and including `through`."""
        while after < through:
            query = urlencode({"after": after, "limit": PAGE_ROWS})
            batches = _batches(self._answer("GET", _export(consumer, number, f"/rows?{query}"), accept=ARROW))
            if not any(batch.num_rows for batch in batches):
                return
            for batch in batches:
                kept = batch.filter(pc.less_equal(batch["number"], through))
                if kept.num_rows:
                    yield kept
                if batch.num_rows:
                    after = batch["number"][-1].as_py()

    def settle_export(self, consumer: str, number: int) -> Export:
        return _made(Export, self._ask("POST", _export(consumer, number, "/settle"), {}))

    def ledger(self, after: int = 0, limit: int = PAGE_ROWS) -> tuple[pa.RecordBatch, int | None]:
        """Rows numbered above `after`, and the number to go on after; None at the end."""
        answer = self._answer("GET", f"/v1/ledger?{urlencode({'after': after, 'limit': limit})}", accept=ARROW)
        following = answer.headers.get("Penstock-After")
        return _whole(answer), None if following is None else int(following)

    # Messages

    def peek(self, queue: str, limit: int = PAGE_ROWS, after: str | None = None) -> tuple[pa.RecordBatch, str | None]:
        """Messages without claiming them, and the cursor to go on after; None at the end."""
        query = urlencode({"limit": limit} | ({} if after is None else {"after": after}))
        answer = self._answer("GET", _queue(queue, f"/messages?{query}"), accept=ARROW)
        return _whole(answer), answer.headers.get("Penstock-After")

    def send(self, queue: str, batch: pa.RecordBatch, key: str) -> SentOnce:
        """Stores the messages, unless a send with this key was stored before. Conflict: that one had other content."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        body = sink.getvalue().to_pybytes()
        path = _queue(queue, "/messages")
        answer = self._answer("POST", path, body, content_type=ARROW, more={"Idempotency-Key": key})
        return _made(SentOnce, object_of(answer))

    def _listed(self, kind: Callable[..., T], path: str, name: str, consumer: str | None) -> list[T]:
        """Every page. The cursor is a number, and numbers go up only within one consumer's."""
        found = [] if consumer is None else [consumer]
        listed: list[T] = []
        if consumer is None:
            first = self._ask("GET", f"{path}?{urlencode({'after': 0, 'limit': _LIST_PAGE})}")[name]
            if len(first) < _LIST_PAGE:
                return [_made(kind, item) for item in first]
            found = sorted({item["consumer"] for item in first})
        for one in found:
            after = 0
            while True:
                query = urlencode({"consumer": one, "after": after, "limit": _LIST_PAGE})
                page = self._ask("GET", f"{path}?{query}")[name]
                listed += [_made(kind, item) for item in page]
                if len(page) < _LIST_PAGE:
                    break
                after = page[-1]["number"]
        return listed


def _queue(name: str, rest: str = "") -> str:
    return f"/v1/queues/{_segment(name)}{rest}"


def _shipment(queue: str, consumer: str, number: int, rest: str = "") -> str:
    return _queue(queue, f"/shipments/{_segment(consumer)}/{number}{rest}")


def _export(consumer: str, number: int, rest: str = "") -> str:
    return f"/v1/ledger/exports/{_segment(consumer)}/{number}{rest}"


def _segment(name: str) -> str:
    # An empty name or dots would be another path altogether, and some proxies would go there.
    if name in ("", ".", ".."):
        raise Refused(f"{name!r} is not a name")
    return quote(name, safe="")


def _made(kind: Callable[..., T], value: Mapping[str, Any]) -> T:
    """Of the fields we know; a newer server may tell more."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    try:
        return kind(**{name: value[name] for name in names & value.keys()})
    except TypeError:
        raise Failed("the answer lacks something; is it a Penstock server?") from None


def _batches(answer: Answer) -> list[pa.RecordBatch]:
    return _opened(answer)[1]


def _whole(answer: Answer) -> pa.RecordBatch:
    schema, batches = _opened(answer)
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _opened(answer: Answer) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    try:
        with pa.ipc.open_stream(answer.body) as reader:
            return reader.schema, list(reader)
    except pa.ArrowInvalid as error:
        raise Failed(f"the answer is not in Arrow's format: {error}") from None
