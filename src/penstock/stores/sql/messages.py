"""Messages taken in hand one by one, or a queue's together: looked at, released, purged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock import limits
from penstock.model import Claimed, Draft, Message, Outcome, PeekAfter, Purged, Receipt, SentOnce
from penstock.stores.sql.attempts import Attempts
from penstock.stores.sql.named import Named
from penstock.stores.sql.receipts import Receipts
from penstock.stores.sql.scans import Scans
from penstock.stores.sql.send import Sends
from penstock.stores.sql.session import Session, size_of
from penstock.stores.sql.statements import Bounded

_START = PeekAfter(0, 0)


@dataclass(frozen=True, slots=True)
class MessageSql:
    # Not one condition on the pair: a database may then read the queue from its beginning for every page.
    peek_here: str = Bounded("""
        SELECT {message} FROM {walk} WHERE queue = ? AND ready_at = ? AND {age} > ?
        ORDER BY ready_at, {age} LIMIT ?""")
    peek_later: str = Bounded("""
        SELECT {message} FROM {walk} WHERE queue = ? AND ready_at > ? ORDER BY ready_at, {age} LIMIT ?""")
    claimed: str = """
        SELECT seq FROM {walk} WHERE queue = ? AND ready_at > ? AND ready_at < ? AND {is_claimed}
        ORDER BY ready_at, {age} LIMIT ? {lock}"""
    purged: str = "SELECT seq FROM {walk} WHERE queue = ? AND seq <= ? ORDER BY ready_at, {age} LIMIT ? {lock}"
    # As a peek: in two parts, and without locks, which would keep claims from what is to stay.
    ages_here: str = """
        SELECT seq, ready_at, sent_at FROM {walk} WHERE queue = ? AND ready_at = ? AND {age} > ?
        ORDER BY ready_at, {age} LIMIT ?"""
    ages_later: str = """
        SELECT seq, ready_at, sent_at FROM {walk} WHERE queue = ? AND ready_at > ?
        ORDER BY ready_at, {age} LIMIT ?"""
    # The sum keeps a database from reading the queue instead of these messages.
    lock_in_queue: str = "SELECT seq FROM message WHERE {among:seq} AND queue + 0 = ? ORDER BY seq {lock}"


class Messages:
    __slots__ = ("_attempts", "_receipts", "_sends", "_session", "_sql", "delete", "find", "scan")

    def __init__(
        self, session: Session, sends: Sends, receipts: Receipts, attempts: Attempts, named: Named, scans: Scans
    ) -> None:
        self._session = session
        self.find = named.find
        self.delete = named.delete
        self.scan = scans.scan
        self._attempts = attempts
        self._sends = sends
        self._receipts = receipts
        self._sql = session.engine.statements.of(MessageSql)

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        return self._sends.send_once(queue, key, digest, drafts, now)

    def claim_once(self, queue: str, attempt: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        return self._attempts.claim_once(queue, attempt, limit, now, hold_ms)

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        return self._receipts.renew(receipts, now, until, shorten)

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        return self._receipts.release(receipts, now, delay_ms)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        return self._receipts.locate(receipts)

    def release_all(self, queue: str, now: int, limit: int) -> int:
        session = self._session
        number = session.queue(queue).number
        session.with_lines(number)
        rows = session.engine.rows(self._sql.claimed, (number, now, limits.SHIPPED, limit))
        session.make_ready(number, [seq for (seq,) in rows], now)
        session.stirred.add(queue)
        return len(rows)

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        session, engine = self._session, self._session.engine
        found = session.queue(queue)
        start = after or _START
        room = session.limits.page_bytes
        rows = engine.rows_within(self._sql.peek_here, (found.number, start.ready_at, start.seq, limit), room)
        room -= size_of(rows)
        if len(rows) < limit and room > 0:
            rows += engine.rows_within(self._sql.peek_later, (found.number, start.ready_at, limit - len(rows)), room)
        return session.messages(found.name, rows)

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        found = self._session.queue(queue)
        self._sends.forget_seen(found, through)
        return self.purge_number(found.number, now, limit, through)

    def purge_number(self, queue: int, now: int, limit: int, through: int) -> int:
        """Of a queue by its number, which may have been deleted."""
        self._session.with_lines(queue)
        rows = self._session.engine.rows(self._sql.purged, (queue, through, limit))
        self._session.finish(queue, [seq for (seq,) in rows], Outcome.PURGED, now)
        return len(rows)

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        session, engine, sql = self._session, self._session.engine, self._sql
        number = session.queue(queue).number
        session.with_lines(number)
        start = after or _START
        rows = engine.rows(sql.ages_here, (number, start.ready_at, start.seq, limit))
        if len(rows) < limit:
            rows += engine.rows(sql.ages_later, (number, start.ready_at, limit - len(rows)))
        old = [seq for seq, _, sent_at in rows if seq <= through and sent_at < sent_before]
        if old:
            old = [seq for (seq,) in engine.rows(sql.lock_in_queue, (engine.listed(old), number))]
            session.finish(number, old, Outcome.PURGED, now)
        if not rows or len(rows) < limit:
            return Purged(len(old), None)
        seq, ready_at, _ = rows[-1]
        return Purged(len(old), PeekAfter(ready_at, seq))

    def last_seq(self) -> int:
        return self._session.engine.last_seq()
