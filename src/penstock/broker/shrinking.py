"""How a store gives back to the file system what it does not use: unasked, a little at a time, or on request.

Messages come and go, and what they leave is used again. So a little is left alone: only what a store has had no use for
goes back, and while others want something of the store, that goes slowly. A database server does this by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.broker.entries import detail_of, write_down
from penstock.broker.operations import Again
from penstock.limits import Limits
from penstock.model import ActionKind, Actor, Shrunk, Sizes
from penstock.pending import Pending
from penstock.stores.protocol import Store, Unit
from penstock.timings import Timings

# It begins when so much of a store is unused, and one byte in so many; and ends when one in so many is.
_LEAST_BYTES = 8 * 1024 * 1024
_BEGIN_SHARE = 8
_END_SHARE = 16
# Operations that say nothing of callers, since the chores make as many: this one, and so many in a second.
_OF_OUR_OWN = 2
_OF_CHORES = 10


class LookAtSizes(Struct, frozen=True):
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Sizes:
        return unit.figures.sizes()


class ShrinkStep(Struct, frozen=True):
    """What was given back, and the sizes then."""

    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, _now: int, limits: Limits) -> tuple[int, Sizes]:
        return unit.shrink(limits.shrink_bytes), unit.figures.sizes()


class ShrinkStore(Struct, frozen=True):
    """On request: in steps, until nothing is left or enough was done for one request."""

    by: Actor | None
    returned: int = 0
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> tuple[int, Sizes] | Again:
        step = unit.shrink(limits.shrink_bytes)
        returned = self.returned + step
        if step and returned < limits.shrink_request_bytes:
            return Again(ShrinkStore(self.by, returned))
        if returned:
            write_down(unit, self.by, ActionKind.STORE_SHRINK, now, detail=detail_of({"bytes": returned}))
        return returned, unit.figures.sizes()


class Shrinking:
    """It looks now and then, and goes on while there is more to give back than a store should keep."""

    def __init__(self, store: Store, commit: Commit, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._store = store
        self._commit = commit
        self._loop = loop
        self._timings = timings
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        # How many operations there were at the last look, and when that was.
        self._operations = 0
        self._looked_at = loop.time()
        # Since this process has started.
        self.returned_bytes = 0

    def start(self) -> None:
        self._later(self._timings.shrink_s, self._look)

    def stop(self) -> None:
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    def shrink(self, by: Actor | None) -> Pending[Shrunk]:
        """As much as one request may, whether or not the store would do so unasked."""

        def told(done: tuple[int, Sizes]) -> Shrunk:
            returned, sizes = done
            self.returned_bytes += returned
            self._store.tidy()
            return Shrunk(returned, sizes.unused_bytes)

        return self._commit.work(ShrinkStore(by)).map(told)

    def _later(self, pause_s: float, then: Callable[[], None]) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(pause_s, then)

    def _look(self) -> None:
        def looked(sizes: Sizes) -> None:
            if self._look_whether_idle():
                self._store.tidy()
            if sizes.shrinks and _is_worth_it(sizes):
                self._step()
            else:
                self.start()

        self._commit.work(LookAtSizes(), patient=True).listen(looked, self._failed)

    def _step(self) -> None:
        def stepped(done: tuple[int, Sizes]) -> None:
            returned, sizes = done
            self.returned_bytes += returned
            is_idle = self._look_whether_idle()
            if returned and (sizes.unused_bytes or 0) * _END_SHARE > (sizes.store_bytes or 0):
                self._later(self._timings.shrink_idle_s if is_idle else self._timings.shrink_busy_s, self._step)
            else:
                self._store.tidy()
                self.start()

        if self._stopping:
            return
        self._commit.work(ShrinkStep(), patient=True).listen(stepped, self._failed)

    def _look_whether_idle(self) -> bool:
        """Whether callers have asked next to nothing of the store since the last look."""
        before, self._operations = self._operations, self._commit.operations
        since, self._looked_at = self._looked_at, self._loop.time()
        return self._operations - before <= _OF_OUR_OWN + _OF_CHORES * (self._looked_at - since)

    def _failed(self, _error: Exception) -> None:
        """What is wrong with the store, others say; this can wait."""
        self.start()


def _is_worth_it(sizes: Sizes) -> bool:
    unused = sizes.unused_bytes or 0
    return unused >= _LEAST_BYTES and unused * _BEGIN_SHARE >= (sizes.store_bytes or 0)
