"""Scans: messages of a queue looked at by what they are, changing nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.model import Message, PeekAfter, Queue, Scan, Selection
from penstock.stores import scan_step
from penstock.stores.move_step import Candidate
from penstock.stores.sql.candidates import CANDIDATE, candidates
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import Bounded

_START = PeekAfter(0, 0)


@dataclass(frozen=True, slots=True)
class ScanSql:
    # As a peek: in two parts, and without locks.
    look_here: str = f"""
        SELECT {CANDIDATE} FROM {{walk}} WHERE queue = ? AND ready_at = ? AND {{age}} > ?
        ORDER BY ready_at, {{age}} LIMIT ?"""
    look_later: str = f"""
        SELECT {CANDIDATE} FROM {{walk}} WHERE queue = ? AND ready_at > ? ORDER BY ready_at, {{age}} LIMIT ?"""
    # The sum keeps a database from reading the queue instead of these messages.
    read: str = Bounded("SELECT {message} FROM message WHERE {among:seq} AND queue + 0 = ? ORDER BY ready_at, seq")


class Scans:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(ScanSql)

    def scan(
        self, queue: str, selection: Selection, now: int, limit: int, rows: int, after: PeekAfter | None = None
    ) -> Scan:
        session = self._session
        here = session.queue(queue)
        return scan_step.scan(self, here, selection, now, limit, rows, after or _START, session.limits.move_bytes)

    # What a step needs

    def look(self, queue: Queue, after: PeekAfter, now: int, limit: int) -> Sequence[Candidate]:
        engine, sql, number = self._session.engine, self._sql, queue.number
        rows = engine.rows(sql.look_here, (number, after.ready_at, after.seq, limit))
        if len(rows) < limit:
            rows += engine.rows(sql.look_later, (number, after.ready_at, limit - len(rows)))
        return candidates(queue, rows, now)

    def read(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Message]:
        session, engine = self._session, self._session.engine
        rows = engine.rows_within(self._sql.read, (engine.listed(seqs), queue.number), budget)
        return {message.seq: message for message in session.messages(queue.name, rows)}
