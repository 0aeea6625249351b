"""The verbs of the memory store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from msgspec.structs import replace

from penstock import ids, limits, policy
from penstock.errors import DeadLetterQueueNotFound, QueueExists, QueueNotFound
from penstock.model import (
    Claimed,
    Dedup,
    Draft,
    Message,
    Outcome,
    PeekAfter,
    Purged,
    Queue,
    QueuePage,
    Receipt,
    Sent,
    Settings,
)
from penstock.policy import Verdict
from penstock.stores.memory import collapses
from penstock.stores.memory.exports import ExportVerbs
from penstock.stores.memory.records import RecordVerbs
from penstock.stores.memory.shipments import ShipmentVerbs
from penstock.stores.memory.state import MessageRow, QueueRow, State
from penstock.stores.memory.views import ViewVerbs

_FINISHED = {Verdict.EXPIRE: Outcome.EXPIRED, Verdict.FAIL: Outcome.FAILED}


class MemoryUnit(ViewVerbs, RecordVerbs, ShipmentVerbs, ExportVerbs):
    def __init__(self, state: State) -> None:
        self.stirred: set[str] = set()
        self._state = state

    def prove_writable(self) -> None:
        pass

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        if self.find_queue(name) is not None:
            raise QueueExists(name)
        self._check_redrive(settings)
        queue = Queue(max(self._state.queues, default=0) + 1, name, now, settings)
        self._state.put_queue(QueueRow(queue))
        return queue

    def update_queue(self, name: str, settings: Settings) -> Queue:
        former = self._queue(name)
        self._check_redrive(settings)
        queue = replace(former, settings=settings)
        row = replace(self._state.queues[queue.number], queue=queue)
        retention_ms = former.settings.retention_ms
        if settings.retention_ms < retention_ms:
            row = replace(row, kept_ms=max(row.kept_ms, retention_ms), lowered_through=self._state.last_seq)
        self._state.put_queue(row)
        return queue

    def delete_queue(self, name: str, now: int) -> Queue:
        deleted = self._queue(name)
        for queue in self._state.living_queues():
            redrive = queue.settings.redrive
            if redrive is not None and redrive.dead_letter_queue == name:
                self.update_queue(queue.name, replace(queue.settings, redrive=None))
        self._state.put_queue(replace(self._state.queues[deleted.number], deleted=True))
        self.stirred.add(name)
        return deleted

    def find_queue(self, name: str) -> Queue | None:
        number = self._state.numbers.get(name)
        return None if number is None else self._state.queues[number].queue

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        queues = self._state.living_queues()
        return QueuePage(len(queues), queues[offset : offset + limit])

    def _queue(self, name: str) -> Queue:
        queue = self.find_queue(name)
        if queue is None:
            raise QueueNotFound(name)
        return queue

    def _check_redrive(self, settings: Settings) -> None:
        if settings.redrive is not None and self.find_queue(settings.redrive.dead_letter_queue) is None:
            raise DeadLetterQueueNotFound(settings.redrive.dead_letter_queue)

    # Arrivals

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        found = self._queue(queue)
        return [self._send(found, draft, now) for draft in drafts]

    def _send(self, queue: Queue, draft: Draft, now: int) -> Sent:
        state, settings = self._state, queue.settings
        hashed = policy.body_hash(draft.body)
        key = policy.dedup_key(settings, draft, hashed)
        if settings.dedup is Dedup.SEND:
            twin = self._twin(queue, key, now)
            if twin is not None:
                return Sent(self._id(twin), False)
        state.last_seq += 1
        ready_at = policy.ready_at(settings, draft.delay_ms, now)
        row = MessageRow(state.last_seq, queue.number, now, draft, hashed, key, ready_at)
        state.arrive(row)
        return Sent(self._id(row), True)

    def _twin(self, queue: Queue, key: bytes | None, now: int) -> MessageRow | None:
        if key is None:
            return None
        for row in self._state.with_key(queue.number, key):
            if not policy.is_expired(queue.settings, now, row.sent_at):
                return row
            self._state.put_message(replace(row, dedup_key=None))
        return None

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        here, there = self._queue(source), self._queue(target)
        if here == there:
            return 0
        rows = (row for row in self._state.in_order(here.number) if row.ready_at < limits.SHIPPED)
        free = (row for row in rows if claimed or row.ready_at <= now or row.is_delayed)
        moving = list(islice((row for row in free if row.seq <= through), limit))
        # By age, so that of twins among them the oldest is the one to arrive.
        for row in sorted(moving, key=lambda row: row.seq):
            self._carry_over(row, there, Outcome.MOVED, now)
        return len(moving)

    def _carry_over(self, row: MessageRow, there: Queue, outcome: Outcome, now: int) -> None:
        """A message leaves its queue for another, where it has never been received."""
        state = self._state
        key = row.dedup_key
        is_twin = False
        if row.queue != there.number:
            key = policy.dedup_key_on_arrival(there.settings, key, row.body_hash)
            is_twin = there.settings.dedup is not Dedup.CLAIM and self._twin(there, key, now) is not None
        state.depart(row, outcome, now)
        if not is_twin:
            self.stirred.add(there.name)
            delayed = row.is_delayed and row.ready_at > now
            arriving = replace(
                row,
                queue=there.number,
                dedup_key=key,
                ready_at=row.ready_at if delayed else 0,
                receives=0,
                first_claimed_at=None,
                last_claimed_at=None,
                put_off=False,
                came_from=self._origin(row, there, outcome),
            )
            state.arrive(collapses.spared(state, arriving))

    def _origin(self, row: MessageRow, there: Queue, outcome: Outcome) -> str | None:
        """Where a message that arrives in a queue has come from as a dead letter."""
        if outcome is Outcome.DEAD_LETTERED and row.queue != there.number:
            return self._state.queues[row.queue].queue.name
        return None if row.came_from == there.name else row.came_from

    def last_seq(self) -> int:
        return self._state.last_seq

    # Claims

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self._queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        return self._claim(found, limit, now, now + hold if hold > 0 else 0, limits.CLAIM_BYTES)

    def _claim(self, found: Queue, limit: int, now: int, until: int, room: int) -> Claimed:
        self._promote(found, now)
        collapses.go_on(self._state, now, limits.STEP_ROWS, found.number)
        messages: list[Message] = []
        collapsed = 0
        ready = self._ready(found)
        while len(messages) < limit and room > 0 and (row := next(ready, None)) is not None:
            if found.settings.dedup is Dedup.CLAIM and collapses.is_doomed(self._state, row):
                if collapsed == limits.STEP_ROWS:
                    return Claimed(messages, more=True)
                self._state.depart(row, Outcome.COLLAPSED, now)
                collapsed += 1
                continue
            verdict = policy.judge(found.settings, now, row.sent_at, row.receives, row.draft.deadline_at)
            if verdict is Verdict.DELIVER:
                messages.append(self._deliver(found, row, now, until))
                room -= len(row.draft.body)
            elif verdict is Verdict.DEAD_LETTER and found.settings.redrive is not None:
                dead_letters = self._queue(found.settings.redrive.dead_letter_queue)
                self._carry_over(row, dead_letters, Outcome.DEAD_LETTERED, now)
            else:
                self._state.depart(row, _FINISHED[verdict], now)
        return Claimed(messages, more=room <= 0 and len(messages) < limit)

    def _promote(self, queue: Queue, now: int) -> None:
        """Delays and claims that have run out: ready again, in their old place."""
        due = takewhile(lambda row: row.ready_at <= now, self._state.in_order(queue.number, ready_at=1))
        for row in due:
            self._set_ready_at(row, row.ready_at + self._backoff(queue, row) if self._backs_off(queue, row, now) else 0)

    def _backs_off(self, queue: Queue, row: MessageRow, now: int) -> bool:
        """Whether the claim on a message has run out so lately that its backoff lasts."""
        return 0 < row.ready_at <= now < row.ready_at + self._backoff(queue, row)

    @staticmethod
    def _backoff(queue: Queue, row: MessageRow) -> int:
        return 0 if row.is_delayed else policy.backoff_ms(queue.settings, row.receives)

    def _ready(self, queue: Queue) -> Iterator[MessageRow]:
        return takewhile(lambda row: row.ready_at == 0, self._state.in_order(queue.number))

    def _deliver(self, queue: Queue, row: MessageRow, now: int, until: int) -> Message:
        if queue.settings.dedup is Dedup.CLAIM and row.receives == 0:
            collapses.collapse(self._state, row, now)
        delivered = replace(
            row,
            ready_at=until,
            receives=row.receives + 1,
            claim=row.claim + 1,
            first_claimed_at=now if row.first_claimed_at is None else row.first_claimed_at,
            last_claimed_at=now,
            put_off=False,
        )
        self._state.put_message(delivered)
        return self._message(queue, replace(delivered, ready_at=until or now))

    # Receipts

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        results = []
        for receipt in receipts:
            row = self._match(receipt)
            if row is not None:
                self._state.depart(row, Outcome.PROCESSED, now)
            results.append(row is not None)
        return results

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        matched = [self._match(receipt) for receipt in receipts]
        for row in matched:
            if row is not None and (shorten or row.ready_at < until):
                self._state.put_message(replace(row, ready_at=until, receives=max(row.receives, 1), put_off=False))
                if shorten:
                    self.stirred.add(self._state.queues[row.queue].queue.name)
        return [row is not None for row in matched]

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        matched = [self._match(receipt) for receipt in receipts]
        for row in matched:
            if row is not None and row.receives > 0 and (row.ready_at <= now or not row.put_off):
                settings = self._state.queues[row.queue].queue.settings
                delay = policy.backoff_ms(settings, row.receives) if delay_ms is None else delay_ms
                self._make_ready(row, now + delay if delay > 0 else 0)
        return [row is not None for row in matched]

    def release_all(self, queue: str, now: int, limit: int) -> int:
        number = self._queue(queue).number
        waiting = self._state.in_order(number, ready_at=now + 1)
        claimed = list(islice((row for row in waiting if not row.is_delayed and row.ready_at < limits.SHIPPED), limit))
        for row in claimed:
            self._make_ready(row)
        return len(claimed)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        matched = [self._match(receipt) for receipt in receipts]
        return [None if row is None else self._state.queues[row.queue].queue.name for row in matched]

    def _set_ready_at(self, row: MessageRow, ready_at: int) -> None:
        put_off = ready_at > 0
        claim = max(row.claim, 1) if put_off else row.claim
        self._state.put_message(replace(row, ready_at=ready_at, claim=claim, put_off=put_off))

    def _make_ready(self, row: MessageRow, ready_at: int = 0) -> None:
        self._set_ready_at(row, ready_at)
        self.stirred.add(self._state.queues[row.queue].queue.name)

    def _match(self, receipt: Receipt) -> MessageRow | None:
        row = self._state.messages.get(ids.seq_of(receipt.id) or 0)
        if row is None or row.ready_at == limits.SHIPPED or self._id(row) != receipt.id.lower():
            return None
        here = self._state.queues[row.queue]
        fits = receipt.claim in (None, row.claim) and receipt.queue in (None, here.queue.name)
        return row if fits and not here.deleted else None

    # Departures

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        return self._purge(self._queue(queue).number, now, limit, through)

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        start = after or PeekAfter(0, 0)
        rows = list(islice(self._state.in_order(self._queue(queue).number, start.ready_at, start.seq), limit))
        old = [row for row in rows if row.seq <= through and row.sent_at < sent_before]
        for row in old:
            self._state.depart(row, Outcome.PURGED, now)
        return Purged(len(old), PeekAfter(rows[-1].ready_at, rows[-1].seq) if rows and len(rows) == limit else None)

    def _purge(self, number: int, now: int, limit: int, through: int) -> int:
        doomed = list(islice((row for row in self._state.in_order(number) if row.seq <= through), limit))
        for row in doomed:
            self._state.depart(row, Outcome.PURGED, now)
        return len(doomed)

    def sweep(self, now: int, limit: int, ledger_before: int) -> int:
        freed = 0
        for number, row in sorted(self._state.queues.items()):
            if row.deleted:
                freed += self._purge(number, now, limit - freed, self._state.last_seq)
                self._forget_queue(number)
        freed += collapses.go_on(self._state, now, limit - freed)
        for queue in self._state.living_queues():
            self._promote(queue, now)
            row = self._state.queues[queue.number]
            expired = (message for message in self._ready(queue) if self._is_over(row, message, now))
            for message in islice(expired, limit - freed):
                self._state.depart(message, Outcome.EXPIRED, now)
                freed += 1
        ledger = self._state.ledger
        old = {row.number for row in islice((row for row in ledger if row.finished_at < ledger_before), limit - freed)}
        if old:
            self._state.replace("ledger", [row for row in ledger if row.number not in old])
        freed += len(old)
        freed += self.sweep_shipments(now, limit - freed)
        return freed + self.sweep_exports(now) + self.sweep_sends(now) + self.sweep_moves(now)

    def _forget_queue(self, number: int) -> None:
        """Once it is empty and no shipment of it is left. The next queue counts on from the latest."""
        has_shipments = any(queue == number for queue, _, _ in self._state.shipments)
        if not (self._state.order[number] or has_shipments or number == max(self._state.queues)):
            self._state.forget_queue(number)

    @staticmethod
    def _is_over(here: QueueRow, message: MessageRow, now: int) -> bool:
        """Past its retention, also past the one it was sent under where that was lowered since."""
        kept_ms = here.kept_ms if message.seq <= here.lowered_through else 0
        return message.sent_at + max(here.queue.settings.retention_ms, kept_ms) <= now

    def _id(self, row: MessageRow) -> str:
        return ids.make_id(self._state.origin, row.sent_at, row.seq)

    def _message(self, queue: Queue, row: MessageRow) -> Message:
        return Message(
            id=self._id(row),
            seq=row.seq,
            queue=queue.name,
            body=row.draft.body,
            content_type=row.draft.content_type,
            attributes=row.draft.attributes or None,
            sent_at=row.sent_at,
            ready_at=row.ready_at,
            receives=row.receives,
            claim=row.claim,
            deadline_at=row.draft.deadline_at,
            came_from=row.came_from,
        )
