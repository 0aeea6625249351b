"""Group commit: operations become units of durability, as many in each as there are.

Operations that arrive while the store is at work, or in the same turn of the event loop, are served by one unit.
Nothing waits for a timer: alone, a request pays for one sync; under load, for a fraction. A store that works in
threads may hang; its callers are told so in time: see `lanes.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.broker.arrivals import Arrivals
from penstock.broker.counting import Counting
from penstock.broker.lanes import Lanes
from penstock.broker.messages import ReleaseLate
from penstock.broker.operations import UNSERVED, Ack, Again, Claim, Operation, Send, SendOnce, Task, Work, serve, tell
from penstock.broker.pace import Pace
from penstock.broker.polls import Polls
from penstock.clock import Clock
from penstock.errors import PenstockError, StoreBusy, StoreFull, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Draft, Message, Receipt, Sent, SentOnce, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Store
from penstock.timings import Timings

log = logging.getLogger(__name__)

# Bounds by which units are counted: so many operations, or fewer.
UNIT_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)

# How often a stop looks whether all is served.
_REST_S = 0.01
_READINGS = 5
# So long after the last other request, bulk work takes larger steps.
_CALM_S: Final = 0.25
_JUMP_MS = 1_000


class Commit:
    """`arrived` are the operations that wait for a unit. Without `lanes`, units run on the event loop itself. Claims
    that find nothing are parked with `polls`, and come back by `submit_first` to be served again."""

    def __init__(
        self,
        units: Units,
        lanes: Lanes | None,
        arrived: Arrivals,
        polls: Polls,
        loop: asyncio.AbstractEventLoop,
        timings: Timings,
    ) -> None:
        self._units = units
        self._lanes = lanes
        self._arrived = arrived
        self._polls = polls
        self._loop = loop
        self._timings = timings
        self._scheduled = False
        # Chores come to an end; callers are refused; no unit is begun.
        self._stopping = False
        self._refusing = False
        self._finished = False
        # Units begun, and operations in them.
        self.units = 0
        # How many units had so many operations, or fewer, and more than the bound before.
        self.unit_sizes = [0] * (len(UNIT_SIZES) + 1)
        self.operations = 0

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None = None) -> Pending[list[Sent]]:
        operation = Send(queue, drafts, create_as)
        self.submit(operation)
        return operation

    def send_once(self, queue: str, drafts: Sequence[Draft], key: str, digest: bytes) -> Pending[SentOnce]:
        operation = SendOnce(queue, drafts, key, digest)
        self.submit(operation)
        return operation

    def claim(
        self, queue: str, limit: int, hold_ms: int | None = None, wait_ms: int = 0, attempt: str | None = None
    ) -> Pending[list[Message]]:
        wait_until = self._loop.time() + wait_ms / 1000 if wait_ms else 0.0
        operation = Claim(queue, limit, hold_ms, wait_until, attempt)
        if wait_ms:
            operation.on_cancel = operation.stop_waiting
        self.submit(operation)
        return operation

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        operation = Ack(receipts)
        self.submit(operation)
        return operation

    def submit(self, operation: Operation) -> None:
        if self._refusing and not operation.is_patient():
            operation.give_up(_stopping())
            return
        if self._lanes is not None and not self._lanes.admit(operation):
            return
        # As `add`, and below as `_go_on`, whose calls a request need not pay for.
        if operation.is_step:
            self._arrived.steps.append(operation)
        else:
            self._arrived.requests.append(operation)
        if not self._scheduled and (self._lanes is None or self._lanes.is_free()):
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def work(self, task: Task, patient: bool = False) -> Pending[Any]:
        """Ask for a task. Housekeeping, for which no caller waits, is `patient` with a store that does not answer."""
        operation = Work(task, patient)
        self.submit(operation)
        return operation

    def submit_first(self, claims: list[Claim]) -> None:
        """Claims that have waited go before operations that have just come."""
        if self._lanes is not None:
            for claim in claims:
                self._lanes.admit(claim)
        self._arrived.put_first(list[Operation](claims))
        self._go_on()

    def stop(self) -> None:
        """What was accepted is served to its end, but chores end with the step that they are at."""
        self._stopping = True

    def refuse(self) -> None:
        """Tell all who wait for a unit that there will be none, and those who come: better an answer than none. What a
        unit under way has done is still told, if that ends in time."""
        self._refusing = True
        for operation in self._arrived.take_callers():
            operation.fail(_stopping())
            tell(operation)

    def refuse_all(self) -> None:
        """The same for those whose unit does not come back."""
        self.refuse()
        if self._lanes is not None:
            self._lanes.give_up(_stopping())

    async def rest(self, grace_s: float) -> None:
        """Until what was accepted is served, but not longer than this."""
        until = self._loop.time() + grace_s
        while self._is_at_work() and self._loop.time() < until:
            await asyncio.sleep(_REST_S)

    def _is_at_work(self) -> bool:
        will_begin = (bool(self._arrived) or self._scheduled) and not self._finished
        return will_begin or (self._lanes is not None and self._lanes.is_at_work())

    async def finish(self, grace_s: float) -> int:
        """Serve what was accepted, then begin no more units, and wait until none is open; but not longer than this. How
        many still are. Those who waited in vain are told so."""
        until = self._loop.time() + grace_s
        await self.rest(grace_s)
        self._finished = True
        self.refuse()
        return 0 if self._lanes is None else await self._lanes.finish(max(_REST_S, until - self._loop.time()))

    def _commit(self) -> None:
        self._scheduled = False
        requests, steps = self._arrived.requests, self._arrived.steps
        if not (requests or steps) or self._finished:
            return
        # As `take`, whose call a request that is alone need not pay for.
        operations = [requests.pop()] if len(requests) == 1 and not steps else self._arrived.take()
        self.units += 1
        self.operations += len(operations)
        self.unit_sizes[bisect_left(UNIT_SIZES, len(operations))] += 1
        if self._polls.waiters.count:
            self._polls.join(operations)
        if self._lanes is None:
            self._conclude(operations, self._units.serve(operations))
        else:
            self._lanes.run(self._units.serve, operations, self._come_back)
            self._go_on()

    def _come_back(self, operations: list[Operation], stirred: set[str]) -> None:
        """From a thread, perhaps too late for some."""
        awaited = [operation for operation in operations if not operation.given_up]
        if len(awaited) < len(operations):
            self._give_back([operation for operation in operations if operation.given_up])
        self._conclude(awaited, stirred)

    def _give_back(self, operations: list[Operation]) -> None:
        """What was claimed for callers who have been told that the store does not answer, or have hung up. One that has
        an attempt may ask again at any moment, and gets these very claims."""
        receipts = tuple(
            Receipt(message.id, message.claim, message.queue)
            for operation in operations
            if isinstance(operation, Claim) and operation.attempt is None and isinstance(operation.result, list)
            for message in operation.result
        )
        if receipts:
            self.work(ReleaseLate(receipts), patient=True)

    def _conclude(self, operations: list[Operation], stirred: set[str]) -> None:
        """After a unit: tell results, park claims that wait, and keep the rest for the next unit."""
        polls = self._polls
        again: list[Operation] = []
        in_vain: list[Claim] = []
        busy = False
        for operation in operations:
            result = operation.result
            if result is UNSERVED:
                self._begin_again(operation)
                again.append(operation)
            elif result.__class__ is Again and isinstance(operation, Work):
                self._step_on(operation, result.task)
            elif result.__class__ is StoreBusy and self._has_patience(operation):
                busy = True
                operation.busy_since = operation.busy_since or self._loop.time()
                operation.result = UNSERVED
                again.append(operation)
            elif isinstance(operation, Claim) and operation.wait_until and polls.can_wait(operation):
                if operation.has_waited:
                    in_vain.append(operation)
                polls.park(operation)
            else:
                tell(operation)
        gone = [operation for operation in operations if operation.is_abandoned]
        if gone:
            self._give_back(gone)
        if again:
            self._arrived.put_first(again)
        self._go_on(busy)
        if polls.waiters.count:
            polls.go_on(operations, stirred, in_vain)

    def _step_on(self, work: Work, task: Task) -> None:
        """Go on with a task that has more to do, unless the server stops: what is left of a chore, the next start
        does."""
        if self._refusing or (self._stopping and work.patient):
            work.fail(_stopping())
            tell(work)
            return
        work.task = task
        self._begin_again(work)
        work.is_step = True
        self._arrived.add(work)

    def _begin_again(self, operation: Operation) -> None:
        """It goes on in another unit, with its whole time before it."""
        operation.result = UNSERVED
        operation.busy_since = 0.0
        if self._lanes is not None:
            operation.since = self._loop.time()

    def _has_patience(self, operation: Operation) -> bool:
        """Whether an operation that found the store locked by another process should try again. Its own time counts:
        meanwhile others may well be served."""
        begun = operation.busy_since
        return (self._loop.time() - begun if begun else 0.0) <= self._timings.busy_patience_s

    def _go_on(self, busy: bool = False) -> None:
        waiting = self._arrived.requests or self._arrived.steps
        if waiting and not self._scheduled and (self._lanes is None or self._lanes.is_free()):
            self._scheduled = True
            if busy:
                self._loop.call_later(self._timings.busy_retry_s, self._commit)
            else:
                self._loop.call_soon(self._commit)


class Units:
    """Serves operations in units of the store. It may run in a thread, and tells no caller anything."""

    def __init__(
        self, store: Store, clock: Clock, counting: Counting, stopwatch: Callable[[], float] = time.perf_counter
    ) -> None:
        self.limits = store.limits
        # As of the last unit.
        self.had_room = True
        self._counting = counting
        self._stopwatch = stopwatch
        self.calm = Calm(store.limits, stopwatch)
        self._store = store
        self._clock = clock

    def serve(self, operations: list[Operation]) -> set[str]:
        """Serve all in one unit; where that fails, each in one of its own, so that a request fails alone.

        Returns the queues in which messages have become ready by other means than a send.
        """
        again: list[list[Operation]] = []
        try:
            return self._serve_in_one(operations)
        except StoreBusy as error:
            self._counting.erred(error)
            _fail(operations, error)
            # Those that only read need not wait until the other process has written.
            looking = [operation for operation in operations if not operation.writes]
            if 0 < len(looking) < len(operations):
                again = [looking]
        except StoreUnavailable as error:
            self._counting.erred(error)
            _fail(operations, error)
        except Exception as error:
            self._counting.erred(error)
            if len(operations) == 1:
                _fail(operations, error)
            else:
                again = [[operation] for operation in operations]
        # Not in a handler: there, an error would remember the one before it, and all of its frames.
        for group in again:
            for operation in group:
                operation.result = UNSERVED
        return set().union(*map(self.serve, again))

    def _serve_in_one(self, operations: list[Operation]) -> set[str]:
        self.had_room = self._store.has_room()
        if not self.had_room:
            full = StoreFull("the device of the store is nearly full; claims and acks go on")
            refused: list[Operation] = [operation for operation in operations if isinstance(operation, Send)]
            if refused:
                self._counting.erred(full)
                _fail(refused, full)
            operations = [operation for operation in operations if operation.result is UNSERVED]
        writes = any(operation.writes for operation in operations)
        began = self._stopwatch()
        with self._store.unit(writes) as unit:
            serve(unit, operations, self.now(), self.limits, self.calm.pace(operations))
            stirred, happened = set(unit.stirred), dict(unit.happened)
            ending = self._stopwatch()
        self._counting.ended(began, ending, self._stopwatch(), writes, happened)
        return stirred

    def now(self) -> int:
        """The time that all servers on this store agree on. Should our clock be set between two readings of it, a
        message would look as much older as it was set forward: then we read again."""
        for _ in range(_READINGS):
            own = self._clock()
            now = own + self._store.ahead_ms
            if 0 <= self._clock() - own < _JUMP_MS:
                break
        return now


class Calm:
    """The pace of a unit: usual, or with larger steps where no one but bulk work waits for the store.

    A shipment of a million messages is claimed, read and settled in steps, which are small so that requests come in
    between. Each step is a unit, with a sync of its own. Where no one has asked for anything else for a while, small
    steps only make the shipment slow. So then they are larger, and the first request that comes waits for one of those.
    """

    def __init__(self, limits: Limits, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._disturbed_at = stopwatch() - _CALM_S
        self._usual = Pace(limits, stopwatch)
        times = limits.calm_times
        larger = replace(
            limits,
            step_ms=limits.step_ms * times,
            shipment_step_rows=limits.shipment_step_rows * times,
            page_step_rows=limits.page_step_rows * times,
        )
        self._calm = self._usual if times == 1 else Pace(larger, stopwatch)

    def lasts(self) -> bool:
        """Whether no one has asked for anything else for a while."""
        return self._stopwatch() - self._disturbed_at >= _CALM_S

    def pace(self, operations: list[Operation]) -> Pace:
        """The pace of a unit with these operations."""
        is_bulk = False
        for operation in operations:
            if isinstance(operation, Work) and getattr(operation.task, "is_bulk", False):
                is_bulk = True
            elif not operation.is_patient():
                self._disturbed_at = self._stopwatch()
                return self._usual
        return self._calm if is_bulk and self.lasts() else self._usual


def _stopping() -> StoreUnavailable:
    return StoreUnavailable("the server is stopping")


def _fail(operations: list[Operation], error: Exception) -> None:
    if not isinstance(error, PenstockError):
        log.error("an operation failed", exc_info=error)
    for operation in operations:
        operation.fail(error)
