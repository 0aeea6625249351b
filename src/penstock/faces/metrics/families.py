"""Every family of `/metrics`: its name, its labels, and what it tells. `docs/metrics.md` has the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from penstock import __version__
from penstock.edge.http import BOUNDS, WAIT_BOUNDS
from penstock.faces.metrics.totals import REQUEST_SECONDS, REQUESTS, WAIT_SECONDS, Numbers, Totals
from penstock.faces.metrics.writing import Family
from penstock.model import ProcessReport

_ROUTE: Final = ("api", "method", "route")
_PROCESS: Final = ("process",)


class ServerReport(Struct, frozen=True):
    """What all processes of a server say together. `began_at` is when the first of them did, in seconds since the
    epoch."""

    processes: Sequence[ProcessReport] = ()
    totals: Totals = {}
    began_at: float = 0.0


def families_of(report: ServerReport) -> Iterator[Family]:
    yield Family("build", "info", "The version of the server.", ("version",), {(__version__,): (1,)})
    yield Family("start_time_seconds", "gauge", "When the server has started.", (), {(): (report.began_at,)})
    yield from _of_requests(report)
    yield from _of_processes(report)


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
    yield counter("units", "Transactions of the store.", lambda one: one.units)
    yield counter("operations", "Operations in transactions of the store.", lambda one: one.operations)
    yield gauge("process_up", "Whether the process runs; 0 while it is being replaced.", lambda one: one.pid > 0)
    yield counter("process_cpu_seconds", "Processor time.", lambda one: one.cpu_s)
    yield gauge("process_resident_memory_bytes", "Memory that is resident.", lambda one: one.memory_bytes)
