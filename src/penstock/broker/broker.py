"""The broker: every face speaks to this, and nothing else speaks to the store.

**Group commit.** Operations that arrive while the store is at work, or in the same turn of the event loop, are served
by one unit of durability. Nothing waits for a timer: alone, a request pays for one sync; under load, for a fraction.

**Wake-ups.** A claim may wait for a message. Waiting claims join the very unit that sends to their queue, a timer
fires when a delay or another's claim runs out, and a store shared with other processes is asked twenty times a second
whether it has changed, as long as somebody waits.

The broker lives on the event loop's thread and is used only from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock import limits
from penstock.broker.moves import Moves
from penstock.broker.operations import UNSERVED, Ack, Claim, Operation, Send, SendOnce, Steps, Work, serve
from penstock.broker.waiters import Waiters
from penstock.clock import Clock
from penstock.errors import PenstockError, StoreBusy, StoreFull, StoreUnavailable, TryAgain
from penstock.model import Draft, Message, Move, Receipt, Sent, SentOnce, Settings
from penstock.pending import Pending
from penstock.stores.protocol import EVERYWHERE, Store, Unit

T = TypeVar("T")
log = logging.getLogger(__name__)

_BUSY_RETRY_S = 0.001
_BUSY_PATIENCE_S = 10.0
_SWEEP_S = 1.0
# A timer for something later than this only looks again: clocks are set, and event loops dislike decades.
_DUE_TIMER_S = 3600.0
_CHANGED_ELSEWHERE_S = 0.05
# Word from another server may get lost on its way; whoever waits looks for himself this often.
_LOOK_ANYWAY_S = 5.0
_READINGS = 5
_JUMP_MS = 1_000


class Broker:
    def __init__(self, store: Store, clock: Clock, loop: asyncio.AbstractEventLoop, ledger_retention_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._loop = loop
        self._ledger_retention_ms = ledger_retention_ms
        self._arrived: list[Operation] = []
        self._scheduled = False
        # Units that are open now, in threads.
        self._at_work = 0
        self._looked_at = 0.0
        self._waiters = Waiters()
        self._due_timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self._watch_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._moves = Moves(self, loop)
        self._stopping = False

    @property
    def store_secret(self) -> bytes:
        """What API keys are hashed with."""
        return self._store.secret

    # Verbs

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None = None) -> Pending[list[Sent]]:
        operation = Send(queue, drafts, create_as)
        self._submit(operation)
        return operation

    def send_once(self, queue: str, drafts: Sequence[Draft], key: str, digest: bytes) -> Pending[SentOnce]:
        operation = SendOnce(queue, drafts, key, digest)
        self._submit(operation)
        return operation

    def claim(self, queue: str, limit: int, hold_ms: int | None = None, wait_ms: int = 0) -> Pending[list[Message]]:
        """Up to `limit` messages; none only when `wait_ms` have passed and there was none."""
        wait_until = self._loop.time() + wait_ms / 1000 if wait_ms else 0.0
        operation = Claim(queue, limit, hold_ms, wait_until)
        self._submit(operation)
        return operation

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        operation = Ack(receipts)
        self._submit(operation)
        return operation

    def purge(self, queue: str) -> Pending[int]:
        """Finish every message that is in the queue now, and say how many there were."""
        through: list[int] = []

        def step(unit: Unit, now: int) -> int:
            if not through:
                through.append(unit.last_seq())
            return unit.purge(queue, now, limits.STEP_ROWS, through[0])

        return self._in_steps(step)

    def release_all(self, queue: str) -> Pending[int]:
        return self._in_steps(lambda unit, now: unit.release_all(queue, now, limits.STEP_ROWS))

    def move(self, source: str, target: str, create_as: Settings, claimed: bool = False) -> Pending[Move]:
        """Start to move everything that is in a queue now into another, which is made if it does not exist. What is
        claimed stays, or with `claimed` goes along and arrives unclaimed."""
        return self._moves.start(source, target, create_as, claimed)

    def work(self, function: Callable[[Unit, int], T], writes: bool = True) -> Pending[T]:
        """Run a short function inside a unit; it is told the time. Where it returns AGAIN, it is run again in
        another unit: long work gives way to others after each step."""
        operation = Work(function, writes)
        self._submit(operation)
        return operation

    def _in_steps(self, step: Callable[[Unit, int], int]) -> Pending[int]:
        operation = Steps(step)
        self._submit(operation)
        return operation

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message, one entry each."""
        return [claim.queue for claim in list(self._waiters)]

    # Group commit

    def _submit(self, operation: Operation) -> None:
        self._arrived.append(operation)
        if not self._scheduled and self._at_work < self._store.lanes:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        if not self._arrived:
            return
        operations = self._arrived[: limits.UNIT_OPERATIONS]
        del self._arrived[: limits.UNIT_OPERATIONS]
        self._add_waiting_claims(operations)
        if self._store.inline:
            self._settle(operations, self._serve_together(operations))
            return
        self._at_work += 1
        future = self._loop.run_in_executor(None, self._serve_together, operations)
        future.add_done_callback(lambda done: self._return(operations, done.result()))
        self._go_on()

    def _return(self, operations: list[Operation], stirred: set[str]) -> None:
        """A unit has come back from its thread."""
        self._at_work -= 1
        self._settle(operations, stirred)

    def _add_waiting_claims(self, operations: list[Operation]) -> None:
        """A message never serves more than one claim, so as many may try as there are messages."""
        if self._waiters:
            for send in [operation for operation in operations if isinstance(operation, Send)]:
                operations += self._waiters.take(send.queue, len(send.drafts))
            # Whoever has waited goes before whoever has just come.
            operations.sort(key=lambda operation: not (isinstance(operation, Claim) and operation.has_waited))

    def _serve_together(self, operations: list[Operation]) -> set[str]:
        """Serve all in one unit; where that fails, each in one of its own, so that a request fails alone.

        Returns the queues in which messages have become ready by other means than a send.
        """
        again: list[list[Operation]] = []
        try:
            return self._serve(operations)
        except StoreBusy as error:
            self._fail(operations, error)
            # Whoever only wants to look need not wait until the other process has written.
            looking = [operation for operation in operations if not operation.writes]
            if 0 < len(looking) < len(operations):
                again = [looking]
        except StoreUnavailable as error:
            self._fail(operations, error)
        except Exception as error:
            if len(operations) == 1:
                self._fail(operations, error)
            else:
                again = [[operation] for operation in operations]
        # Not in a handler: there, an error would remember the one before it, and all of its frames.
        for group in again:
            for operation in group:
                operation.result = UNSERVED
        return set().union(*map(self._serve_together, again))

    def _serve(self, operations: list[Operation]) -> set[str]:
        if not self._store.has_room():
            full = StoreFull("the device of the store is nearly full; claims and acks go on")
            self._fail([operation for operation in operations if isinstance(operation, Send)], full)
            operations = [operation for operation in operations if operation.result is UNSERVED]
        writes = any(operation.writes for operation in operations)
        with self._store.unit(writes) as unit:
            serve(unit, operations, self._now())
        return unit.stirred

    def _now(self) -> int:
        """The time that all servers on this store agree on. Should our clock be set between two readings of it, a
        message would look as much older as it was set forward: then we read again."""
        for _ in range(_READINGS):
            own = self._clock()
            now = own + self._store.ahead_ms
            if 0 <= self._clock() - own < _JUMP_MS:
                break
        return now

    @staticmethod
    def _fail(operations: list[Operation], error: Exception) -> None:
        if not isinstance(error, PenstockError):
            log.error("an operation failed", exc_info=error)
        for operation in operations:
            operation.fail(error)

    def _settle(self, operations: list[Operation], stirred: set[str]) -> None:
        again: list[Operation] = []
        woken_in_vain: list[Claim] = []
        busy = False
        for operation in operations:
            result = operation.result
            if result is UNSERVED:
                if isinstance(operation, Steps):
                    operation.advance()
                operation.busy_since = 0.0
                again.append(operation)
            elif result.__class__ is StoreBusy and self._is_patient(operation):
                busy = True
                operation.result = UNSERVED
                again.append(operation)
            elif isinstance(operation, Claim) and self._waits(operation):
                if operation.has_waited:
                    woken_in_vain.append(operation)
                operation.has_waited = True
            else:
                self._tell(operation)
        if self._waiters:
            self._waiters.put_first(woken_in_vain)
            self._wake_when_run_out(operations)
        for queue in stirred:
            again += self._waiters.take(queue)
        self._arrived[:0] = again
        self._go_on(busy)

    def _go_on(self, busy: bool = False) -> None:
        if self._arrived and not self._scheduled and self._at_work < self._store.lanes:
            self._scheduled = True
            if busy:
                self._loop.call_later(_BUSY_RETRY_S, self._commit)
            else:
                self._loop.call_soon(self._commit)

    @staticmethod
    def _tell(operation: Operation) -> None:
        try:
            operation.tell()
        except Exception:
            # A listener runs in our stack; the others of its unit must be told all the same.
            log.exception("whoever was told a result has failed")

    def _is_patient(self, operation: Operation) -> bool:
        """Whether an operation that found the store locked by another process should try again. Its own time counts:
        meanwhile others may well be served."""
        now = self._loop.time()
        operation.busy_since = operation.busy_since or now
        return now - operation.busy_since <= _BUSY_PATIENCE_S

    # Waiting

    def _waits(self, operation: Claim) -> bool:
        """Whether a claim found nothing and still has time. Who waits already can wait for a database as well: it is
        looked at again before long."""
        unreachable = operation.has_waited and not self._store.inline and isinstance(operation.result, StoreUnavailable)
        if not (operation.result == [] or unreachable) or not operation.wait_until:
            return False
        if self._stopping or operation.wait_until <= self._loop.time() or len(self._waiters) >= limits.WAITERS:
            return False
        operation.last_seen, operation.result = operation.result, UNSERVED
        operation.busy_since = 0.0
        self._waiters.add(operation)
        if operation.timer is None:
            operation.timer = self._loop.call_at(operation.wait_until, self._give_up, operation)
            operation.on_cancel = lambda: self._call_off(operation)
        if operation.due is not None and not unreachable:
            self._wake_when_due(operation.queue, operation.due)
        if self._watch_timer is None:
            self._looked_at = self._loop.time()
            self._watch_timer = self._loop.call_later(_CHANGED_ELSEWHERE_S, self._watch)
        return True

    def _give_up(self, claim: Claim) -> None:
        claim.wait_until = 0.0  # it may be on its way to the store, and must not wait again
        if self._waiters.remove(claim):
            claim.result = claim.last_seen
            self._tell(claim)

    def _call_off(self, claim: Claim) -> bool:
        """The caller has gone; too late when the claim is already on its way to the store again."""
        claim.wait_until = 0.0
        if claim.timer is not None:
            claim.timer.cancel()
        return self._waiters.remove(claim)

    def _wake_when_run_out(self, operations: Sequence[Operation]) -> None:
        """Should a claim just made run out, its messages are for those who still wait then."""
        for operation in operations:
            result = operation.result
            if (
                isinstance(operation, Claim)
                and isinstance(result, list)
                and result
                and self._waiters.has(operation.queue)
            ):
                self._wake_when_due(operation.queue, result[0].ready_at)

    def _wake_when_due(self, queue: str, due: int) -> None:
        known = self._due_timers.get(queue)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        delay_s = min(max(0, due - self._now()) / 1000, _DUE_TIMER_S)
        self._due_timers[queue] = (due, self._loop.call_later(delay_s, self._come_due, queue))

    def _come_due(self, queue: str) -> None:
        del self._due_timers[queue]
        self._wake(queue)

    def _wake(self, queue: str) -> None:
        for claim in self._waiters.take(queue):
            self._submit(claim)

    def _watch(self) -> None:
        """Other processes on the same store do not tell us; while somebody waits, we look."""
        self._watch_timer = None
        if not self._waiters:
            return
        # An embedded store is used from one thread at a time; what it does not tell now, it tells next time.
        if self._at_work < self._store.lanes:
            changed = self._store.changed_elsewhere()
            if not self._store.inline and self._loop.time() - self._looked_at >= _LOOK_ANYWAY_S:
                self._looked_at = self._loop.time()
                changed = EVERYWHERE
            if changed:
                for queue in self._waiters.queues():
                    if queue in changed:
                        self._wake(queue)
        self._watch_timer = self._loop.call_later(_CHANGED_ELSEWHERE_S, self._watch)

    # Housekeeping

    def start(self) -> None:
        self._moves.resume()
        self._sweep_timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        def step(unit: Unit, now: int) -> int:
            return unit.sweep(now, limits.STEP_ROWS, now - self._ledger_retention_ms)

        def swept(_freed: int) -> None:
            if not self._stopping:
                self._sweep_timer = self._loop.call_later(_SWEEP_S, self._sweep)

        def failed(error: Exception) -> None:
            if not isinstance(error, TryAgain):
                log.error("the sweep failed: %s", error)
            swept(0)

        self._in_steps(step).listen(swept, failed)

    def stop(self) -> None:
        """Waiting claims end empty-handed; everything else that was accepted is still served."""
        self._stopping = True
        self._moves.stop()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for claim in list(self._waiters):
            self._give_up(claim)
