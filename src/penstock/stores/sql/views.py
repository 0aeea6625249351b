"""Looks at messages that change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import limits
from penstock.model import Message, PeekAfter
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import MESSAGE_COLUMNS, Session


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

    def next_due(self, queue: str, now: int) -> int | None:
        found = self.session.find_queue(queue)
        if found is None:
            return None
        due: int | None = self.session.scalar(
            "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ?",
            (found.number, now, limits.SHIPPED),
        )
        return due
