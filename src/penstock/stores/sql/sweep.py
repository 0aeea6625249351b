"""The sweep: what can no longer be seen is freed, a step at a time, noun by noun."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import ids, limits
from penstock.model import Outcome
from penstock.stores.sql.actions import Actions
from penstock.stores.sql.attempts import Attempts
from penstock.stores.sql.consumers import Consumers
from penstock.stores.sql.exports import Exports
from penstock.stores.sql.figures import Figures
from penstock.stores.sql.leases import Leases
from penstock.stores.sql.ledger import Ledger
from penstock.stores.sql.messages import Messages
from penstock.stores.sql.moves import Moves
from penstock.stores.sql.send import Sends
from penstock.stores.sql.session import Session, queue_of
from penstock.stores.sql.shipments import Shipments
from penstock.stores.sql.twins import Twins

# When the sweep looks again at a deleted queue that something still names. No unit lasts that long: one that had found
# the queue before it was deleted has put its messages there by then.
_LOOK_AGAIN_MS = 60 * 60 * 1000
# Messages of a queue that wait behind others, whose lines are looked at.
_LINES_LOOKED_AT = 20
_QUEUES_LOOKED_AT = 4

# Of a queue `q`.
_HOLDS_MESSAGES = "(SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0"
# What the sweep grants to the messages that were in a queue `q` when its retention was lowered.
_KEPT_MS = "CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END"


def _is_past(place: int) -> str:
    """Whether the oldest message of a queue `q` that stands there is past its retention. Its parameters are the
    instant, twice."""
    oldest = f"SELECT sent_at FROM {{walk}} WHERE queue = q.number AND ready_at = {place}"
    return f"""(({oldest} AND {{age}} > q.lowered_through ORDER BY {{age}} LIMIT 1) <= ? - q.retention_ms
                 OR ({oldest} ORDER BY {{age}} LIMIT 1) <= ? - {_KEPT_MS})"""


@dataclass(frozen=True, slots=True)
class SweepSql:
    deleted_queues: str = "SELECT number, deleted_at FROM queue WHERE due_at <= ? ORDER BY due_at, number LIMIT ?"
    last_queue: str = "SELECT max(number) FROM queue"
    named_queue: str = """
        SELECT 1 FROM queue AS q WHERE q.number = ?
        AND (EXISTS (SELECT 1 FROM ledger WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM shipment WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM lease WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM consumer WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM sending WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM seen WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM attempt WHERE queue = q.number)
             OR EXISTS (SELECT 1 FROM collapse WHERE queue = q.number))"""
    look_again: str = "UPDATE queue SET due_at = ? WHERE number = ?"
    forget_tally: str = "DELETE FROM tally WHERE queue = ?"
    forget_queue: str = "DELETE FROM queue WHERE number = ?"
    # One message of each queue, and not EXISTS: PostgreSQL may make a join of that, which reads all messages.
    queues_due: str = f"""
        SELECT {{queue}} FROM queue AS q
        WHERE q.deleted_at IS NULL AND {_HOLDS_MESSAGES}
           AND (SELECT ready_at FROM {{walk}} WHERE queue = q.number AND ready_at > 0 ORDER BY ready_at LIMIT 1) <= ?
        LIMIT ?"""
    queues_expired: str = f"""
        SELECT number, lowered_through, retention_ms, {_KEPT_MS} FROM queue AS q
        WHERE q.deleted_at IS NULL AND {_HOLDS_MESSAGES}
            AND ({_is_past(0)}
                 OR (q.grouped <> 0 AND {_is_past(limits.BEHIND)}))
        LIMIT ?"""
    oldest: str = """
        SELECT seq, sent_at FROM {walk} WHERE queue = ? AND ready_at = ? AND {age} > ? AND {age} <= ?
        ORDER BY {age} LIMIT ? {lock_free}"""


class Sweep:
    __slots__ = (
        "_actions",
        "_attempts",
        "_consumers",
        "_exports",
        "_figures",
        "_leases",
        "_ledger",
        "_lines_after",
        "_messages",
        "_moves",
        "_sends",
        "_session",
        "_shipments",
        "_sql",
        "_twins",
    )

    def __init__(
        self,
        session: Session,
        *,
        twins: Twins,
        sends: Sends,
        attempts: Attempts,
        messages: Messages,
        moves: Moves,
        shipments: Shipments,
        leases: Leases,
        ledger: Ledger,
        exports: Exports,
        consumers: Consumers,
        actions: Actions,
        figures: Figures,
    ) -> None:
        self._session = session
        self._twins = twins
        self._sends = sends
        self._attempts = attempts
        self._lines_after = 0
        self._messages = messages
        self._moves = moves
        self._shipments = shipments
        self._leases = leases
        self._ledger = ledger
        self._exports = exports
        self._consumers = consumers
        self._actions = actions
        self._figures = figures
        self._sql = session.engine.statements.of(SweepSql)

    def sweep(
        self, now: int, limit: int, ledger_before: int, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        self._consumers.reap(now)
        freed = self._sweep_deleted(now, limit)
        freed += self._twins.sweep(now, limit - freed)
        self._promote_due(now)
        self._lift_headless(now)
        freed += self._sweep_expired(now, limit - freed)
        freed += self._ledger.sweep(ledger_before, limit - freed, ledger_bytes)
        freed += self._actions.sweep(actions_before, limit - freed)
        freed += self._shipments.sweep(now, limit - freed)
        freed += self._leases.sweep(now, limit - freed)
        freed += self._exports.sweep(now, limit - freed)
        freed += self._sends.sweep(now, limit - freed)
        freed += self._attempts.sweep(now, limit - freed)
        freed += self._figures.sweep(now, limit - freed)
        return freed + self._moves.sweep(now)

    def _sweep_deleted(self, now: int, limit: int) -> int:
        """Of deleted queues, their messages first, and their rows once nothing names them any more."""
        session, engine = self._session, self._session.engine
        last_seq = engine.last_seq()
        freed = 0
        for number, deleted_at in engine.rows(self._sql.deleted_queues, (now, session.limits.sweep_queues)):
            room = limit - freed
            if room <= 0:
                break
            purged = self._messages.purge_number(number, now, room, last_seq)
            freed += purged
            if purged < room:
                self._forget_queue(number, deleted_at, now)
        return freed

    def _forget_queue(self, number: int, deleted_at: int, now: int) -> None:
        """The number of the latest queue stays known, because the next one counts on from there."""
        engine = self._session.engine
        is_last = number == self._session.scalar(self._sql.last_queue)
        if is_last or deleted_at > now - _LOOK_AGAIN_MS or engine.rows(self._sql.named_queue, (number,)):
            engine.run(self._sql.look_again, (now + _LOOK_AGAIN_MS, number))
            return
        engine.run(self._sql.forget_tally, (number,))
        self._figures.forget(number)
        engine.run(self._sql.forget_queue, (number,))

    def _promote_due(self, now: int) -> None:
        """Where a queue is no longer claimed from, nothing else makes its messages ready, and they would never
        expire."""
        session = self._session
        rows = session.engine.rows(self._sql.queues_due, (now, session.limits.sweep_queues))
        room = session.limits.promote_rows
        for queue in map(queue_of, rows):
            session.with_lines(queue.number)
            due = session.look_for_due(queue, now, room).rows()
            session.promote(queue, due, now)
            if due:
                # A claim that looks meanwhile passes over what this unit has locked, and would wait for nothing.
                session.stirred.add(queue.name)
            room -= len(due)

    def _lift_headless(self, now: int) -> None:
        """Every verb leaves lines in order. Should one ever fail to, its messages would wait forever: those that have
        waited longest are looked at."""
        session = self._session
        queues = session.lines.queues(self._lines_after, _QUEUES_LOOKED_AT)
        # A few of them each time, in turn.
        self._lines_after = queues[-1] if len(queues) == _QUEUES_LOOKED_AT else 0
        for number in queues:
            name = session.queue_name(number)
            queue = None if name is None else session.find_queue(name)
            if queue is not None and session.lines.headless(queue, _LINES_LOOKED_AT):
                session.lock_queue(number)
                session.lift(queue, session.lines.headless(queue, _LINES_LOOKED_AT), now)

    def _sweep_expired(self, now: int, limit: int) -> int:
        """Ready messages stand by age, so the expired ones are the first: one look at a queue tells. Those that were
        there when the retention was lowered stand before all others, and stay longer."""
        session = self._session
        rows = session.engine.rows(self._sql.queues_expired, (now, now, now, now, session.limits.sweep_queues))
        freed = 0
        for number, lowered_through, retention_ms, kept_ms in rows:
            freed += self._expire(number, 0, lowered_through, now - kept_ms, now, limit - freed)
            freed += self._expire(number, lowered_through, ids.SEQ_MAX, now - retention_ms, now, limit - freed)
        return freed

    def _expire(self, queue: int, after: int, through: int, sent_by: int, now: int, limit: int) -> int:
        """Of the ready messages with these sequence numbers, the oldest that were sent by then."""
        if limit <= 0 or after >= through:
            return 0
        session = self._session
        lined = session.with_lines(queue)
        heads = session.engine.rows(self._sql.oldest, (queue, 0, after, through, limit))
        if lined is not None:
            heads += session.engine.rows(self._sql.oldest, (queue, limits.BEHIND, after, through, limit))
        expired = [seq for seq, sent_at in heads if sent_at <= sent_by][:limit]
        session.finish(queue, expired, Outcome.EXPIRED, now)
        return len(expired)
