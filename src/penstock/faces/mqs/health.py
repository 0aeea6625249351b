"""`GET /health`: green while the store can be read and written, else red."""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import StoreFull
from penstock.faces.description import TEXT, Op, answer, text
from penstock.faces.mqs.trace import TAG, TRACE, TRACED, traced
from penstock.faces.permission import PUBLIC
from penstock.pending import Pending

_TEXT = ((b"Content-Type", b"text/plain"),)
_GREEN = Response(200, b"green", _TEXT)
_RED = Response(200, b"red", _TEXT)

_HEALTH = Op(
    id="mqsHealth",
    tag=TAG,
    summary="Ask for the server's health",
    description="Asks the store as well, and at most once a second writes to it.",
    parameters=(TRACE,),
    answers={
        200: answer("`red` when the store cannot be used.", text(enum=["green", "red"]), "green", TEXT, headers=TRACED)
    },
)


def health_routes(broker: Broker) -> list[Route]:
    def health(_request: Request) -> Pending[Response]:
        return broker.check().map(lambda _none: _GREEN, answered)

    def answered(error: Exception) -> Response:
        # Messages can still be received and deleted, which makes room.
        return _GREEN if isinstance(error, StoreFull) else _RED

    return [Route("GET", "/health", traced(health), head=True, permission=PUBLIC, describe=_HEALTH)]
