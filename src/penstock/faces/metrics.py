"""What the processes of a server do: `/metrics` for Prometheus, and `/v1/processes` for `penstock top` and other
programs. Every process can tell of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from penstock import __version__
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.answers import json_response
from penstock.faces.description import TEXT, Op, Tag, answer, text
from penstock.faces.native.requests import route
from penstock.faces.permission import Permission, Scope
from penstock.model import ProcessReport

Reports: TypeAlias = Callable[[], Sequence[ProcessReport]]


class ProcessList(Struct):
    processes: Sequence[ProcessReport]


class _Family(Struct, frozen=True):
    """What Prometheus calls so: one kind of figure. Its name is that of the sum; `of` reads it from one process."""

    name: str
    kind: str
    help: str
    of: Callable[[ProcessReport], float]


_FAMILIES: Final = (
    _Family("cpu_seconds_total", "counter", "Processor time.", lambda one: one.cpu_s),
    _Family("resident_memory_bytes", "gauge", "Memory that is resident.", lambda one: one.memory_bytes),
    _Family("connections", "gauge", "Connections of clients.", lambda one: one.connections),
    _Family("requests_total", "counter", "Requests that were answered.", lambda one: one.requests),
    _Family("waiting_claims", "gauge", "Claims that wait for a message.", lambda one: one.waiting_claims),
    _Family("units_total", "counter", "Transactions of the store.", lambda one: one.units),
    _Family("operations_total", "counter", "Operations in transactions of the store.", lambda one: one.operations),
)
# The version of the text format, as Prometheus asks for it.
_CONTENT_TYPE = (b"Content-Type", b"text/plain; version=0.0.4; charset=utf-8")

_TAG = Tag("metrics", "What the processes of the server do.")
_EXAMPLE = {
    "name": "server",
    "pid": 4711,
    "cpu_s": 12.5,
    "memory_bytes": 41_943_040,
    "connections": 64,
    "requests": 500_000,
    "waiting_claims": 3,
    "units": 9_000,
    "operations": 500_000,
}
_METRICS = Op(
    id="metrics",
    tag=_TAG,
    summary="Figures for Prometheus",
    description="In Prometheus' text format: each figure for all processes together, and under `penstock_process_` for "
    "each of them.",
    answers={200: answer("The figures.", text(), "penstock_connections 64\n", TEXT)},
)
_PROCESSES = Op(
    id="listProcesses",
    tag=_TAG,
    summary="List the processes of the server",
    description="What each does. Those of others may be as old as a second.",
    answers={200: answer("The processes.", ProcessList, {"processes": [_EXAMPLE]})},
)


def metrics_routes(reports: Reports) -> list[Route]:
    def metrics(_request: Request) -> Response:
        return Response(200, exposition(reports()).encode(), (_CONTENT_TYPE,))

    def processes(_request: Request) -> Response:
        return json_response(200, ProcessList(reports()))

    every = Permission("get_status", Scope.EVERY_QUEUE)
    return [
        Route("GET", "/metrics", metrics, head=True, permission=every, describe=_METRICS),
        route("GET", "/v1/processes", processes, _PROCESSES, every, head=True),
    ]


def exposition(processes: Sequence[ProcessReport]) -> str:
    return "".join(f"{line}\n" for line in _lines(processes))


def _lines(processes: Sequence[ProcessReport]) -> Iterator[str]:
    yield "# HELP penstock_build_info The version of the server."
    yield "# TYPE penstock_build_info gauge"
    yield f'penstock_build_info{{version="{__version__}"}} 1'
    for family in _FAMILIES:
        name = f"penstock_{family.name}"
        yield f"# HELP {name} {family.help}"
        yield f"# TYPE {name} {family.kind}"
        yield f"{name} {sum(map(family.of, processes))}"
        name = f"penstock_process_{family.name}"
        yield f"# HELP {name} {family.help[:-1]}, by process."
        yield f"# TYPE {name} {family.kind}"
        for process in processes:
            yield f'{name}{{process="{process.name}"}} {family.of(process)}'
