"""Consumers that are known to the store: their claims last as long as they give signs of life.

What a consumer holds stands in its own row, not with the messages: a batch costs one row, and a message needs no column
for it. A unit that changes what a consumer holds locks its row first (`attend`), messages after that: then a consumer
and those who believe it dead never wait for each other in a ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from penstock import ids, limits
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
from penstock.stores.sql.claim import Claims, Share, Terms
from penstock.stores.sql.engine import FinishClaimed, Later
from penstock.stores.sql.runs import at_once
from penstock.stores.sql.send import Sends
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import ByRuns, by_runs

_decode = msgspec.json.Decoder(list[Held]).decode
# A sign of life counts for its time, whichever way the clock has jumped since.
_ALIVE = "beat_at > ? - dead_after_ms AND beat_at < ? + dead_after_ms"


@dataclass(frozen=True, slots=True)
class ConsumerSql:
    next_number: str = "SELECT coalesce(max(number), 0) + 1 FROM consumer WHERE queue = ?"
    add: str = """
        INSERT INTO consumer (id, queue, number, delivery, beat_at, dead_after_ms, holding)
        VALUES (?, ?, ?, ?, ?, ?, '[]')"""
    attend: str = "SELECT queue, holding FROM consumer WHERE id = ? {lock}"
    hold: str = "UPDATE consumer SET beat_at = ?, holding = ? WHERE id = ?"
    of_queue: str = """
        SELECT id, delivery, beat_at, dead_after_ms, holding FROM consumer WHERE queue = ? ORDER BY number LIMIT ?"""
    leave: str = "DELETE FROM consumer WHERE id = ?"
    living: str = f"SELECT id FROM consumer WHERE queue = ? AND {_ALIVE} ORDER BY number"
    # Mostly there is none, and a look takes no locks.
    dead: str = f"SELECT id FROM consumer WHERE NOT ({_ALIVE}) LIMIT ?"
    dead_locked: str = f"""
        SELECT queue, delivery, holding FROM consumer WHERE id = ? AND NOT ({_ALIVE}) {{lock_free}}"""
    # Were the queue part of the condition, a database might read the queue instead of these messages.
    held: ByRuns = by_runs("SELECT seq, claim, queue FROM message WHERE {which} ORDER BY seq {lock}")
    first_due: str = "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at < ?"
    trace: str = "SELECT queue, sent_at, ready_at, {is_claimed} FROM message WHERE seq = ? AND queue + 0 > 0"
    outcome: str = "SELECT sent_at, outcome FROM ledger WHERE seq = ? ORDER BY number DESC LIMIT 1"


def _encode(held: Iterable[Held]) -> str:
    return msgspec.json.encode(sorted(held)).decode()


def _ids(look: Later) -> list[str]:
    return [consumer_id for (consumer_id,) in look.rows()]


class Consumers:
    __slots__ = ("_claims", "_sends", "_session", "_sql")

    def __init__(self, session: Session, sends: Sends, claims: Claims) -> None:
        self._session = session
        self._sends = sends
        self._claims = claims
        self._sql = session.engine.statements.of(ConsumerSql)

    def reserve(self, count: int) -> Reservation:
        return self._sends.reserve(count)

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        self._sends.push(queue, messages, now, again)

    def register(self, consumer: Registration, now: int) -> None:
        session = self._session
        queue = session.queue(consumer.queue)
        session.lock_queue(queue.number)
        self.leave(consumer.id)  # it may still stand with a queue of the same name that was deleted
        number = int(session.scalar(self._sql.next_number, (queue.number,)))
        session.engine.run(
            self._sql.add,
            (consumer.id, queue.number, number, consumer.delivery.value, now, consumer.dead_after_ms),
        )

    def attend(self, consumer_id: str) -> set[Held] | None:
        return self._held_by(self._session.engine.later(self._sql.attend, (consumer_id,)))

    def _held_by(self, attended: Later) -> set[Held] | None:
        for queue, holding in attended.rows():
            if self._session.queue_name(queue) is not None:
                return set(_decode(holding))
        return None

    def report(self, consumer: Registration, endings: Sequence[Ending], now: int) -> Attendance:
        queue = self._session.find_queue(consumer.queue)
        if queue is None:
            return Attendance(self.attend(consumer.id), [set() for _ in endings], [])
        # All of it in one round trip, the consumer's row first.
        attended = self._session.engine.later(self._sql.attend, (consumer.id,))
        look = self._look_for_living(queue.number, now)
        begun = [(ending, self._begin_to_end(queue.number, ending, now)) for ending in endings]
        ended = [self._end(queue.number, ending, asked, now) for ending, asked in begun]
        return Attendance(self._held_by(attended), ended, _ids(look))

    def hold(self, consumer_id: str, held: Iterable[Held], now: int) -> None:
        self._session.engine.later(self._sql.hold, (now, _encode(held), consumer_id))

    def list(self, queue: str, limit: int) -> Sequence[ConsumerReport]:
        rows = self._session.engine.rows(self._sql.of_queue, (self._session.queue(queue).number, limit))
        return [
            ConsumerReport(consumer_id, Delivery(delivery), beat_at, dead_after_ms, len(_decode(holding)))
            for consumer_id, delivery, beat_at, dead_after_ms, holding in rows
        ]

    def leave(self, consumer_id: str) -> None:
        self._session.engine.run(self._sql.leave, (consumer_id,))

    def claim(self, consumer: Registration, limit: int, now: int, living: Sequence[str] | None = None) -> Claimed:
        queue = self._session.queue(consumer.queue)
        if living is None:
            living = _ids(self._look_for_living(queue.number, now))
        share = None
        if len(living) > 1 and consumer.id in living:
            share = Share(living.index(consumer.id), len(living))
        heeds = consumer.delivery is Delivery.AT_MOST_ONCE
        return self._claims.claim_on(queue, limit, now, Terms(limits.NEVER, True, heeds, share))

    def _look_for_living(self, queue: int, now: int) -> Later:
        return self._session.engine.later(self._sql.living, (queue, now, now))

    def end_claims(
        self, queue: str, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        found = self._session.find_queue(queue)
        return self._end_claims(found.number, Ending(held, outcome, delay_ms), now) if found else set()

    def _end_claims(self, queue: int, ending: Ending, now: int) -> set[Held]:
        return self._end(queue, ending, self._begin_to_end(queue, ending, now), now)

    def _begin_to_end(self, queue: int, ending: Ending, now: int) -> Later | None:
        """Finish the messages where that is one statement, else lock them: for `_end`. None where there is nothing to
        do."""
        session, engine = self._session, self._session.engine
        if not ending.held:
            return None
        finish = self._finish_claimed(queue)
        if ending.outcome is not None and finish is not None:
            return session.begin_to_finish(finish, queue, dict(sorted(ending.held)), ending.outcome, now)
        return engine.later(*at_once(engine, self._sql.held, sorted({seq for seq, _ in ending.held})))

    def _finish_claimed(self, queue: int) -> FinishClaimed | None:
        """Where messages stand in line, those behind them must be lifted: then it takes more than one statement."""
        session = self._session
        return session.engine.finish_claimed if session.with_lines(queue) is None else None

    def _end(self, queue: int, ending: Ending, begun: Later | None, now: int) -> set[Held]:
        session = self._session
        if begun is None:
            return set()
        if ending.outcome is not None and self._finish_claimed(queue) is not None:
            finished = session.finished(queue, begun, ending.outcome)
            if len(finished) == len(ending.held):
                return set(ending.held)
            return {(seq, claim) for seq, claim in dict(sorted(ending.held)).items() if seq in finished}
        rows = begun.rows()
        ended = set(ending.held).intersection((seq, abs(claim)) for seq, claim, number in rows if number == queue)
        if ending.outcome is not None:
            session.finish(queue, sorted(seq for seq, _ in ended), ending.outcome, now)
            return ended
        # The others were released with a delay.
        still_claimed = [seq for seq, claim, _ in rows if (seq, claim) in ended]
        if still_claimed:
            if ending.delay_ms > 0:
                session.put_off(still_claimed, now + ending.delay_ms)
            else:
                session.make_ready(queue, still_claimed, now)
            name = session.queue_name(queue)
            if name is not None:
                session.stirred.add(name)
        return ended

    def reap(self, now: int) -> int:
        engine = self._session.engine
        dead = engine.rows(self._sql.dead, (now, now, self._session.limits.reap_consumers))
        reaped = 0
        for (consumer_id,) in sorted(dead):
            for queue, delivery, holding in engine.rows(self._sql.dead_locked, (consumer_id, now, now)):
                outcome = Outcome.FAILED if delivery == Delivery.AT_MOST_ONCE else None
                self._end_claims(queue, Ending(_decode(holding), outcome), now)
                self.leave(consumer_id)
                reaped += 1
        return reaped

    def first_due(self, queue: str) -> int | None:
        found = self._session.find_queue(queue)
        if found is None or found.paused_at is not None:
            return None
        due: int | None = self._session.scalar(self._sql.first_due, (found.number, limits.NEVER))
        return due

    def trace(self, message_id: str, now: int) -> Trace | None:
        seq = ids.seq_of(message_id)
        if seq is None:
            return None
        session, engine = self._session, self._session.engine
        for number, sent_at, ready_at, is_claimed in engine.rows(self._sql.trace, (seq,)):
            if ids.make_id(session.origin, sent_at, seq) != message_id.lower():
                return None
            if session.queue_name(number) is None:
                return Trace(Outcome.PURGED)  # with its queue; the row is freed later
            return Trace(None, now < ready_at < limits.BEHIND and bool(is_claimed))
        for sent_at, outcome in engine.rows(self._sql.outcome, (seq,)):
            if ids.make_id(session.origin, sent_at, seq) == message_id.lower():
                return Trace(Outcome(outcome))
        return None
