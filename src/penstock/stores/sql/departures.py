"""How messages leave in bulk: purges, and the sweep that frees what nobody can see any more."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids, limits
from penstock.model import Outcome, PeekAfter, Purged
from penstock.stores.sql import collapses, deletions
from penstock.stores.sql.consumers import reap
from penstock.stores.sql.ends import sweep_shipments
from penstock.stores.sql.engine import Row
from penstock.stores.sql.exports import sweep_exports
from penstock.stores.sql.sends import sweep_sends
from penstock.stores.sql.session import QUEUE_COLUMNS, Session, queue_of

# Of a queue `q`.
_HOLDS_MESSAGES = "(SELECT sum(arrived) - sum(departed) FROM tally WHERE tally.queue = q.number) > 0"

# What the sweep grants to the messages that were in a queue `q` when its retention was lowered.
_KEPT_MS = "CASE WHEN q.kept_ms > q.retention_ms THEN q.kept_ms ELSE q.retention_ms END"


class DepartureVerbs:
    session: Session

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        return self._purge(self.session.queue(queue).number, now, limit, through)

    def _purge(self, number: int, now: int, limit: int, through: int) -> int:
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT seq FROM {engine.walk} WHERE queue = ? AND seq <= ?
                ORDER BY ready_at, {engine.age} LIMIT ? {engine.lock}""",
            (number, through, limit),
        )
        self.session.finish(number, [seq for (seq,) in rows], Outcome.PURGED, now)
        return len(rows)

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        number, engine = self.session.queue(queue).number, self.session.engine
        start = after or PeekAfter(0, 0)
        # As a peek: in two parts, and without locks, which would keep claims from what is to stay.
        rows = self._ages(f"ready_at = ? AND {engine.age} > ?", (number, start.ready_at, start.seq, limit))
        if len(rows) < limit:
            rows += self._ages("ready_at > ?", (number, start.ready_at, limit - len(rows)))
        old = [seq for seq, _, sent_at in rows if seq <= through and sent_at < sent_before]
        if old:
            held = engine.rows(
                f"SELECT seq FROM message WHERE {engine.among('seq')} AND queue + 0 = ? ORDER BY seq {engine.lock}",
                (engine.listed(old), number),
            )
            old = [seq for (seq,) in held]
            self.session.finish(number, old, Outcome.PURGED, now)
        return Purged(len(old), PeekAfter(rows[-1][1], rows[-1][0]) if rows and len(rows) == limit else None)

    def _ages(self, where: str, params: Sequence[object]) -> list[Row]:
        engine = self.session.engine
        return engine.rows(
            f"""SELECT seq, ready_at, sent_at FROM {engine.walk}
                WHERE queue = ? AND {where} ORDER BY ready_at, {engine.age} LIMIT ?""",
            params,
        )

    def sweep(self, now: int, limit: int, ledger_before: int) -> int:
        reap(self.session, now)
        last_seq = self.session.engine.last_seq()
        freed = deletions.sweep(self.session, now, limit, lambda number, room: self._purge(number, now, room, last_seq))
        freed += collapses.sweep(self.session, now, limit - freed)
        self._promote_due(now)
        freed += self._sweep_expired(now, limit - freed)
        freed += self._sweep_ledger(ledger_before, limit - freed)
        freed += sweep_shipments(self.session, now, limit - freed)
        freed += sweep_exports(self.session, now, limit - freed)
        freed += sweep_sends(self.session, now, limit - freed)
        return freed + self._sweep_moves(now)

    def _sweep_moves(self, now: int) -> int:
        return self.session.engine.run("DELETE FROM move WHERE finished_at < ?", (now - limits.MOVE_KEPT_MS,))

    def _promote_due(self, now: int) -> None:
        """Where nobody claims any more, nobody else makes messages ready, and they would never expire."""
        rows = self.session.engine.rows(
            f"""SELECT {QUEUE_COLUMNS} FROM queue AS q
                WHERE q.deleted_at IS NULL AND {_HOLDS_MESSAGES}
                   AND EXISTS (SELECT 1 FROM message WHERE queue = q.number AND ready_at > 0 AND ready_at <= ?)
               LIMIT ?""",
            (now, limits.SWEEP_QUEUES),
        )
        room = limits.PROMOTE_ROWS
        for queue in map(queue_of, rows):
            room -= self.session.promote(queue, now, room)

    def _sweep_expired(self, now: int, limit: int) -> int:
        """Ready messages stand by age, so the expired ones are the first: one look at a queue tells. Those that were
        there when the retention was lowered stand before all others, and stay longer."""
        engine = self.session.engine
        oldest = f"SELECT sent_at FROM {engine.walk} WHERE queue = q.number AND ready_at = 0"
        rows = engine.rows(
            f"""SELECT number, lowered_through, retention_ms, {_KEPT_MS} FROM queue AS q
                WHERE q.deleted_at IS NULL AND {_HOLDS_MESSAGES}
                    AND (({oldest} AND {engine.age} > q.lowered_through ORDER BY {engine.age} LIMIT 1)
                            <= ? - q.retention_ms
                         OR ({oldest} ORDER BY {engine.age} LIMIT 1) <= ? - {_KEPT_MS})
                LIMIT ?""",
            (now, now, limits.SWEEP_QUEUES),
        )
        freed = 0
        for number, lowered_through, retention_ms, kept_ms in rows:
            freed += self._expire(number, 0, lowered_through, now - kept_ms, now, limit - freed)
            freed += self._expire(number, lowered_through, ids.SEQ_MAX, now - retention_ms, now, limit - freed)
        return freed

    def _expire(self, queue: int, after: int, through: int, sent_by: int, now: int, limit: int) -> int:
        """Of the ready messages with these sequence numbers, the oldest that were sent by then."""
        if limit <= 0 or after >= through:
            return 0
        engine = self.session.engine
        heads = engine.rows(
            f"""SELECT seq, sent_at FROM {engine.walk}
                WHERE queue = ? AND ready_at = 0 AND {engine.age} > ? AND {engine.age} <= ?
                ORDER BY {engine.age} LIMIT ? {engine.lock_free}""",
            (queue, after, through, limit),
        )
        expired = [seq for seq, sent_at in heads if sent_at <= sent_by]
        self.session.finish(queue, expired, Outcome.EXPIRED, now)
        return len(expired)

    def _sweep_ledger(self, before: int, limit: int) -> int:
        head = "SELECT number, finished_at FROM ledger ORDER BY number LIMIT ?"
        if limit <= 0 or not self._finished_before(self.session.engine.rows(head, (1,)), before):
            return 0
        old = self._finished_before(self.session.engine.rows(head, (limit,)), before)
        engine = self.session.engine
        return engine.run(f"DELETE FROM ledger WHERE {engine.among('number')}", (engine.listed(old),))

    @staticmethod
    def _finished_before(rows: list[Row], before: int) -> list[int]:
        return [number for number, finished_at in rows if finished_at < before]
