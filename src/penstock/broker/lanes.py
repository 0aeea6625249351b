"""The threads in which units of a store run that takes its time, and how long callers wait for them.

A database may hang: it keeps its connections and does not answer. A thread that waits for it cannot be called back. But
its callers can be told, and so can those who wait for a thread; and while every thread hangs, new callers are told at
once. What such a thread does in the end is not told to anyone. If it comes back because its connection was lost, the
store has not answered yet: from then on one operation at a time tries whether it does.

Sends may go without a thread where the store can do that: see `express.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from penstock.broker.arrivals import Arrivals
from penstock.broker.express import Express
from penstock.broker.operations import Operation
from penstock.errors import StoreSilent, StoreUnavailable

log = logging.getLogger(__name__)

# How often the clock is looked at: this many times within the timeout, and at least every so many seconds.
_LOOKS = 10
_LONGEST_LOOK_S = 0.5


class _Errand:
    """Operations that a thread has taken to the store."""

    __slots__ = ("begun_at", "operations")

    def __init__(self, operations: list[Operation], begun_at: float) -> None:
        self.operations = operations
        self.begun_at = begun_at


class Lanes:
    """`arrived` are the operations that wait for a lane, and `express` takes those that need no thread, where a store
    has it. Times are the event loop's."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        count: int,
        timeout_s: float,
        arrived: Arrivals,
        express: Express | None = None,
    ) -> None:
        self._loop = loop
        self._count = count
        self._timeout_s = timeout_s
        self._look_s = min(timeout_s / _LOOKS, _LONGEST_LOOK_S)
        self._arrived = arrived
        self._express = express
        self._threads = ThreadPoolExecutor(count, "penstock-lane")
        self._errands: list[_Errand] = []
        self._came_back = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        # Whether every lane has been at the store for longer than a caller waits, and the store has not answered since.
        self.hangs = False

    def is_free(self) -> bool:
        return len(self._errands) < self._count

    def is_at_work(self) -> bool:
        return bool(self._errands)

    def admit(self, operation: Operation) -> bool:
        """Its time counts from now on. False where the store hangs, and its caller has been told so."""
        operation.since = self._loop.time()
        if self.hangs and (self._errands or self._arrived) and not operation.is_patient():
            operation.give_up(self.no_answer())
            return False
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_s, self._look)
        return True

    def run(
        self,
        serve: Callable[[list[Operation]], set[str]],
        operations: list[Operation],
        served: Callable[[list[Operation], set[str]], object],
    ) -> None:
        """Serve operations in a thread or by express, and then call `served`, on the event loop, with what `serve` has
        returned."""
        errand = _Errand(operations, self._loop.time())
        self._errands.append(errand)

        def come_back(stirred: set[str]) -> None:
            self._errands.remove(errand)
            self._came_back.set()
            if self.hangs and not all(isinstance(one.result, StoreUnavailable) for one in operations):
                self.hangs = False
                log.info("the store answers again")
            served(operations, stirred)

        def run_in_thread() -> None:
            future = self._loop.run_in_executor(self._threads, serve, operations)
            future.add_done_callback(lambda done: come_back(done.result()))

        try:
            has_begun = self._express is not None and self._express.begin(operations, come_back, run_in_thread)
        except Exception:
            log.exception("sends could not go by express")
            has_begun = False
        if not has_begun:
            run_in_thread()

    def no_answer(self) -> StoreSilent:
        return StoreSilent(f"the store has not answered for {self._timeout_s:g} s")

    def _look(self) -> None:
        self._timer = None
        since = self._loop.time() - self._timeout_s
        late = self._arrived.take_late(since)
        late += [operation for errand in self._errands for operation in errand.operations if operation.is_late(since)]
        overdue = [errand for errand in self._errands if errand.begun_at <= since]
        if len(overdue) == self._count and not self.hangs:
            self.hangs = True
            log.warning("the store has not answered for %g s: requests are refused until it does", self._timeout_s)
        if self._errands or self._arrived:
            self._timer = self._loop.call_later(self._look_s, self._look)
        for operation in late:
            try:
                operation.give_up(self.no_answer())
            except Exception:
                log.exception("a listener has failed on a store that does not answer")

    def give_up(self, error: Exception) -> None:
        """Tell those whose unit has not come back; what comes of it is not told."""
        under_way = [operation for errand in self._errands for operation in errand.operations]
        for operation in under_way:
            if not operation.given_up and not operation.is_patient():
                try:
                    operation.give_up(error)
                except Exception:
                    log.exception("a listener has failed on a stop")

    async def finish(self, grace_s: float) -> int:
        """Wait until no thread is at the store, but not longer than this; how many still are."""
        until = self._loop.time() + grace_s
        while self._errands and (left_s := until - self._loop.time()) > 0:
            self._came_back.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._came_back.wait(), left_s)
        return len(self._errands)
