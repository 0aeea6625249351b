"""When API keys were last used: noted in memory with every request, and kept in the store about once a minute.

So no request writes for it. What was noted since then is lost with a process that is killed; one that ends keeps it
first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final, NoReturn

from penstock.broker import Broker
from penstock.complaint import Complaint
from penstock.keys import Keyring
from penstock.model import KeyUse
from penstock.pending import Pending, chained, resolved
from penstock.timings import Timings

log = logging.getLogger(__name__)

# Keys of one unit that writes.
_KEPT_TOGETHER: Final = 100


class KeyUses:
    def __init__(self, keyring: Keyring, broker: Broker, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._keyring = keyring
        self._broker = broker
        self._loop = loop
        self._pause_s = timings.key_uses_s
        self._trouble = Complaint(log)
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False

    def start(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(self._pause_s, self._begin)

    async def finish(self, grace_s: float) -> None:
        """Keep what was noted until the end, if the store takes it in time."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        kept = self._loop.create_future()

        def end(_result: object) -> None:
            if not kept.done():
                kept.set_result(None)

        self._keep().listen(end, end)
        with suppress(TimeoutError):
            await asyncio.wait_for(kept, grace_s)

    def _begin(self) -> None:
        self._keep().listen(self._ended, self._failed)

    def _ended(self, _none: None) -> None:
        self._trouble.end("uses of API keys are kept again")
        self.start()

    def _failed(self, error: Exception) -> None:
        if not self._stopping:
            self._trouble.say(f"uses of API keys could not be kept: {error}")
        self.start()

    def _keep(self) -> Pending[None]:
        return self._keep_all(self._keyring.take_uses())

    def _keep_all(self, uses: list[KeyUse]) -> Pending[None]:
        """In units of a few keys each. Where nothing was used, nothing is written."""
        if not uses:
            return resolved(None)

        def failed(error: Exception) -> NoReturn:
            self._keyring.put_back_uses(uses)
            raise error

        kept = self._broker.keys.note_uses(uses[:_KEPT_TOGETHER]).map(_nothing, failed)
        return chained(kept, lambda _none: self._keep_all(uses[_KEPT_TOGETHER:]))


def _nothing(_none: None) -> None:
    return None
