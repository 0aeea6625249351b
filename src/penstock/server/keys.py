"""The keys of the store, as a running server knows them.

What this server does to keys is in force at once. What another process does, or another server on the same store, is
noticed within a second. Requests are checked against memory, so a check never waits for the store.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.broker import Broker
from penstock.complaint import Complaint
from penstock.model import Key
from penstock.stores.features import Feature
from penstock.stores.protocol import Store

log = logging.getLogger(__name__)

_LOOK_S = 1.0


class KeyWatch:
    def __init__(self, store: Store, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = Complaint(log)
        self._can_change = Feature.KEYS in store.features
        self.keyring = broker.keyring
        if self._can_change:
            with store.unit(write=False) as unit:
                self.keyring.load(unit.list_keys())

    def start(self) -> None:
        if self._can_change:
            self._timer = self._loop.call_later(_LOOK_S, self.look)

    def look(self) -> None:
        changes = self.keyring.changes

        def load(keys: list[Key]) -> None:
            # What was read before this server made or revoked a key is old already.
            if changes == self.keyring.changes:
                self.keyring.load(keys)
            self._trouble.end("API keys can be read again")
            self.start()

        asked = self._broker.work(lambda unit, _now: unit.list_keys(), writes=False, patient=True)
        asked.listen(load, self._keep)

    def _keep(self, error: Exception) -> None:
        """What was known stays known while the store does not answer."""
        if self._can_change:
            self._trouble.say(f"API keys cannot be read: {error}")
        self.start()

    def stop(self) -> None:
        self._can_change = False
        if self._timer is not None:
            self._timer.cancel()
