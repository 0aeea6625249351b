"""The broker: every face speaks to this, and nothing else speaks to the store.

**Group commit.** Operations that arrive while the store is at work, or in the same turn of the event loop, are served
by one unit of durability. Nothing waits for a timer: alone, a request pays for one sync; under load, for a fraction.

**Wake-ups.** A claim may wait for a message. Waiting claims join the very unit that sends to their queue, a timer
fires when a delay or another's claim runs out, and a store shared with other processes is asked twenty times a second
whether it has changed, as long as somebody waits. Of all who wait for a queue, the first looks, and more where it has
found something.

**Deadlines.** A store that works in threads may hang; its callers are told so in time: see `lanes.py`.

The broker lives on the event loop's thread and is used only from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from functools import cached_property
from typing import TypeVar

from penstock import limits
from penstock.broker.alarms import Alarms
from penstock.broker.lanes import Lanes
from penstock.broker.moves import Moves, Terms
from penstock.broker.operations import UNSERVED, Ack, Claim, Operation, Send, SendOnce, Steps, Work
from penstock.broker.purges import AgedPurge
from penstock.broker.sweeps import Sweeps
from penstock.broker.units import Units
from penstock.broker.waiters import Waiters
from penstock.clock import Clock
from penstock.errors import StoreBusy, StoreUnavailable
from penstock.keys import Keyring
from penstock.model import WHOLE, Draft, Message, Move, Receipt, Sent, SentOnce, Settings
from penstock.pending import Pending
from penstock.stores.changes import EVERYWHERE
from penstock.stores.features import Feature
from penstock.stores.protocol import Store, Unit

T = TypeVar("T")
log = logging.getLogger(__name__)

_BUSY_RETRY_S = 0.001
_BUSY_PATIENCE_S = 10.0
_PROVE_S = 1.0
_CHANGED_ELSEWHERE_S = 0.05
# Word from another server may get lost on its way; whoever waits looks for himself this often.
_LOOK_ANYWAY_S = 5.0
# Of those who wait for a queue, one looks first. Where all who look find something, so many times as many look next.
_MORE_LOOKERS = 4


class Broker:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        ledger_retention_ms: int,
        timeout_s: float = 10.0,
    ) -> None:
        """`timeout_s` is how long callers wait for a store that is not inline."""
        self._store = store
        self._units = Units(store, clock)
        self._loop = loop
        self._arrived: list[Operation] = []
        self._scheduled = False
        self._lanes = None if store.inline else Lanes(loop, store.lanes, timeout_s, self._arrived)
        self._looked_at = 0.0
        self._waiters = Waiters()
        self._alarms = Alarms(loop, self._units.now, self._look)
        self._watch_timer: asyncio.TimerHandle | None = None
        self._moves = Moves(self, loop)
        self._prove_at = 0.0
        self._sweeps = Sweeps(self, loop, ledger_retention_ms)
        self._stopping = False
        self._finished = False

    @cached_property
    def keyring(self) -> Keyring:
        """The API keys of the store, as far as this process knows them."""
        return Keyring(self._store.secret)

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

        return self.in_steps(step)

    def purge_older(self, queue: str, older_than_ms: int) -> Pending[int]:
        """Finish every message that is older than that now, and say how many there were."""
        return AgedPurge(self.work, queue, older_than_ms).done

    def release_all(self, queue: str) -> Pending[int]:
        return self.in_steps(lambda unit, now: unit.release_all(queue, now, limits.STEP_ROWS))

    def move(
        self,
        source: str,
        target: str | None,
        create_as: Settings | None = None,
        claimed: bool = False,
        terms: Terms = lambda _now: WHOLE,
    ) -> Pending[Move]:
        """Start to move what is in a queue now, as `terms` say at the time, into another, or home where none is named.
        A target that does not exist is made with `create_as`; else both must be there. What is claimed stays, or with
        `claimed` goes along and arrives unclaimed."""
        return self._moves.start(source, target, create_as, claimed, terms)

    def work(self, function: Callable[[Unit, int], T], writes: bool = True, patient: bool = False) -> Pending[T]:
        """Run a short function inside a unit; it is told the time. Where it returns AGAIN, it is run again in
        another unit: long work gives way to others after each step. Housekeeping, which nobody waits for, is
        `patient` with a store that does not answer."""
        operation = Work(function, writes, patient)
        self._submit(operation)
        return operation

    def check(self) -> Pending[None]:
        """Fails while the store cannot be used. One proof a second that it can be written to is enough: between them, a
        look will do."""
        if self._loop.time() < self._prove_at:
            return self.work(lambda unit, _now: unit.list_queues(0, 1), writes=False).map(lambda _page: None)

        def proved(_none: None) -> None:
            self._prove_at = self._loop.time() + _PROVE_S

        return self.work(lambda unit, _now: unit.prove_writable()).map(proved)

    def in_steps(self, step: Callable[[Unit, int], int], patient: bool = False) -> Pending[int]:
        """Run a function inside one unit after the other until it has found nothing left to do; the sum of the rest."""
        operation = Steps(step, patient)
        self._submit(operation)
        return operation

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message, one entry each."""
        return [claim.queue for claim in list(self._waiters)]

    # Group commit

    def _submit(self, operation: Operation) -> None:
        if self._lanes is not None and not self._lanes.admit(operation):
            return
        self._arrived.append(operation)
        if not self._scheduled and self._is_free():
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _is_free(self) -> bool:
        return self._lanes is None or self._lanes.is_free()

    def _commit(self) -> None:
        self._scheduled = False
        if not self._arrived or self._finished:
            return
        operations = self._arrived[: limits.UNIT_OPERATIONS]
        del self._arrived[: limits.UNIT_OPERATIONS]
        self._add_waiting_claims(operations)
        if self._lanes is None:
            self._settle(operations, self._units.serve(operations))
        else:
            self._lanes.run(self._units.serve, operations, self._come_back)
            self._go_on()

    def _come_back(self, operations: list[Operation], stirred: set[str]) -> None:
        """From a thread, perhaps too late for some."""
        awaited = [operation for operation in operations if not operation.given_up]
        if len(awaited) < len(operations):
            self._release_late(operations)
        self._settle(awaited, stirred)

    def _release_late(self, operations: list[Operation]) -> None:
        """What was claimed for callers who have been told that the store does not answer."""
        receipts = [
            Receipt(message.id, message.claim, message.queue)
            for operation in operations
            if operation.given_up and isinstance(operation, Claim) and isinstance(operation.result, list)
            for message in operation.result
        ]
        if receipts and Feature.RECEIPTS in self._store.features:
            self.work(lambda unit, now: unit.release(receipts, now, delay_ms=0), patient=True)

    def _add_waiting_claims(self, operations: list[Operation]) -> None:
        """A message never serves more than one claim, so as many may try as there are messages."""
        if self._waiters:
            for send in [operation for operation in operations if isinstance(operation, Send)]:
                for claim in self._waiters.take(send.queue, len(send.drafts)):
                    claim.since = send.since
                    operations.append(claim)
            # Whoever has waited goes before whoever has just come.
            operations.sort(key=lambda operation: not (isinstance(operation, Claim) and operation.has_waited))

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
                if self._lanes is not None:
                    operation.since = self._loop.time()
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
        self._arrived[:0] = again
        self._go_on(busy)
        if self._waiters:
            self._waiters.put_first(woken_in_vain)
            self._pass_on(operations, {claim.queue for claim in woken_in_vain})
            for queue in stirred:
                self._look(queue)

    def _go_on(self, busy: bool = False) -> None:
        if self._arrived and not self._scheduled and self._is_free():
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
        self._waiters.add(operation)
        operation.result = UNSERVED
        operation.busy_since = 0.0
        operation.lookers = 0
        if operation.timer is None:
            operation.timer = self._loop.call_at(operation.wait_until, self._give_up, operation)
            operation.on_cancel = lambda: self._call_off(operation)
        if operation.due is not None and not unreachable:
            self._alarms.set(operation.queue, operation.due)
        if self._watch_timer is None:
            self._looked_at = self._loop.time()
            self._watch_timer = self._loop.call_later(_CHANGED_ELSEWHERE_S, self._watch)
        return True

    def _give_up(self, claim: Claim) -> None:
        claim.wait_until = 0.0  # it may be on its way to the store, and must not wait again
        seen = self._waiters.last_seen(claim.queue)
        if self._lanes is not None and self._lanes.hangs:
            seen = self._lanes.no_answer()
        if self._waiters.remove(claim):
            claim.result = seen
            self._tell(claim)

    def _call_off(self, claim: Claim) -> bool:
        """The caller has gone; too late when the claim is already on its way to the store again."""
        claim.wait_until = 0.0
        if claim.timer is not None:
            claim.timer.cancel()
        return self._waiters.remove(claim)

    def _pass_on(self, operations: Sequence[Operation], in_vain: Set[str]) -> None:
        """Should a claim just made run out, its messages are for those who still wait then. Where nobody has looked in
        vain, there may be more messages: the next ones look."""
        lookers: dict[str, int] = {}
        for operation in operations:
            if not isinstance(operation, Claim) or not self._waiters.has(operation.queue):
                continue
            result = operation.result
            if isinstance(result, list) and result:
                self._alarms.set(operation.queue, result[0].ready_at)
            if operation.lookers and result and result is not UNSERVED and operation.queue not in in_vain:
                lookers[operation.queue] = operation.lookers * _MORE_LOOKERS
        for queue, count in lookers.items():
            self._look(queue, count)

    def _look(self, queue: str, count: int = 1) -> None:
        """Let the first who wait for a queue look for a message. That all of them looked, however many they are, would
        keep the store busy whenever there is nothing for them."""
        lookers = self._waiters.take(queue, count)
        for claim in lookers:
            claim.lookers = count
            if self._lanes is not None:
                self._lanes.admit(claim)
        # Whoever has waited goes before whoever has just come.
        self._arrived[:0] = lookers
        self._go_on()

    def _watch(self) -> None:
        """Other processes on the same store do not tell us; while somebody waits, we look."""
        self._watch_timer = None
        if not self._waiters:
            return
        # An embedded store is used from one thread at a time; what it does not tell now, it tells next time.
        if self._is_free():
            changed = self._store.changed_elsewhere()
            if not self._store.inline and self._loop.time() - self._looked_at >= _LOOK_ANYWAY_S:
                self._looked_at = self._loop.time()
                changed = EVERYWHERE
            if changed:
                for queue in self._waiters.queues():
                    if queue in changed:
                        self._look(queue)
        self._watch_timer = self._loop.call_later(_CHANGED_ELSEWHERE_S, self._watch)

    # Housekeeping

    def start(self) -> None:
        self._moves.resume()
        self._sweeps.start()

    def stop(self) -> None:
        """Waiting claims end empty-handed; everything else that was accepted is still served."""
        self._stopping = True
        self._moves.stop()
        self._sweeps.stop()
        for claim in list(self._waiters):
            self._give_up(claim)

    async def finish(self, grace_s: float) -> int:
        """After `stop`: begin no more units, and wait until none is open, but not longer than this. How many still are:
        a store that does not answer must not keep the process from ending."""
        self._finished = True
        return 0 if self._lanes is None else await self._lanes.finish(grace_s)
