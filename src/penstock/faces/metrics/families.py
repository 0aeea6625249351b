"""Every family of `/metrics`: its name, its labels, and what it tells. `docs/metrics.md` has the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from penstock import __version__
from penstock.broker.commit import UNIT_SIZES
from penstock.edge.http import BOUNDS, WAIT_BOUNDS
from penstock.faces.metrics.store_look import StoreReport
from penstock.faces.metrics.totals import (
    COMMIT_SECONDS,
    REQUEST_SECONDS,
    REQUESTS,
    RETURNED_BYTES,
    STORE_ERRORS,
    SYNC_SECONDS,
    UNIT_OPERATIONS,
    UNIT_SECONDS,
    UNITS_WRITTEN,
    WAIT_SECONDS,
    Numbers,
    ProcessTotals,
)
from penstock.faces.metrics.writing import Family
from penstock.model import Overview, OverviewRow, ProcessReport, StoreFigures, Totals

_ROUTE: Final = ("api", "method", "route")
_PROCESS: Final = ("process",)
_QUEUE: Final = ("queue",)
# All queues that are not told of one by one. No queue can have this name.
REST: Final = "(rest)"
_TOTALS: Final = {
    "sent": "Messages stored by sends.",
    "claimed": "Deliveries, first and repeated.",
    "redelivered": "Deliveries of a message after its first.",
    "acked": "Messages that were acked.",
    "expired": "Messages that expired.",
    "dead_lettered": "Messages that went to the dead-letter queue.",
    "failed": "Messages that failed in a queue without a dead-letter queue.",
    "purged": "Messages that were purged.",
    "moved": "Messages that left by a move.",
    "collapsed": "Twins that collapsed.",
}


class ServerReport(Struct, frozen=True):
    """What all processes of a server say together. `began_at` is when the first of them did, in seconds since the
    epoch."""

    processes: Sequence[ProcessReport] = ()
    totals: ProcessTotals = {}
    began_at: float = 0.0


def families_of(report: ServerReport, store: StoreReport) -> Iterator[Family]:
    yield Family("build", "info", "The version of the server.", ("version",), {(__version__,): (1,)})
    yield Family("start_time_seconds", "gauge", "When the server started.", (), {(): (report.began_at,)})
    yield from _of_requests(report)
    yield from _of_processes(report)
    yield from _of_units(report)
    yield from _of_store(store.figures)
    if store.overview is not None:
        yield from _of_queues(store.overview)


def _of_requests(report: ServerReport) -> Iterator[Family]:
    totals, began_at = report.totals, report.began_at
    yield Family(
        "requests",
        "counter",
        "Requests that were answered.",
        (*_ROUTE, "status"),
        totals.get(REQUESTS, {}),
        began_at=began_at,
    )
    yield Family(
        "request_duration_seconds",
        "histogram",
        "From the last byte of a request until its answer is handed to the socket.",
        _ROUTE,
        totals.get(REQUEST_SECONDS, {}),
        BOUNDS,
        began_at,
    )
    yield Family(
        "waiting_request_duration_seconds",
        "histogram",
        "The same for requests that asked to wait until there is a message.",
        _ROUTE,
        totals.get(WAIT_SECONDS, {}),
        WAIT_BOUNDS,
        began_at,
    )


def _of_processes(report: ServerReport) -> Iterator[Family]:
    def samples(of: Callable[[ProcessReport], float]) -> Numbers:
        return {(one.name,): (of(one),) for one in report.processes}

    def gauge(name: str, told: str, of: Callable[[ProcessReport], float]) -> Family:
        return Family(name, "gauge", told, _PROCESS, samples(of))

    def counter(name: str, told: str, of: Callable[[ProcessReport], float]) -> Family:
        return Family(name, "counter", told, _PROCESS, samples(of), began_at=report.began_at)

    yield gauge("connections", "Connections of clients.", lambda one: one.connections)
    yield gauge("waiting_claims", "Claims that wait for a message.", lambda one: one.waiting_claims)
    yield gauge("process_up", "Whether the process runs; 0 while it is being replaced.", lambda one: one.pid > 0)
    yield counter("process_cpu_seconds", "Processor time.", lambda one: one.cpu_s)
    yield gauge("process_resident_memory_bytes", "Memory that is resident.", lambda one: one.memory_bytes)


def _of_units(report: ServerReport) -> Iterator[Family]:
    totals, began_at = report.totals, report.began_at

    def counter(name: str, told: str, labels: tuple[str, ...] = ()) -> Family:
        return Family(name, "counter", told, labels, totals.get(name, {}), began_at=began_at)

    yield Family(
        UNIT_OPERATIONS,
        "histogram",
        "Operations in each transaction of the store.",
        (),
        totals.get(UNIT_OPERATIONS, {}),
        UNIT_SIZES,
        began_at,
    )
    yield counter(UNIT_SECONDS, "Time spent in transactions that succeeded.")
    yield counter(COMMIT_SECONDS, "The part of it spent committing: writing what was left, and the sync.")
    yield counter(SYNC_SECONDS, "The part of that spent waiting until everything was on stable media.")
    yield counter(UNITS_WRITTEN, "Transactions that succeeded and were allowed to write.")
    yield counter(RETURNED_BYTES, "What the store has given back to the file system.")
    yield counter(STORE_ERRORS, "Transactions that failed, by the kind of error.", ("kind",))


def _of_store(figures: StoreFigures | None) -> Iterator[Family]:
    def gauge(name: str, told: str, value: float | None) -> Iterator[Family]:
        if value is not None:
            yield Family(name, "gauge", told, (), {(): (value,)})

    yield from gauge("store_up", "Whether the store answered in time.", int(figures is not None))
    if figures is not None:
        yield from gauge("store_size_bytes", "What the store takes.", figures.store_bytes)
        yield from gauge("store_log_bytes", "What its write-ahead log takes.", figures.log_bytes)
        yield from gauge("store_free_bytes", "Room that is left on its device.", figures.free_bytes)
        yield from gauge("store_unused_bytes", "Room inside the store that it does not use.", figures.unused_bytes)
        yield from gauge("ledger_rows", "Rows of the ledger.", figures.ledger_rows)
        yield from gauge("ledger_size_bytes", "What the ledger takes, about.", figures.ledger_bytes)
        oldest_ms = figures.ledger_oldest_ms
        if figures.ledger_rows is not None:
            told = "How long ago the oldest row of the ledger finished; 0 without one."
            yield from gauge("ledger_oldest_age_seconds", told, (oldest_ms or 0) / 1000)
        yield from gauge("open_shipments", "Shipments that are open.", figures.open_shipments)


def _of_queues(overview: Overview) -> Iterator[Family]:
    rows = overview.rows

    def of_each(name: str, told: str, of: Callable[[OverviewRow], float]) -> Family:
        return Family(name, "gauge", told, _QUEUE, {(row.name,): (of(row),) for row in rows})

    yield Family("queues", "gauge", "How many queues there are.", (), {(): (overview.total,)})
    yield Family("queue_messages", "gauge", "Messages by state.", (*_QUEUE, "state"), _messages(overview))
    yield of_each(
        "queue_oldest_ready_age_seconds",
        "How long ago the oldest ready message was sent; 0 without one.",
        lambda row: (row.oldest_ready_ms or 0) / 1000,
    )
    yield of_each("queue_paused", "Whether the queue is paused.", lambda row: row.paused_at is not None)
    for name, told in _TOTALS.items():
        samples: Numbers = {(row.name,): (_total(row.totals, name),) for row in rows}
        yield Family(f"queue_{name}", "counter", told, _QUEUE, samples)


def _total(totals: Totals, name: str) -> int:
    value: int = getattr(totals, name)
    return value


def _messages(overview: Overview) -> Numbers:
    samples: dict[tuple[str, ...], Sequence[float]] = {}
    for state in ("ready", "delayed", "claimed"):
        for row in overview.rows:
            samples[row.name, state] = (getattr(row, state),)
        if len(overview.rows) < overview.total:
            shown = sum(getattr(row, state) for row in overview.rows)
            # Those of the page are newer than the sum of all.
            samples[REST, state] = (max(0, getattr(overview.sums, state) - shown),)
    return samples
