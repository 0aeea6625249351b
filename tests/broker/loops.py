"""Event loops whose clocks do as a test wants."""

from __future__ import annotations

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        events = super().select(0)
        if not events and timeout > 0:
            self.now += timeout
        return events


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer instead of waiting for it: a day of waiting takes no time. For tests without
    threads: it would not wait for them."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class ShiftedLoop(asyncio.SelectorEventLoop):
    """The real time, and as much as a test adds to it. Threads take as long as they take."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s
