"""One alarm for a queue: when its next message becomes ready, as far as it is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# A timer for something later than this only looks again: clocks are set, and event loops dislike decades.
_LONGEST_S = 3600.0


class Alarms:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], int], on_due: Callable[[str], object]
    ) -> None:
        self._loop = loop
        self._now = now
        self._on_due = on_due
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}

    def set(self, queue: str, due: int) -> None:
        """Of several instants, the earliest counts."""
        known = self._timers.get(queue)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        delay_s = min(max(0, due - self._now()) / 1000, _LONGEST_S)
        self._timers[queue] = (due, self._loop.call_later(delay_s, self._ring, queue))

    def _ring(self, queue: str) -> None:
        del self._timers[queue]
        self._on_due(queue)
