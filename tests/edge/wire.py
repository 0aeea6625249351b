"""A connection of the edge without a socket."""

from __future__ import annotations

import asyncio

from devtools.wire import Wire
from penstock.edge.connection import Connection
from penstock.edge.connections import Connections
from penstock.edge.http import CONTINUE, Request, Response
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.router import BodyRule, Route, Router
from penstock.pending import Pending


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join((*lines, "", "")).encode() + body


class Served:
    """A connection on a loop that runs only when told to. `taken` counts the bytes that it has been given."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pending: list[Pending[Response]] = []
        self.taken = 0
        rule = BodyRule(1 << 16)
        routes = (
            Route("GET", "/now", self.now),
            Route("POST", "/now", self.now, rule),
            Route("POST", "/later", self.later, rule),
            Route("POST", "/cut", self.now, BodyRule(5, cut=True)),
        )
        self.connections = Connections(self.loop, Timeouts(), EdgeLimits())
        self.connection = Connection(Router(routes), self.connections, self.loop)
        self.wire = Wire()
        self.connection.connection_made(self.wire)

    def now(self, request: Request) -> Response:
        return Response(200, b"%d %d " % (len(request.body), request.cut) + request.body)

    def later(self, request: Request) -> Pending[Response]:
        self.pending.append(Pending())
        return self.pending[-1].map(lambda _: self.now(request))

    def turn(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def answer_all(self) -> None:
        """Resolve what waits, until nothing does."""
        self.turn()
        while self.pending:
            self.pending.pop().resolve(Response(200))
            self.turn()

    def receive(self, data: bytes) -> None:
        if not self.wire.closed:
            self.taken += len(data)
            self.connection.data_received(data)

    def receive_while_reading(self, data: bytes, piece: int = 1 << 16) -> bytes:
        """As a real transport hands it over, until it is asked to stop; what is left is given back."""
        while data and self.wire.reading and not self.wire.closed:
            self.receive(data[:piece])
            data = data[piece:]
        return data

    def end(self) -> bytes:
        self.answer_all()
        written = bytes(self.wire.written)
        self.connection.connection_lost(None)
        assert len(self.connections) == 0
        assert self.connections.bodies.held == 0
        self.connections.stop_clock()
        self.loop.close()
        # Whether a body is asked for depends on whether it has come already.
        written = written.replace(CONTINUE, b"")
        return b"\r\n".join(line for line in written.split(b"\r\n") if not line.startswith(b"Date:"))
