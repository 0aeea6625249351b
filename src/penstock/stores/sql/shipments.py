"""Shipments: messages that one named consumer claims, reads as often as it likes, and ends together.

Its row says which messages they are; theirs only say that they are in one. A unit that changes a shipment locks its row
first, messages after that.

An end is decided in one unit, by the state, and carried out in as many as it takes. Settled messages are finished,
released and lost ones ready again. Those of a shipment that is kept have left their queue as well, but their rows stay
for a while, with a queue that no verb looks into: the shipment's own id, below zero.

One file because the beginning of a shipment and its end are two halves of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock import policy
from penstock.errors import ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Message, Outcome, Queue, Shipment, ShipmentRef, ShipmentState
from penstock.stores.sql import runs
from penstock.stores.sql.budget import Budget
from penstock.stores.sql.claim import Claims, Shipped
from penstock.stores.sql.engine import Row
from penstock.stores.sql.runs import Run
from penstock.stores.sql.session import Session, seq_in, size_of
from penstock.stores.sql.statements import Bounded, ByRuns, by_runs

_NOT_ENDED = (ShipmentState.GATHERING, ShipmentState.OPEN)
# What `kept` says.
_READABLE, _BEING_FREED = 1, 2
_AT_ONCE = 0
# Shipments that one sweep looks at.
_SWEEP_SHIPMENTS = 256

_COLUMNS = "id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at, stored_in"
# Of a shipment `s`; the parameter is the instant since which it must have ended. The latest of a consumer always is.
_REMEMBERED = """(s.ended_at IS NULL OR s.ended_at >= ? OR NOT EXISTS (
            SELECT 1 FROM shipment AS l WHERE l.queue = s.queue AND l.consumer = s.consumer AND l.number > s.number))"""
_OF_REF = f"SELECT {_COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? AND number = ?"


@dataclass(frozen=True, slots=True)
class ShipmentSql:
    find: str = _OF_REF
    find_locked: str = f"{_OF_REF} {{lock}}"
    latest: str = f"SELECT {_COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? ORDER BY number DESC LIMIT 1"
    page: str = f"""
        SELECT {_COLUMNS} FROM shipment AS s WHERE queue = ? AND consumer > ? AND number > ? AND {_REMEMBERED}
        ORDER BY queue, consumer, number LIMIT ?"""
    page_of_consumer: str = f"""
        SELECT {_COLUMNS} FROM shipment AS s WHERE queue = ? AND consumer = ? AND number > ? AND {_REMEMBERED}
        ORDER BY queue, consumer, number LIMIT ?"""
    add: str = """
        INSERT INTO shipment (queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at,
                              until, due_at, runs)
        VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?)"""
    extend: str = """
        UPDATE shipment SET state = ?, messages = ?, bytes = ?, until = ?, due_at = ?, runs = ? WHERE id = ?"""
    prolong: str = "UPDATE shipment SET until = ?, due_at = ? WHERE id = ?"
    runs: str = "SELECT runs FROM shipment WHERE id = ?"
    read: ByRuns = by_runs(Bounded("SELECT {message} FROM message WHERE {which} AND {shipped} IN (?, ?) ORDER BY seq"))
    delete: str = "DELETE FROM shipment WHERE id = ?"
    open_of_queue: str = f"""
        SELECT {_COLUMNS} FROM shipment WHERE queue = ? AND ended_at IS NULL ORDER BY consumer LIMIT ?"""
    not_ended: str = "SELECT id FROM shipment WHERE ended_at IS NULL LIMIT ?"
    # Its end
    decide: str = "UPDATE shipment SET state = ?, ended_at = ?, kept = ?, stored_in = ?, due_at = ? WHERE id = ?"
    former: str = f"""
        SELECT {_COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? AND number < ? AND state = ?
        ORDER BY number DESC LIMIT 1 {{lock}}"""
    clear: str = "UPDATE shipment SET cleared = ? WHERE id = ?"
    remember: str = "UPDATE shipment SET kept = 0, due_at = ?, runs = '[]' WHERE id = ?"
    due_at: str = "UPDATE shipment SET due_at = ? WHERE id = ?"
    free: str = "UPDATE shipment SET kept = ?, due_at = ? WHERE id = ?"
    lock_messages: ByRuns = by_runs("SELECT seq FROM message WHERE {which} AND {shipped} = ? ORDER BY seq {lock}")
    make_ready: ByRuns = by_runs("UPDATE message SET ready_at = 0 WHERE {which} AND {shipped} = ?")
    record: ByRuns = by_runs(
        "{into_ledger} FROM message AS m {as_the_queue_wants} AND {which} AND {shipped} = ? ORDER BY m.seq"
    )
    keep: ByRuns = by_runs("UPDATE message SET queue = ? WHERE {which} AND {shipped} = ?")
    finish: ByRuns = by_runs("DELETE FROM message WHERE {which} AND {shipped} = ?")
    # Its sweep. Mostly nothing is due, and a look takes no locks.
    due: str = "SELECT id FROM shipment WHERE due_at < ? ORDER BY due_at LIMIT ?"
    due_locked: str = f"SELECT {_COLUMNS} FROM shipment WHERE id = ? AND due_at < ? {{lock_free}}"
    kept: str = "SELECT seq FROM {walk} WHERE queue = ? LIMIT ?"
    later: str = "SELECT 1 FROM shipment WHERE queue = ? AND consumer = ? AND number > ? LIMIT 1"


@dataclass(frozen=True, slots=True)
class ShipmentRecord:
    id: int
    queue: int
    consumer: str
    number: int
    state: ShipmentState
    messages: int
    bytes: int
    cleared: int
    kept: int
    claimed_at: int
    until: int
    ended_at: int | None
    stored_in: str | None

    def shown(self, queue: str) -> Shipment:
        return Shipment(
            queue,
            self.consumer,
            self.number,
            self.state,
            self.messages,
            self.bytes,
            self.claimed_at,
            self.until,
            self.ended_at,
            self.stored_in,
        )


def _record_of(row: Row) -> ShipmentRecord:
    shipment, queue, consumer, number, state, *others = row
    return ShipmentRecord(shipment, queue, consumer, number, ShipmentState(state), *others)


class Shipments:
    __slots__ = ("_claims", "_session", "_sql")

    def __init__(self, session: Session, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._sql = session.engine.statements.of(ShipmentSql)

    def claim(
        self,
        ref: ShipmentRef,
        limit: int,
        now: int,
        hold_ms: int,
        step: int | None = None,
        max_bytes: int | None = None,
    ) -> Shipment | None:
        queue = self._session.queue(ref.queue)
        # Else two servers make the same shipment at once.
        self._session.lock_queue(queue.number)
        row = self._find(queue, ref, now, lock=True)
        if row is None:
            last = self._latest(queue, ref.consumer)
            is_open = last is not None and last.state in _NOT_ENDED
            policy.check_number(ref, last.number if last else 0, is_open)
        elif row.state not in _NOT_ENDED:
            raise ShipmentEnded(ref, row.state)
        until = now + hold_ms
        if row is not None and row.state is ShipmentState.OPEN:
            self._prolong(row, max(row.until, until))
        elif not self._gather(queue, ref, row, limit, now, until, step or self._session.limits.claim_rows, max_bytes):
            return None
        return self._demand(queue, ref, now).shown(ref.queue)

    def _gather(
        self,
        queue: Queue,
        ref: ShipmentRef,
        row: ShipmentRecord | None,
        limit: int,
        now: int,
        until: int,
        most: int,
        max_bytes: int | None,
    ) -> bool:
        """Claim one step's worth of messages. False, and no shipment, where nothing at all is ready."""
        engine, sql = self._session.engine, self._sql
        messages, size = (row.messages, row.bytes) if row else (0, 0)
        is_full = max_bytes is not None and size >= max_bytes
        step = 0 if is_full else max(0, min(most, limit - messages))
        budget = None if max_bytes is None else Budget(max_bytes - size, messages > 0)
        shipped = self._claims.ship(queue, step, now, budget) if step else Shipped(0, 0, [], False)
        messages += shipped.messages
        size += shipped.bytes
        is_full = max_bytes is not None and size >= max_bytes
        is_whole = messages >= limit or is_full or (shipped.messages < step and not shipped.more)
        if is_whole and not messages:
            if row is not None:
                engine.run(sql.delete, (row.id,))
            return False
        state = ShipmentState.OPEN if is_whole else ShipmentState.GATHERING
        if row is None:
            whose = queue.number, ref.consumer, ref.number
            engine.run(sql.add, (*whose, state.value, messages, size, now, until, until, runs.encode(shipped.runs)))
        else:
            all_runs = runs.encode(runs.merged(self._runs_of(row), shipped.runs))
            engine.run(sql.extend, (state.value, messages, size, until, until, all_runs, row.id))
        return True

    def find(self, ref: ShipmentRef, now: int) -> Shipment | None:
        row = self._find(self._session.queue(ref.queue), ref, now)
        return None if row is None else row.shown(ref.queue)

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, now: int, after_consumer: str = ""
    ) -> Sequence[Shipment]:
        number, engine = self._session.queue(queue).number, self._session.engine
        ended_since = self._ended_since(now)
        if consumer is None:
            rows = engine.rows(self._sql.page, (number, after_consumer, after, ended_since, limit))
        else:
            rows = engine.rows(self._sql.page_of_consumer, (number, consumer, after, ended_since, limit))
        return [_record_of(row).shown(queue) for row in rows]

    def list_open(self, queue: str, limit: int) -> Sequence[Shipment]:
        rows = self._session.engine.rows(self._sql.open_of_queue, (self._session.queue(queue).number, limit))
        return [_record_of(row).shown(queue) for row in rows]

    def count_open(self, limit: int) -> int:
        return len(self._session.engine.rows(self._sql.not_ended, (limit,)))

    def read(self, ref: ShipmentRef, start: int, limit: int, now: int) -> Sequence[Message]:
        session, engine = self._session, self._session.engine
        row = self._demand(session.queue(ref.queue), ref, now)
        if row.state is ShipmentState.GATHERING:
            raise ShipmentConflict(ref)
        kept_since = now - session.limits.shipment_kept_ms
        if row.ended_at is not None and (row.kept != _READABLE or row.ended_at < kept_since):
            raise ShipmentEnded(ref, row.state)
        room = session.limits.page_bytes
        messages: list[Message] = []
        wanted = runs.part(self._runs_of(row), start, limit)
        for statement, which, params in runs.each_run(engine, self._sql.read, wanted):
            rows = engine.rows_within(statement, (*params, row.queue, -row.id), room)
            messages += session.messages(ref.queue, rows)
            room -= size_of(rows)
            expected = runs.numbers_of(which)
            # Of these numbers and in their order: if the last one stands where it should, none is missing before it.
            if not rows or seq_in(rows[-1]) != expected[len(rows) - 1] or (len(rows) < len(expected) and room > 0):
                end = "purged" if row.state is ShipmentState.OPEN else row.state
                raise ShipmentEnded(ref, end)
            if room <= 0:
                break
        return messages

    def settle(self, ref: ShipmentRef, now: int, limit: int, keep: bool = False, stored_in: str | None = None) -> int:
        row = self._demand(self._session.queue(ref.queue), ref, now, lock=True)
        if row.state is ShipmentState.GATHERING:
            raise ShipmentConflict(ref)
        if row.state not in (ShipmentState.OPEN, ShipmentState.SETTLED):
            raise ShipmentEnded(ref, row.state)
        if row.state is ShipmentState.OPEN:
            row = self._decide(row, ShipmentState.SETTLED, now, _READABLE if keep else 0, stored_in)
        self._free_former(row, now, limit)
        return self._go_on_ending(row, now, limit)

    def release(self, ref: ShipmentRef, now: int, limit: int) -> int:
        row = self._demand(self._session.queue(ref.queue), ref, now, lock=True)
        if row.state is ShipmentState.SETTLED:
            raise ShipmentEnded(ref, row.state)
        if row.state in _NOT_ENDED:
            row = self._decide(row, ShipmentState.RELEASED, now)
        return self._go_on_ending(row, now, limit)

    def beat(self, ref: ShipmentRef, now: int, hold_ms: int) -> Shipment:
        queue = self._session.queue(ref.queue)
        row = self._demand(queue, ref, now, lock=True)
        if row.state not in _NOT_ENDED:
            raise ShipmentEnded(ref, row.state)
        self._prolong(row, now + hold_ms)
        return self._demand(queue, ref, now).shown(ref.queue)

    def _find(self, queue: Queue, ref: ShipmentRef, now: int, lock: bool = False) -> ShipmentRecord | None:
        engine, statement = self._session.engine, self._sql.find_locked if lock else self._sql.find
        for row in map(_record_of, engine.rows(statement, (queue.number, ref.consumer, ref.number))):
            is_old = row.ended_at is not None and row.ended_at < self._ended_since(now)
            if not (is_old and engine.rows(self._sql.later, (row.queue, row.consumer, row.number))):
                return row
        return None

    def _ended_since(self, now: int) -> int:
        """What has ended before is not remembered, but for the latest of a consumer."""
        return now - self._session.limits.shipment_remembered_ms

    def _demand(self, queue: Queue, ref: ShipmentRef, now: int, lock: bool = False) -> ShipmentRecord:
        row = self._find(queue, ref, now, lock)
        if row is None:
            raise ShipmentNotFound(ref)
        return row

    def _latest(self, queue: Queue, consumer: str) -> ShipmentRecord | None:
        rows = self._session.engine.rows(self._sql.latest, (queue.number, consumer))
        return _record_of(rows[0]) if rows else None

    def _prolong(self, row: ShipmentRecord, until: int) -> None:
        self._session.engine.run(self._sql.prolong, (until, until, row.id))

    def _runs_of(self, row: ShipmentRecord) -> Sequence[Run]:
        return runs.decode(self._session.scalar(self._sql.runs, (row.id,)))

    # Its end

    def _decide(
        self, row: ShipmentRecord, state: ShipmentState, now: int, kept: int = 0, stored_in: str | None = None
    ) -> ShipmentRecord:
        self._session.engine.run(self._sql.decide, (state.value, now, kept, stored_in, _AT_ONCE, row.id))
        return replace(row, state=state, ended_at=now, kept=kept, stored_in=stored_in)

    def _free_former(self, row: ShipmentRecord, now: int, limit: int) -> None:
        """Of a consumer's shipments only the last one that was settled is kept."""
        params = row.queue, row.consumer, row.number, ShipmentState.SETTLED.value
        for former in map(_record_of, self._session.engine.rows(self._sql.former, params)):
            if former.kept:
                self._free(former, now, limit)

    def _go_on_ending(self, row: ShipmentRecord, now: int, limit: int) -> int:
        """Deal with up to `limit` messages of a shipment that has ended, and say how many there were. Some of them may
        have left by a purge, so a step may find none where another one does."""
        if row.cleared >= row.messages or limit <= 0:
            return 0
        which = self._runs_of(row)
        cleared, done = row.cleared, 0
        while cleared < row.messages and not done:
            step = min(limit, row.messages - cleared)
            done = self._end_some(row, runs.part(which, cleared, step), now)
            cleared += step
        self._session.engine.run(self._sql.clear, (cleared, row.id))
        if cleared >= row.messages:
            self._note_end(row, now)
        return done

    def _note_end(self, row: ShipmentRecord, now: int) -> None:
        """All its messages have been dealt with."""
        engine, bounds = self._session.engine, self._session.limits
        ended_at = now if row.ended_at is None else row.ended_at
        if row.kept == _READABLE:
            engine.run(self._sql.due_at, (ended_at + bounds.shipment_kept_ms, row.id))
        elif not row.kept:
            engine.run(self._sql.remember, (ended_at + bounds.shipment_remembered_ms, row.id))

    def _end_some(self, row: ShipmentRecord, which: Sequence[Run], now: int) -> int:
        session, sql, queue = self._session, self._sql, row.queue
        lined = session.with_lines(queue)
        seqs: list[int] = []
        if session.engine.shared or lined is not None:
            for statement, _, params in runs.each_run(session.engine, sql.lock_messages, which):
                seqs += [seq for (seq,) in session.engine.rows(statement, (*params, queue))]
        groups = [] if lined is None else session.lines.groups_of(seqs)
        if row.state is ShipmentState.SETTLED:
            session.engine.enter_ledger()
            self._run(sql.record, which, queue, now, int(Outcome.PROCESSED))
            if row.kept == _READABLE:
                done = self._run(sql.keep, which, queue, -row.id)
            else:
                done = self._run(sql.finish, which, queue)
            session.departed(queue, done, Outcome.PROCESSED)
            if lined is not None:
                session.lift(lined, groups, now)
            return done
        done = self._run(sql.make_ready, which, queue)
        if lined is not None:
            session.stand_in_line(lined, seqs, now)
        if done:
            session.look_everywhere()
            name = session.queue_name(queue)
            if name is not None:
                session.stirred.add(name)
        return done

    def _run(self, statement: ByRuns, which: Sequence[Run], queue: int, *before: object) -> int:
        """On the messages of a shipment in these runs. Parameters of the statement may come before theirs."""
        engine = self._session.engine
        return sum(
            engine.run(text, (*before, *params, queue)) for text, _, params in runs.each_run(engine, statement, which)
        )

    # Its sweep

    def sweep(self, now: int, limit: int) -> int:
        """Whatever is due: those without a heartbeat are lost, ends go on, and what is old is forgotten."""
        engine = self._session.engine
        freed = 0
        for (shipment,) in engine.rows(self._sql.due, (now, _SWEEP_SHIPMENTS)):
            if freed >= limit:
                break
            for row in map(_record_of, engine.rows(self._sql.due_locked, (shipment, now))):
                freed += self._tend(row, now, limit - freed)
        return freed

    def _tend(self, row: ShipmentRecord, now: int, limit: int) -> int:
        if self._session.queue_name(row.queue) is None:
            return self._go_with_queue(row, limit)
        if row.state in _NOT_ENDED:
            row = self._decide(row, ShipmentState.LOST, now)
        if row.cleared < row.messages:
            return self._go_on_ending(row, now, limit)
        return self._free(row, now, limit) if row.kept else self._forget(row, now)

    def _go_with_queue(self, row: ShipmentRecord, limit: int) -> int:
        freed = self._delete_kept(row, limit)
        if freed < limit:
            freed += self._session.engine.run(self._sql.delete, (row.id,))
        return freed

    def _free(self, row: ShipmentRecord, now: int, limit: int) -> int:
        """The messages of a shipment that can no longer be read."""
        freed = self._delete_kept(row, limit)
        if freed < limit and row.cleared >= row.messages:
            self._note_end(replace(row, kept=0), now)
        else:
            self._session.engine.run(self._sql.free, (_BEING_FREED, _AT_ONCE, row.id))
        return freed

    def _delete_kept(self, row: ShipmentRecord, limit: int) -> int:
        kept = [seq for (seq,) in self._session.engine.rows(self._sql.kept, (-row.id, limit))]
        if kept:
            self._session.delete(sorted(kept))
        return len(kept)

    def _forget(self, row: ShipmentRecord, now: int) -> int:
        """The latest of a consumer says which number is next."""
        engine = self._session.engine
        if engine.rows(self._sql.later, (row.queue, row.consumer, row.number)):
            return engine.run(self._sql.delete, (row.id,))
        engine.run(self._sql.due_at, (now + self._session.limits.shipment_remembered_ms, row.id))
        return 0
