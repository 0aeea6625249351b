"""Verbs that change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids, limits
from penstock.model import Count, LedgerRow, Message, Outcome, PeekAfter, Tally
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import IS_CLAIMED, MESSAGE_COLUMNS, Session


class ViewVerbs:
    session: Session

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        found = self.session.queue(queue)
        start = after or PeekAfter(0, 0)
        # Not one condition on the pair: a database may then read the queue from its beginning for every page.
        here = f"ready_at = ? AND {self.session.engine.age} > ?"
        rows = self._page(here, (found.number, start.ready_at, start.seq, limit), limits.CLAIM_BYTES)
        room = limits.CLAIM_BYTES - sum([len(row[1]) for row in rows])
        if len(rows) < limit and room > 0:
            rows += self._page("ready_at > ?", (found.number, start.ready_at, limit - len(rows)), room)
        return self.session.messages(found.name, rows)

    def _page(self, where: str, params: Sequence[object], budget: int) -> list[Row]:
        engine = self.session.engine
        return engine.rows_within(
            f"""SELECT {MESSAGE_COLUMNS} FROM {engine.walk}
                WHERE queue = ? AND {where} ORDER BY ready_at, {engine.age} LIMIT ?""",
            params,
            budget,
        )

    def count(self, queue: str, now: int, limit: int) -> Count:
        number = self.session.queue(queue).number
        walk, age = self.session.engine.walk, self.session.engine.age
        tally = self.tally(queue)
        total = tally.arrived - tally.departed
        held = self.session.engine.rows(
            f"""SELECT count(*), coalesce(sum(CASE WHEN {IS_CLAIMED} THEN 1 ELSE 0 END), 0) FROM
               (SELECT receives, claim FROM message
                WHERE queue = ? AND ready_at > ? ORDER BY ready_at LIMIT ?) AS held""",
            (number, now, limit),
        )
        [(waiting, claimed)] = [map(int, row) for row in held]
        # Claims and delays that have run out do not stand by age until a claim comes along: look at all of them.
        oldest = self.session.engine.rows(
            f"""SELECT min(sent_at) FROM message WHERE seq IN (
                    (SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 ORDER BY {age} LIMIT 1),
                    (SELECT min(seq) FROM (
                        SELECT seq FROM {walk} WHERE queue = ? AND ready_at > 0 ORDER BY ready_at LIMIT ?) AS held))""",
            (number, number, limit),
        )
        return Count(
            total=total,
            ready=total - waiting,
            delayed=waiting - claimed,
            claimed=claimed,
            exact=waiting < limit,
            oldest_sent_at=oldest[0][0],
        )

    def next_due(self, queue: str, now: int) -> int | None:
        found = self.session.find_queue(queue)
        if found is None:
            return None
        due: int | None = self.session.scalar(
            "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ?",
            (found.number, now, limits.SHIPPED),
        )
        return due

    def ledger(self, after: int, limit: int) -> list[LedgerRow]:
        end = self.session.engine.ledger_end()
        return self.ledger_rows(after, end, limit)

    def ledger_rows(self, after: int, through: int, limit: int) -> list[LedgerRow]:
        rows = self.session.engine.rows(
            """SELECT l.number, q.name, l.seq, l.sent_at, l.first_claimed_at, l.last_claimed_at, l.finished_at,
                      l.receives, l.outcome, l.size, l.body_hash, l.content_type, l.body
               FROM ledger AS l JOIN queue AS q ON q.number = l.queue
               WHERE l.number > ? AND l.number <= ? ORDER BY l.number LIMIT ?""",
            (after, through, limit),
        )
        origin = self.session.origin
        return [
            LedgerRow(
                number=row[0],
                queue=row[1],
                id=ids.make_id(origin, row[3], row[2]),
                sent_at=row[3],
                first_claimed_at=row[4],
                last_claimed_at=row[5],
                finished_at=row[6],
                receives=row[7],
                outcome=Outcome(row[8]),
                size=row[9],
                body_hash=row[10],
                content_type=row[11],
                body=row[12],
            )
            for row in rows
        ]

    def tally(self, queue: str) -> Tally:
        number = self.session.queue(queue).number
        [(arrived, departed)] = self.session.engine.rows(
            "SELECT coalesce(sum(arrived), 0), coalesce(sum(departed), 0) FROM tally WHERE queue = ?", (number,)
        )
        more_arrived, more_departed = self.session.fresh_tally(number)
        return Tally(int(arrived) + more_arrived, int(departed) + more_departed)
