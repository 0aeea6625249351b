"""The listening socket of a router: start, the port it got, and a stop that lets requests finish.

Any asyncio event loop will do; the program chooses uvloop. It never reads a request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.edge.connection import Connection
from penstock.edge.connections import Connections
from penstock.edge.handshakes import Entrance, listen
from penstock.edge.journal import Journal
from penstock.edge.limits import EdgeLimits, Gauges, Timeouts
from penstock.edge.router import Router

# Connections that the kernel keeps until the event loop accepts them.
ACCEPT_BACKLOG = 1024


class Listener:
    """`gauges` count what is limited for all processes of a server together. The `journal` is told of every request
    while the listener `logs_access`, else only of those that fail."""

    def __init__(
        self,
        router: Router,
        timeouts: Timeouts | None = None,
        limits: EdgeLimits | None = None,
        gauges: Gauges | None = None,
        clock: Callable[[], float] = time.perf_counter,
        journal: Journal | None = None,
        logs_access: bool = False,
    ) -> None:
        self._router = router
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or EdgeLimits()
        self._gauges = gauges or Gauges()
        self._clock = clock
        self._journal = journal
        self._logs_access = logs_access
        self._servers: list[asyncio.Server] = []
        self._entrances: list[Entrance] = []
        self._connections: Connections | None = None
        self._port = 0

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> None:
        await self._start(ssl, [{"host": host, "port": port}])

    async def start_on(self, sockets: Sequence[socket.socket], ssl: tls.SSLContext | None = None) -> None:
        """On sockets that another process has bound."""
        await self._start(ssl, [{"sock": one} for one in sockets])

    async def _start(self, ssl: tls.SSLContext | None, places: list[dict[str, Any]]) -> None:
        loop = asyncio.get_running_loop()
        router = self._router
        connections = Connections(loop, self._timeouts, self._limits, self._gauges, self._clock, self._journal)
        connections.logs_access = self._logs_access

        def connect() -> Connection:
            return Connection(router, connections, loop)

        def connect_plainly() -> asyncio.BaseProtocol:
            # A protocol by its methods: a base class would keep it from being compiled.
            return connect()  # type: ignore[return-value]

        try:
            for place in places:
                if ssl is None:
                    self._servers.append(await loop.create_server(connect_plainly, backlog=ACCEPT_BACKLOG, **place))
                    continue
                for one in [place["sock"]] if "sock" in place else listen(**place, backlog=ACCEPT_BACKLOG):
                    one.listen(ACCEPT_BACKLOG)
                    self._entrances.append(Entrance(one, ssl, connections, connect, lambda: self._timeouts.header))
                    self._port = self._port or one.getsockname()[1]
        except BaseException:
            connections.stop_clock()
            raise
        self._connections = connections
        if self._servers:
            self._port = self._servers[0].sockets[0].getsockname()[1]

    def adjust(self, timeouts: Timeouts, limits: EdgeLimits, logs_access: bool = False) -> None:
        self._timeouts = timeouts
        self._logs_access = logs_access
        self._limits = limits
        if self._connections is not None:
            self._connections.adjust(timeouts, limits)
            self._connections.logs_access = logs_access

    def answered(self) -> int:
        """How many requests, since it has started."""
        return 0 if self._connections is None else self._connections.answered

    @property
    def port(self) -> int:
        """The port that was given, or the one the system chose for 0."""
        return self._port

    def descriptors(self) -> list[int]:
        """Of the sockets on which it listens now."""
        return [one.fileno() for server in self._servers for one in server.sockets]

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
        servers, connections = self._servers, self._connections
        if connections is None:
            return
        self._servers = []
        for server in servers:
            server.close()
        for entrance in self._entrances:
            entrance.close()
        self._entrances = []
        await connections.wind_down(grace)
        for server in servers:
            await server.wait_closed()
