"""Sends with a key: whoever does not know whether a send has succeeded sends again, and nothing is stored twice."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import limits
from penstock.errors import SendConflict
from penstock.model import Draft, Queue, SentOnce
from penstock.stores.sql.arrivals import ArrivalVerbs
from penstock.stores.sql.session import Session

_COLUMNS = ("queue", "send_key", "digest", "messages", "stored", "sent_at")


class SendVerbs(ArrivalVerbs):
    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        session = self.session
        found = session.queue(queue)
        place = found.number, key.encode()
        # First the key, so that another server that has the same one waits here before it stores anything.
        while not session.engine.add("sending", _COLUMNS, (*place, digest, len(drafts), len(drafts), now)):
            known = self._known_send(found, key, digest, now)
            if known is not None:
                return known
        stored = sum(sent.stored for sent in self.send(queue, drafts, now))
        if stored < len(drafts):
            session.engine.run("UPDATE sending SET stored = ? WHERE queue = ? AND send_key = ?", (stored, *place))
        if stored:
            session.stirred.add(queue)
        return SentOnce(len(drafts), stored)

    def _known_send(self, queue: Queue, key: str, digest: bytes, now: int) -> SentOnce | None:
        """None for one that is so old that it is no longer remembered; its row is then gone."""
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT digest, messages, stored, sent_at FROM sending WHERE queue = ? AND send_key = ? {engine.lock}""",
            (queue.number, key.encode()),
        )
        for known, messages, stored, sent_at in rows:
            if sent_at < now - limits.IDEMPOTENCY_MS:
                engine.run("DELETE FROM sending WHERE queue = ? AND send_key = ?", (queue.number, key.encode()))
                return None
            if bytes(known) != digest:
                raise SendConflict(key)
            return SentOnce(messages, stored, repeated=True)
        return None


def sweep_sends(session: Session, now: int, limit: int) -> int:
    engine = session.engine
    old = engine.rows(
        "SELECT id FROM sending WHERE sent_at < ? ORDER BY sent_at LIMIT ?",
        (now - limits.IDEMPOTENCY_MS, max(0, limit)),
    )
    if old:
        engine.run(f"DELETE FROM sending WHERE {engine.among('id')}", (engine.listed(number for (number,) in old),))
    return len(old)
