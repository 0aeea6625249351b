"""Messages that a caller names by their ids, in a queue that it names as well: found, and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock import ids, limits, policy
from penstock.model import Dealing, Found, Outcome, Queue
from penstock.stores.dealing import deal
from penstock.stores.sql.session import Session

_FIND = """
        SELECT {message}, last_claimed_at, CASE WHEN {is_claimed} THEN 1 ELSE 0 END
        FROM message WHERE seq = ? AND queue + 0 = ?"""


@dataclass(frozen=True, slots=True)
class NamedSql:
    # The sum keeps a database from reading the queue instead of these messages.
    find: str = _FIND
    find_locked: str = f"{_FIND} {{lock}}"
    rows: str = """
        SELECT seq, sent_at, ready_at, came_from FROM message WHERE {among:seq} AND queue + 0 = ?
        ORDER BY seq {lock}"""


class NamedRow(NamedTuple):
    seq: int
    ready_at: int
    came_from: str | None


class Named:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(NamedSql)

    def find(self, queue: str, message_id: str, now: int, lock: bool = False) -> Found | None:
        session = self._session
        here = session.queue(queue)
        seq = ids.seq_of(message_id)
        if seq is None:
            return None
        rows = session.engine.rows(self._sql.find_locked if lock else self._sql.find, (seq, here.number))
        for *row, last_claimed_at, is_claimed in rows:
            [message] = session.messages(here.name, [tuple(row)])
            if message.id == message_id.lower():
                ready_at, receives = message.ready_at, message.receives
                state = policy.state(here.settings, now, ready_at, receives, bool(is_claimed))
                return Found(message, state, last_claimed_at, ready_at == limits.SHIPPED)
        return None

    def rows(self, queue: Queue, message_ids: Sequence[str]) -> list[NamedRow | None]:
        """Those of these messages that are in this queue, locked, and None for the others."""
        session = self._session
        seqs = sorted({seq for one in message_ids if (seq := ids.seq_of(one)) is not None})
        found: dict[str, NamedRow] = {}
        if seqs:
            rows = session.engine.rows(self._sql.rows, (session.engine.listed(seqs), queue.number))
            for seq, sent_at, ready_at, came_from in rows:
                found[ids.make_id(session.origin, sent_at, seq)] = NamedRow(seq, ready_at, came_from)
        return [found.get(one.lower()) for one in message_ids]

    def delete(self, queue: str, message_ids: Sequence[str], now: int) -> list[Dealing]:
        session = self._session
        here = session.queue(queue)
        session.with_lines(here.number)

        def finish(rows: Sequence[NamedRow]) -> set[int]:
            seqs = {row.seq for row in rows}
            session.finish(here.number, list(seqs), Outcome.PURGED, now)
            return seqs

        return deal(self.rows(here, message_ids), finish)
