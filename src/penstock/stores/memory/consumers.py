"""Consumers that are known to the memory store: their claims last as long as they give signs of life."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from penstock import ids, limits, policy
from penstock.model import (
    Attendance,
    Claimed,
    ConsumerReport,
    Delivery,
    Ending,
    Held,
    Numbered,
    Outcome,
    Registration,
    Reservation,
    Trace,
)
from penstock.stores.memory.claims import ClaimTerms, Share, claim
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import ConsumerRow


class MemoryConsumers:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    # Messages that have their numbers before they are stored

    def reserve(self, count: int) -> Reservation:
        first = self._tables.last_seq + 1
        self._tables.last_seq += count
        return Reservation(self._tables.origin, [*range(first, first + count)])

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        found = self._session.queue(queue)
        policy.refuse_own_delay(found.settings, [message.draft for message in messages])
        known = self._known() if again else frozenset()
        for message in messages:
            if message.seq not in known:
                self._session.send(found, message.draft, now, (message.seq, message.sent_at))

    def _known(self) -> Collection[int]:
        kept = [row.seq for shipment in self._tables.shipments.values() for row in shipment.kept]
        return {*self._tables.messages, *kept, *(ids.seq_of(row.id) or 0 for row in self._tables.ledger)}

    # Being alive

    def register(self, consumer: Registration, now: int) -> None:
        number = self._session.queue(consumer.queue).number
        self.leave(consumer.id)
        ranks = [row.rank for row in self._tables.consumers.values() if row.queue == number]
        self._put(ConsumerRow(number, max(ranks, default=0) + 1, consumer, now))

    def attend(self, consumer_id: str) -> set[Held] | None:
        row = self._tables.consumers.get(consumer_id)
        return None if row is None or not self._is_living(row.queue) else set(row.held)

    def report(self, consumer: Registration, endings: Sequence[Ending], now: int) -> Attendance:
        queue = self._session.find_queue(consumer.queue)
        ended = [self.end_claims(consumer.queue, one.held, one.outcome, now, one.delay_ms) for one in endings]
        return Attendance(self.attend(consumer.id), ended, [] if queue is None else self._living(queue.number, now))

    def hold(self, consumer_id: str, held: Iterable[Held], now: int) -> None:
        row = self._tables.consumers.get(consumer_id)
        if row is not None:
            self._put(replace(row, beat_at=now, held=frozenset(held)))

    def leave(self, consumer_id: str) -> None:
        rest = {name: row for name, row in self._tables.consumers.items() if name != consumer_id}
        if len(rest) < len(self._tables.consumers):
            self._tables.replace("consumers", rest)

    def reap(self, now: int) -> int:
        dead = [row for row in self._tables.consumers.values() if not _is_alive(row, now)]
        reaped = dead[: self._session.limits.reap_consumers]
        for row in reaped:
            is_failed = row.consumer.delivery is Delivery.AT_MOST_ONCE
            self._end_claims(row.queue, row.held, Outcome.FAILED if is_failed else None, now)
            self.leave(row.consumer.id)
        return len(reaped)

    def _is_living(self, queue: int) -> bool:
        row = self._tables.queues.get(queue)
        return row is not None and not row.deleted

    def _put(self, row: ConsumerRow) -> None:
        self._tables.replace("consumers", {**self._tables.consumers, row.consumer.id: row})

    # Their messages

    def _living(self, queue: int, now: int) -> list[str]:
        rows = [row for row in self._tables.consumers.values() if row.queue == queue and _is_alive(row, now)]
        return [row.consumer.id for row in sorted(rows, key=lambda row: row.rank)]

    def claim(self, consumer: Registration, limit: int, now: int, living: Sequence[str] | None = None) -> Claimed:
        queue = self._session.queue(consumer.queue)
        if living is None:
            living = self._living(queue.number, now)
        share = None
        if len(living) > 1 and consumer.id in living:
            share = Share(living.index(consumer.id), len(living))
        heeds = consumer.delivery is Delivery.AT_MOST_ONCE
        terms = ClaimTerms(limits.NEVER, self._session.limits.claim_bytes, True, heeds, share)
        return claim(self._session, queue, limit, now, terms)

    def end_claims(
        self, queue: str, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        found = self._session.find_queue(queue)
        return set() if found is None else self._end_claims(found.number, held, outcome, now, delay_ms)

    def _end_claims(
        self, queue: int, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        ended: set[Held] = set()
        for seq, number in sorted(held):
            row = self._tables.messages.get(seq)
            if row is None or (row.queue, row.claim) != (queue, number):
                continue
            ended.add((seq, number))
            if outcome is not None:
                self._tables.depart(row, outcome, now)
            elif not row.put_off and self._is_living(queue):
                self._session.make_ready(row, now + delay_ms if delay_ms > 0 else 0)
        self._session.mend_lines(now)
        return ended

    def first_due(self, queue: str) -> int | None:
        found = self._session.find_queue(queue)
        if found is None or found.paused_at is not None:
            return None
        first = next(self._tables.in_order(found.number), None)
        return None if first is None or first.ready_at >= limits.NEVER else first.ready_at

    def trace(self, message_id: str, now: int) -> Trace | None:
        row = self._tables.messages.get(ids.seq_of(message_id) or 0)
        if row is not None:
            if self._session.id_of(row) != message_id.lower():
                return None
            if not self._is_living(row.queue):
                return Trace(Outcome.PURGED)  # with its queue; the row is freed later
            return Trace(None, row.is_held(now))
        ended = (row for row in reversed(self._tables.ledger) if row.id == message_id.lower())
        return next((Trace(row.outcome) for row in ended), None)

    def list(self, queue: str, limit: int) -> Sequence[ConsumerReport]:
        number = self._session.queue(queue).number
        rows = sorted((row for row in self._tables.consumers.values() if row.queue == number), key=lambda row: row.rank)
        return [
            ConsumerReport(
                row.consumer.id, row.consumer.delivery, row.beat_at, row.consumer.dead_after_ms, len(row.held)
            )
            for row in rows[:limit]
        ]


def _is_alive(row: ConsumerRow, now: int) -> bool:
    """A sign of life counts for its time, whichever way the clock has jumped since."""
    return abs(now - row.beat_at) < row.consumer.dead_after_ms
