"""The listening socket of a router: start, the port it got, and a stop that lets requests finish.

Any asyncio event loop will do; the program chooses uvloop. It never reads a request.
"""

from __future__ import annotations

import asyncio
import ssl as tls

from penstock.edge.connection import Connection
from penstock.edge.connections import Connections
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.router import Router

# Connections that the kernel keeps until the event loop accepts them.
_ACCEPT_BACKLOG = 1024


class Listener:
    def __init__(self, router: Router, timeouts: Timeouts | None = None, limits: EdgeLimits | None = None) -> None:
        self._router = router
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or EdgeLimits()
        self._server: asyncio.Server | None = None
        self._connections: Connections | None = None
        self._port = 0

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        router = self._router
        connections = Connections(loop, self._timeouts, self._limits)

        def connect() -> asyncio.BaseProtocol:
            # A protocol by its methods: a base class would keep it from being compiled.
            return Connection(router, connections, loop)  # type: ignore[return-value]

        try:
            self._server = await loop.create_server(
                connect,
                host,
                port,
                ssl=ssl,
                backlog=_ACCEPT_BACKLOG,
                ssl_handshake_timeout=self._timeouts.header if ssl is not None else None,
            )
        except BaseException:
            connections.stop_clock()
            raise
        self._connections = connections
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        """The port that was given, or the one the system chose for 0."""
        return self._port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return 0 if self._connections is None else len(self._connections)

    @property
    def body_bytes(self) -> int:
        """What the bodies of all clients hold at the moment, of `EdgeLimits.body_bytes`."""
        return 0 if self._connections is None else self._connections.bodies.held

    async def stop(self, grace: float) -> None:
        """Take no more connections, answer what is in progress, end what is left after `grace` seconds."""
        server, connections = self._server, self._connections
        if server is None or connections is None:
            return
        self._server = None
        server.close()
        await connections.wind_down(grace)
        await server.wait_closed()
