"""Once a second, space is freed: in steps, and never two sweeps at the same time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock import limits
from penstock.complaint import Complaint
from penstock.errors import TryAgain
from penstock.stores.protocol import Unit

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger(__name__)

_SWEEP_S = 1.0


class Sweeps:
    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, ledger_retention_ms: int) -> None:
        self._broker = broker
        self._loop = loop
        self._ledger_retention_ms = ledger_retention_ms
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._trouble = Complaint(log, logging.ERROR)

    def start(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def stop(self) -> None:
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        def step(unit: Unit, now: int) -> int:
            return unit.sweep(now, limits.STEP_ROWS, now - self._ledger_retention_ms)

        def swept(_freed: int) -> None:
            self._trouble.end("the sweep works again")
            self.start()

        def failed(error: Exception) -> None:
            if not isinstance(error, TryAgain):
                self._trouble.say(f"the sweep failed: {error}")
            self.start()

        self._broker.in_steps(step, patient=True).listen(swept, failed)
