"""The half of a server that writes: the store, and the broker that forms its units."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from msgspec import Struct

from penstock.broker import LocalBroker
from penstock.clock import Clock, system_clock
from penstock.faces.metrics import broker_totals
from penstock.limits import Limits
from penstock.model import Key
from penstock.server.board import Meter
from penstock.server.config import Config, place_of
from penstock.stores import MqCoreOptions, open_store
from penstock.stores.protocol import Noun, missing_nouns
from penstock.timings import Timings

log = logging.getLogger(__name__)

_DAY_MS = 86_400_000
# A server does not wait for another process inside a unit: its event loop has other work to do.
_PATIENCE_MS = 2


class StoreFacts(Struct, frozen=True):
    """What the other half has to know of the store before the first request."""

    url: str
    secret: bytes
    missing: list[Noun]
    keys: Sequence[Key]


def chosen_timings(config: Config, timings: Timings) -> Timings:
    return replace(
        timings,
        store_timeout_s=config.store_timeout_s,
        ledger_retention_ms=config.ledger_days * _DAY_MS,
        ledger_bytes=(config.ledger_mib << 20) or None,
        actions_retention_ms=config.action_days * _DAY_MS,
    )


@contextmanager
def _told_if_late(config: Config) -> Iterator[None]:
    """A disk that hangs may keep a store from opening forever, and there is no server yet that could say so."""
    text = "waiting for %s: it has not opened within %g s"
    timer = threading.Timer(config.store_timeout_s, log.warning, (text, place_of(config.store), config.store_timeout_s))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Committer:
    """`start`, `stop` and `finish` are called on its event loop."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock = system_clock,
        timings: Timings = Timings(),
        limits: Limits = Limits(),
    ) -> None:
        with _told_if_late(config):
            self._store = open_store(
                config.store,
                _PATIENCE_MS,
                MqCoreOptions(peers=config.mqcore_peers, daemons=config.mqcore_daemons),
                config.store_connections,
                limits=limits,
            )
            with self._store.unit(write=False) as unit:
                missing = missing_nouns(unit)
                keys = () if unit.keys is None else unit.keys.list()
        self.broker = LocalBroker(self._store, clock, loop, chosen_timings(config, timings))
        self.facts = StoreFacts(self._store.url, self._store.secret, missing, keys)

    def meter_with(self, meter: Meter) -> None:
        broker = self.broker
        meter.watch(units=broker.units, operations=broker.operations, waiting_claims=broker.waiting)
        meter.watch_totals(lambda: broker_totals(broker))

    @property
    def works_on_loop(self) -> bool:
        """Whether a unit of the store keeps the event loop for as long as it takes."""
        return self._store.inline

    def start(self) -> None:
        self.broker.start()

    def stop(self, grace_s: float) -> None:
        """End what waits; what comes is still served, until just before the grace is over."""
        self.broker.stop(grace_s)

    async def finish(self, grace_s: float) -> int:
        """Returns how many units of the store have not ended within the grace: then it is left open for their threads,
        for which the process must not wait."""
        left = await self.broker.finish(grace_s)
        if not left:
            self.close()
        return left

    def close(self) -> None:
        self._store.close()
