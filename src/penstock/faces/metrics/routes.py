"""The paths of the metrics, and which format a scraper likes best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from penstock import __version__
from penstock.compiled import is_compiled
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.answers import json_response
from penstock.faces.description import TEXT, Op, Tag, answer, text
from penstock.faces.media import prefers
from penstock.faces.metrics.families import ServerReport, families_of
from penstock.faces.metrics.store_look import AskStore, StoreReport
from penstock.faces.metrics.writing import openmetrics_text, prometheus_text
from penstock.faces.native.requests import Instant, route
from penstock.faces.permission import Permission, Scope
from penstock.model import ProcessReport
from penstock.pending import Pending

Look: TypeAlias = Callable[[], ServerReport]
Reports: TypeAlias = Callable[[], Sequence[ProcessReport]]

_OPEN: Final = b"application/openmetrics-text"
_OPENMETRICS: Final = ((b"Content-Type", _OPEN + b"; version=1.0.0; charset=utf-8"), (b"Vary", b"Accept"))
_PROMETHEUS: Final = ((b"Content-Type", b"text/plain; version=0.0.4; charset=utf-8"), (b"Vary", b"Accept"))
# The most exact one counts.
_NAMES_OF_TEXT: Final = (b"text/plain", b"text/*", b"*/*")


class ProcessList(Struct):
    processes: Sequence[ProcessReport]


class ServerView(Struct):
    version: str
    store: Annotated[str, Meta(description="the kind of store, as its URLs name it")]
    compiled: Annotated[bool, Meta(description="whether what every request passes through runs compiled")]
    began_at: Annotated[Instant, Meta(description="when it has started, in milliseconds since 1970")]


_TAG = Tag("metrics", "What the server does.")
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
_SHOWN = 'penstock_connections{process="server"} 64\n'
_METRICS = Op(
    id="metrics",
    tag=_TAG,
    summary="Figures for Prometheus",
    description="In Prometheus' text format, or in OpenMetrics where `Accept` ranks it at least as high.",
    answers={200: answer("The figures.", text(), _SHOWN, TEXT)},
)
_PROCESSES = Op(
    id="listProcesses",
    tag=_TAG,
    summary="List the processes of the server",
    description="What each does. Those of others may be as old as a second.",
    answers={200: answer("The processes.", ProcessList, {"processes": [_EXAMPLE]})},
)
_SERVER = Op(
    id="showServer",
    tag=_TAG,
    summary="What kind of server this is",
    description="Its version, what keeps its messages, and whether it runs compiled.",
    answers={
        200: answer(
            "The server.",
            ServerView,
            {"version": "0.1.0", "store": "sqlite", "compiled": True, "began_at": 1_760_000_000_000},
        )
    },
)


def metrics_routes(look: Look, ask_store: AskStore, kind: str = "") -> list[Route]:
    """`kind` is the kind of store, as its URLs name it."""

    def metrics(request: Request) -> Pending[Response]:
        return ask_store().map(lambda found: tell(request, found))

    def tell(request: Request, found: StoreReport) -> Response:
        families = families_of(look(), found)
        if prefers(request.headers.get(b"accept", b"").lower(), _OPEN, _NAMES_OF_TEXT):
            return Response(200, openmetrics_text(families), _OPENMETRICS)
        return Response(200, prometheus_text(families), _PROMETHEUS)

    def processes(_request: Request) -> Response:
        return json_response(200, ProcessList(look().processes))

    def server(_request: Request) -> Response:
        began_at = int(look().began_at * 1000)
        return json_response(200, ServerView(__version__, kind, is_compiled(), began_at))

    every = Permission("get_status", Scope.EVERY_QUEUE)
    return [
        Route("GET", "/metrics", metrics, head=True, permission=every, describe=_METRICS),
        route("GET", "/v1/processes", processes, _PROCESSES, every, head=True),
        route("GET", "/v1/server", server, _SERVER, every, head=True),
    ]
