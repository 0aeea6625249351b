"""The keys of the store, as a running server knows them.

What this server does to keys is in force when it answers. What another process does, or another server on the same
store, is noticed within a second. Requests are checked against memory, so a check never waits for the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

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
        # Looks are numbered, because their answers may come in another order.
        self._looks = 0
        self._loaded = 0
        # Who has to be told of which look, or of one after it.
        self._awaited: list[tuple[int, Callable[[], object]]] = []
        self._trouble = Complaint(log)
        self._stopping = False
        # Whether the last look has found them.
        self.is_current = True

    def start(self) -> None:
        self._forget_timer()
        if not self._stopping:
            self._timer = self._loop.call_later(self._look_s, self.look)

    def look_now(self, done: Callable[[], object] | None = None) -> None:
        """Keys have changed by another process, which may wait until they are known here."""
        if done is not None:
            self._awaited.append((self._looks + 1, done))
        self.look()

    def look(self) -> None:
        self._forget_timer()
        self._looks += 1
        look, changes = self._looks, self._keyring.changes

        def load(keys: Sequence[Key]) -> None:
            self.is_current = True
            self._trouble.end("API keys can be read again")
            if look < self._loaded:
                return
            # What was read before this server made or revoked a key is old already.
            if changes == self._keyring.changes:
                self._keyring.load(keys)
                self._loaded = look
                self._tell()
                self.start()
            elif self._awaited:
                self.look()
            else:
                self.start()

        self._broker.keys.list(patient=True).listen(load, self._keep)

    def _tell(self) -> None:
        told = [done for look, done in self._awaited if look <= self._loaded]
        self._awaited = [one for one in self._awaited if one[0] > self._loaded]
        for done in told:
            done()

    def _keep(self, error: Exception) -> None:
        """What was known stays known while the store does not answer."""
        self.is_current = False
        if not self._stopping:
            self._trouble.say(f"API keys cannot be read: {error}")
        self.start()

    def stop(self) -> None:
        self._stopping = True
        self._forget_timer()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
