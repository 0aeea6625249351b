"""`GET /health`: green while the store answers, else red."""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.message import Request, Response
from penstock.edge.router import Route
from penstock.faces.mqs.trace import traced
from penstock.faces.permission import PUBLIC
from penstock.pending import Pending

_TEXT = ((b"Content-Type", b"text/plain"),)
_GREEN = Response(200, b"green", _TEXT)
_RED = Response(200, b"red", _TEXT)


def health_routes(broker: Broker) -> list[Route]:
    def health(_request: Request) -> Pending[Response]:
        asked = broker.work(lambda unit, _now: unit.list_queues(0, 1), writes=False)
        return asked.then(lambda _page: _GREEN, lambda _error: _RED)

    return [Route("GET", "/health", traced(health), head=True, permission=PUBLIC)]
