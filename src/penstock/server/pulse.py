"""Whether the event loop of another thread, or of another process, still turns.

SQLite works on the event loop itself, and a disk that hangs holds it up. So a loop beats: by a timer of its own it
changes a number again and again. One that looks at the number in vain, and often enough, knows that the loop stands
still. Looks are counted and not seconds: one that was stopped together with the loop must not take it for dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# How often is looked within the time after which a loop is said to stand still, and at least every so many seconds.
_LOOKS: Final = 10
_LONGEST_S: Final = 0.5
_SHORTEST_S: Final = 0.02


def beat_s(timeout_s: float) -> float:
    """How often a loop beats that is said to stand still after so many seconds."""
    return max(_SHORTEST_S, min(timeout_s / _LOOKS, _LONGEST_S))


class Pulse:
    """`beat` is the number. `stopped` and `again` are called on `loop`, which is not the one that beats."""

    def __init__(
        self,
        beat: Callable[[], float],
        timeout_s: float,
        loop: asyncio.AbstractEventLoop,
        stopped: Callable[[], object],
        again: Callable[[], object],
    ) -> None:
        self.beat = beat
        self.timeout_s = timeout_s
        self.stands_still = False
        self._loop = loop
        self._stopped = stopped
        self._again = again
        self._every_s = beat_s(timeout_s)
        self._most = max(_LOOKS, round(timeout_s / self._every_s))
        self._last = 0.0
        self._missed = 0

    def start(self) -> None:
        beat = self.beat()
        if beat != self._last:
            self._last, self._missed = beat, 0
            if self.stands_still:
                self.stands_still = False
                self._again()
        elif not self.stands_still:
            self._missed += 1
            if self._missed >= self._most:
                self.stands_still = True
                self._stopped()
        self._loop.call_later(self._every_s, self.start)

    def no_answer(self) -> str:
        return f"the store has not answered for {self.timeout_s:g} s"
