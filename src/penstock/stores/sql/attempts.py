"""Claims that may be repeated: a caller that did not get the answer asks again by the same name, its attempt."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock import limits
from penstock.model import Claimed, Held, Message, Queue
from penstock.stores.sql.claim import Claims, Terms
from penstock.stores.sql.session import Session

_decode = msgspec.json.Decoder(list[Held]).decode


@dataclass(frozen=True, slots=True)
class AttemptSql:
    remember: str = """
        INSERT INTO attempt (queue, attempt_key, held, claimed_at) VALUES (?, ?, '[]', ?) {unless_there}"""
    recall: str = "SELECT held, claimed_at FROM attempt WHERE queue = ? AND attempt_key = ? {lock}"
    known: str = "SELECT id FROM attempt WHERE queue = ? AND attempt_key = ?"
    first_due: str = "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at < ?"
    renew: str = "UPDATE attempt SET held = ?, claimed_at = ? WHERE queue = ? AND attempt_key = ?"
    forget: str = "DELETE FROM attempt WHERE queue = ? AND attempt_key = ?"
    old: str = "SELECT id FROM attempt WHERE claimed_at <= ? ORDER BY claimed_at LIMIT ?"
    forget_old: str = "DELETE FROM attempt WHERE {among:id}"
    # The sum keeps a database from reading the queue instead of these messages.
    held: str = """
        SELECT {message} FROM message
        WHERE {among:seq} AND queue + 0 = ? AND ready_at > ? AND ready_at < ? AND {is_claimed}
        ORDER BY seq {lock}"""
    hold: str = "UPDATE message SET ready_at = ? WHERE {among:seq}"


class Attempts:
    __slots__ = ("_claims", "_session", "_sql")

    def __init__(self, session: Session, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._sql = session.engine.statements.of(AttemptSql)

    def claim_once(self, queue: str, attempt: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        session, engine, sql = self._session, self._session.engine, self._sql
        found = session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        place = found.number, attempt.encode("utf-8", "surrogatepass")
        if self._finds_nothing(found, place, now):
            return Claimed([])
        # First the name, so that another server that has the same one waits here before it claims anything.
        while not engine.add(sql.remember, (*place, now)):
            known = engine.rows(sql.recall, place)
            for held, claimed_at in known:
                if hold > 0 and claimed_at > now - session.limits.attempt_ms:
                    messages = self._hold_again(found, _decode(held), now, now + hold)
                    if messages:
                        return Claimed(messages)
            if known:
                break
        claimed = self._claims.claim_on(found, limit, now, Terms(now + hold if hold > 0 else 0))
        if claimed.messages:
            taken = msgspec.json.encode([(message.seq, message.claim) for message in claimed.messages]).decode()
            engine.run(sql.renew, (taken, now, *place))
        else:
            engine.run(sql.forget, place)
        return claimed

    def _finds_nothing(self, queue: Queue, place: tuple[int, bytes], now: int) -> bool:
        """Whether it is plain without a write that there is nothing to claim, now or again. Workers ask so all the time
        where nothing is sent."""
        return not self._has_due(queue, now) and not self._session.engine.rows(self._sql.known, place)

    def _has_due(self, queue: Queue, now: int) -> bool:
        if queue.paused_at is not None:
            return False
        due: int | None = self._session.scalar(self._sql.first_due, (queue.number, limits.SHIPPED))
        return due is not None and due <= now

    def _hold_again(self, queue: Queue, held: list[Held], now: int, until: int) -> list[Message]:
        """The messages of an earlier claim, in its order; none where it does not hold all of them any more."""
        session, engine = self._session, self._session.engine
        seqs = sorted(seq for seq, _ in held)
        rows = engine.rows(self._sql.held, (engine.listed(seqs), queue.number, now, limits.SHIPPED))
        messages = {message.seq: message for message in session.messages(queue.name, rows)}
        if any(seq not in messages or messages[seq].claim != claim for seq, claim in held):
            return []
        engine.run(self._sql.hold, (until, engine.listed(seqs)))
        if any(message.ready_at > until for message in messages.values()):
            session.stirred.add(queue.name)
        return [msgspec.structs.replace(messages[seq], ready_at=until) for seq, _ in held]

    def sweep(self, now: int, limit: int) -> int:
        """Forget those that are old."""
        engine = self._session.engine
        old = engine.rows(self._sql.old, (now - self._session.limits.attempt_ms, max(0, limit)))
        if old:
            engine.run(self._sql.forget_old, (engine.listed(number for (number,) in old),))
        return len(old)
