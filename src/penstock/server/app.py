"""A server in one process: plain constructor calls from a store to a listening socket."""

from __future__ import annotations

import asyncio

from penstock.clock import Clock, system_clock
from penstock.limits import Limits
from penstock.server.board import Board, Meter
from penstock.server.committer import Committer
from penstock.server.config import Config
from penstock.server.front import Front
from penstock.server.pulse import beat_s
from penstock.server.tls import tls_context
from penstock.timings import Timings

# What stands in for the server on its board: see `understudy.py`.
UNDERSTUDY = "understudy"


class App:
    """A running server. `start` and `stop` are called on its event loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock = system_clock,
        timings: Timings = Timings(),
        limits: Limits = Limits(),
    ) -> None:
        loop = asyncio.get_running_loop()
        self._config = config
        self.committer = Committer(config, loop, clock, timings, limits)
        self.board = Board(["server", UNDERSTUDY])
        self._meter = Meter(self.board.place("server"), loop, beat_s(config.store_timeout_s))
        self.committer.meter_with(self._meter)
        self.ssl, broker, facts = tls_context(config), self.committer.broker, self.committer.facts
        self.front = Front(config, broker, facts, loop, self._meter, self.ssl, timings, clock)

    @property
    def faces(self) -> list[str]:
        return self.front.faces

    @property
    def url(self) -> str:
        return self.front.url

    @property
    def has_pages(self) -> bool:
        return self.front.has_pages

    @property
    def has_console(self) -> bool:
        return self.front.has_console

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message, one entry each."""
        return self.committer.broker.waiting_claims()

    def reload(self, config: Config) -> None:
        """Raises InvalidSetting, and has changed nothing then."""
        self.front.reload(config)
        self._config = config

    async def start(self) -> None:
        try:
            await self.front.start()
        except BaseException:
            self.committer.close()
            raise
        self.committer.start()
        self._meter.start()

    async def stop(self) -> int:
        """Answer what was accepted, end what waits, then close the store. Returns how many units of the store have not
        ended: see `Committer.finish`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._config.stop_grace_s
        self.committer.stop(self._config.stop_grace_s)
        await self.front.stop(self._config.stop_grace_s)
        left = await self.committer.finish(max(0.0, until - loop.time()))
        self._meter.stop()
        return left
