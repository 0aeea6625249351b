"""How messages are sent: plainly, once per idempotency key, and under numbers that were given out before.

Two words are kept apart here. *Deduplication* is a setting of a queue: a message whose dedup key is in the queue
already, its twin, is not stored (`_send_unless_twin`). *Idempotency* is a wish of the sender: a call that may have
succeeded is repeated with the same key, and nothing is stored twice (`send_once`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from penstock import policy
from penstock.errors import SendConflict
from penstock.ids import body_hash, make_id, make_ids
from penstock.model import Dedup, Draft, Numbered, Queue, Reservation, Sent, SentOnce
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import Session, attributes_text
from penstock.stores.sql.twins import Twins


@dataclass(frozen=True, slots=True)
class SendSql:
    remember: str = """
        INSERT INTO sending (queue, send_key, digest, messages, stored, sent_at)
        VALUES (?, ?, ?, ?, ?, ?) {unless_there}"""
    correct: str = "UPDATE sending SET stored = ? WHERE queue = ? AND send_key = ?"
    recall: str = "SELECT digest, messages, stored, sent_at FROM sending WHERE queue = ? AND send_key = ? {lock}"
    forget: str = "DELETE FROM sending WHERE queue = ? AND send_key = ?"
    old: str = "SELECT id FROM sending WHERE sent_at < ? ORDER BY sent_at LIMIT ?"
    forget_old: str = "DELETE FROM sending WHERE {among:id}"
    # Of reserved numbers, those whose messages are in the store or were.
    known: str = "SELECT seq FROM message WHERE {among:seq} UNION SELECT seq FROM ledger WHERE {among:seq}"


def arriving(
    queue: Queue, seqs: Iterable[int], instants: Iterable[int], drafts: Sequence[Draft], now: int
) -> list[Row]:
    """Rows of `ARRIVING`, in a queue that takes twins."""
    number, settings = queue.number, queue.settings
    # Most drafts ask for nothing special, and most queues for no delay: what holds for the whole queue is worked out
    # once.
    ready_at = policy.ready_at(settings, None, now) if settings.delay_ms else 0
    keyed = settings.dedup is not Dedup.OFF
    hashes = [body_hash(draft.body) for draft in drafts]
    return [
        (
            seq,
            number,
            ready_at if draft.delay_ms is None else policy.ready_at(settings, draft.delay_ms, now),
            sent_at,
            draft.deadline_at,
            draft.content_type,
            attributes_text(draft.attributes) if draft.attributes else None,
            policy.dedup_key(settings, draft, hashed) if keyed else None,
            hashed,
            draft.body,
        )
        for seq, sent_at, draft, hashed in zip(seqs, instants, drafts, hashes, strict=True)
    ]


class Sends:
    __slots__ = ("_session", "_sql", "_twins")

    def __init__(self, session: Session, twins: Twins) -> None:
        self._session = session
        self._twins = twins
        self._sql = session.engine.statements.of(SendSql)

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        session = self._session
        found = session.queue(queue)
        if found.settings.dedup is Dedup.SEND:
            # One draft at a time: each may be the twin of the one before.
            session.lock_queue(found.number)
            return [self._send_unless_twin(found, draft, now) for draft in drafts]
        seqs = session.engine.next_seqs(len(drafts))
        self._store(found, seqs, repeat(now, len(seqs)), drafts, now)
        return [Sent(made, True) for made in make_ids(session.origin, now, seqs)]

    def _store(
        self, queue: Queue, seqs: Sequence[int], instants: Iterable[int], drafts: Sequence[Draft], now: int
    ) -> None:
        """With the numbers they have and the instants at which they were sent, in a queue that takes twins."""
        session = self._session
        session.engine.insert_messages(arriving(queue, seqs, instants, drafts, now))
        session.arrived(queue.number, len(seqs))
        session.sent_to.add(queue.name)

    def _send_unless_twin(self, queue: Queue, draft: Draft, now: int, number: tuple[int, int] | None = None) -> Sent:
        """`number` is the sequence number it has already, and when it was sent. The queue is locked."""
        session, settings = self._session, queue.settings
        session.sent_to.add(queue.name)
        hashed = body_hash(draft.body)
        key = policy.dedup_key(settings, draft, hashed)
        twin = self._twins.find(queue, key, now)
        if twin is not None:
            return Sent(twin, False)
        seq, sent_at = number or (session.engine.next_seqs(1)[0], now)
        session.engine.insert_messages(
            [
                (
                    seq,
                    queue.number,
                    policy.ready_at(settings, draft.delay_ms, now),
                    sent_at,
                    draft.deadline_at,
                    draft.content_type,
                    attributes_text(draft.attributes),
                    key,
                    hashed,
                    draft.body,
                )
            ]
        )
        session.arrived(queue.number, 1)
        return Sent(make_id(session.origin, sent_at, seq), True)

    # Once per idempotency key

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        session = self._session
        found = session.queue(queue)
        place = found.number, key.encode()
        # First the key, so that another server that has the same one waits here before it stores anything.
        while not session.engine.add(self._sql.remember, (*place, digest, len(drafts), len(drafts), now)):
            known = self._remembered(found, key, digest, now)
            if known is not None:
                return known
        stored = sum(sent.stored for sent in self.send(queue, drafts, now))
        if stored < len(drafts):
            session.engine.run(self._sql.correct, (stored, *place))
        if stored:
            session.stirred.add(queue)
        return SentOnce(len(drafts), stored)

    def _remembered(self, queue: Queue, key: str, digest: bytes, now: int) -> SentOnce | None:
        """None for one that is so old that it is no longer remembered; its row is then gone."""
        engine = self._session.engine
        place = queue.number, key.encode()
        for known, messages, stored, sent_at in engine.rows(self._sql.recall, place):
            if sent_at < now - self._session.limits.idempotency_ms:
                engine.run(self._sql.forget, place)
                return None
            if bytes(known) != digest:
                raise SendConflict(key)
            return SentOnce(messages, stored, repeated=True)
        return None

    def sweep(self, now: int, limit: int) -> int:
        """Forget keys that are old."""
        engine = self._session.engine
        old = engine.rows(self._sql.old, (now - self._session.limits.idempotency_ms, max(0, limit)))
        if old:
            engine.run(self._sql.forget_old, (engine.listed(number for (number,) in old),))
        return len(old)

    # Under numbers that were given out before, so that ids are known before their messages are stored

    def reserve(self, count: int) -> Reservation:
        return Reservation(self._session.origin, list(self._session.engine.next_seqs(count)))

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        session = self._session
        found = session.queue(queue)
        if again:
            known = self._known([message.seq for message in messages])
            messages = [message for message in messages if message.seq not in known]
        if not messages:
            return
        if found.settings.dedup is Dedup.SEND:
            session.lock_queue(found.number)
            for message in messages:
                self._send_unless_twin(found, message.draft, now, (message.seq, message.sent_at))
            return
        seqs = [message.seq for message in messages]
        instants = [message.sent_at for message in messages]
        self._store(found, seqs, instants, [message.draft for message in messages], now)

    def _known(self, seqs: Sequence[int]) -> set[int]:
        engine = self._session.engine
        listed = engine.listed(seqs)
        return {seq for (seq,) in engine.rows(self._sql.known, (listed, listed))}
