"""The listening socket of a router: start, the port it got, and a stop that lets requests finish.

It knows any asyncio event loop; the program chooses uvloop. It never reads a request.
"""

from __future__ import annotations

import asyncio
import ssl as tls

from penstock.edge.connection import Connection
from penstock.edge.router import Router
from penstock.edge.sweep import Sweep
from penstock.edge.timeouts import EdgeLimits, Timeouts

_QUEUE_OF_THE_KERNEL = 1024


class Listener:
    def __init__(self, router: Router, timeouts: Timeouts | None = None, limits: EdgeLimits | None = None) -> None:
        self._router = router
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or EdgeLimits()
        self._server: asyncio.Server | None = None
        self._sweep: Sweep | None = None
        self._port = 0

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        router = self._router
        sweep = Sweep(loop, self._timeouts, self._limits)
        try:
            self._server = await loop.create_server(
                lambda: Connection(router, sweep, loop),
                host,
                port,
                ssl=ssl,
                backlog=_QUEUE_OF_THE_KERNEL,
                ssl_handshake_timeout=self._timeouts.header if ssl is not None else None,
            )
        except BaseException:
            sweep.cancel()
            raise
        self._sweep = sweep
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        """The port that was given, or the one the system chose for 0."""
        return self._port

    @property
    def connections(self) -> int:
        return 0 if self._sweep is None else len(self._sweep.connections)

    async def stop(self, grace: float) -> None:
        """Take no more connections, answer what is in progress, end what is left after `grace` seconds."""
        server, sweep = self._server, self._sweep
        if server is None or sweep is None:
            return
        self._server = None
        server.close()
        await sweep.wind_down(grace)
        await server.wait_closed()
