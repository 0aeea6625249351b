"""The keys of the store, as a running server knows them.

What this server does to keys is in force when it answers. What another process does, or another server on the same
store, is noticed within a second. Requests are checked against memory, so a check never waits for the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.broker import Broker
from penstock.complaint import Complaint
from penstock.keys import Keyring
from penstock.model import Key
from penstock.timings import Timings

log = logging.getLogger(__name__)


class KeyWatch:
    """`keyring` is what is known when the server starts."""

    def __init__(self, keyring: Keyring, broker: Broker, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._keyring = keyring
        self._broker = broker
        self._loop = loop
        self._look_s = timings.keys_s
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = Complaint(log)
        self._stopping = False

    def start(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(self._look_s, self.look)

    def look(self) -> None:
        changes = self._keyring.changes

        def load(keys: Sequence[Key]) -> None:
            # What was read before this server made or revoked a key is old already.
            if changes == self._keyring.changes:
                self._keyring.load(keys)
            self._trouble.end("API keys can be read again")
            self.start()

        self._broker.keys.list(patient=True).listen(load, self._keep)

    def _keep(self, error: Exception) -> None:
        """What was known stays known while the store does not answer."""
        if not self._stopping:
            self._trouble.say(f"API keys cannot be read: {error}")
        self.start()

    def stop(self) -> None:
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
