"""How messages come into a queue: by being sent, and by moving from another queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from penstock import limits, policy
from penstock.ids import make_id, make_ids
from penstock.model import Dedup, Draft, Outcome, Queue, Sent
from penstock.stores.sql import collapses
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import IS_DELAYED, Session, attributes_text

# Of a message that arrives; it has not been received yet.
COLUMNS = (
    "seq",
    "queue",
    "ready_at",
    "sent_at",
    "deadline_at",
    "content_type",
    "attributes",
    "dedup_key",
    "body_hash",
    "body",
)


class ArrivalVerbs:
    session: Session

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        session = self.session
        found = session.queue(queue)
        if found.settings.dedup is Dedup.SEND:
            return self._send_once(found, drafts, now)
        seqs = session.engine.next_seqs(len(drafts))
        self.store_messages(found, seqs, repeat(now, len(seqs)), drafts, now)
        return [Sent(made, True) for made in make_ids(session.origin, now, seqs)]

    def store_messages(
        self, queue: Queue, seqs: Sequence[int], instants: Iterable[int], drafts: Sequence[Draft], now: int
    ) -> None:
        """With the numbers they have and the instants at which they were sent, in a queue that takes twins."""
        session, number, settings = self.session, queue.number, queue.settings
        # Most drafts ask for nothing special: what holds for the whole queue is worked out once.
        ready_at = policy.ready_at(settings, None, now)
        keyed = settings.dedup is not Dedup.OFF
        hashes = [policy.body_hash(draft.body) for draft in drafts]
        session.engine.insert_messages(
            [
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
        )
        session.arrived(number, len(seqs))
        session.sent_to.add(queue.name)

    def _send_once(self, queue: Queue, drafts: Sequence[Draft], now: int) -> list[Sent]:
        """One draft at a time: each may be the twin of the one before."""
        self.session.take_turn(queue.number)
        return [self.send_unless_twin(queue, draft, now) for draft in drafts]

    def send_unless_twin(self, queue: Queue, draft: Draft, now: int, number: tuple[int, int] | None = None) -> Sent:
        """`number` is the sequence number it has already, and when it was sent. The queue's turn is ours."""
        session, settings = self.session, queue.settings
        session.sent_to.add(queue.name)
        hashed = policy.body_hash(draft.body)
        key = policy.dedup_key(settings, draft, hashed)
        twin = self._twin(queue, key, now)
        if twin is not None:
            return Sent(twin, False)
        seq, sent_at = number or (session.engine.next_seqs(1)[0], now)
        row: Row = (
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
        session.engine.insert_messages([row])
        session.arrived(queue.number, 1)
        return Sent(make_id(session.origin, sent_at, seq), True)

    def _twin(self, queue: Queue, key: bytes | None, now: int) -> str | None:
        """The id of the live message with this key.

        One past its retention gives up its key instead of its life: whoever holds it may still ack it.
        """
        if key is None:
            return None
        engine = self.session.engine
        twins = engine.rows(
            "SELECT seq, sent_at FROM message WHERE queue = ? AND dedup_key = ? ORDER BY seq",
            (queue.number, key),
        )
        for seq, sent_at in twins:
            if not policy.is_expired(queue.settings, now, sent_at):
                return make_id(self.session.origin, sent_at, seq)
            engine.run("UPDATE message SET dedup_key = NULL WHERE seq = ?", (seq,))
        return None

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        session = self.session
        here, there = session.queue(source), session.queue(target)
        if here.number == there.number:
            return 0  # else whoever moves until nothing is left would never end
        # Ready ones by themselves: what was sent after the start may be a million, and is never looked at.
        engine = session.engine
        rows = engine.rows(
            f"""SELECT seq FROM {engine.walk} WHERE queue = ? AND ready_at = 0 AND {engine.age} <= ?
                ORDER BY {engine.age} LIMIT ? {engine.lock}""",
            (here.number, through, limit),
        )
        if len(rows) < limit:
            # A claim that ends before an instant past all others keeps nothing back.
            held_from = limits.SHIPPED if claimed else now
            rows += engine.rows(
                f"""SELECT seq FROM {engine.walk}
                    WHERE queue = ? AND ready_at > 0 AND ready_at < ? AND seq <= ? AND (ready_at <= ? OR {IS_DELAYED})
                    ORDER BY ready_at, {engine.age} LIMIT ? {engine.lock}""",
                (here.number, limits.SHIPPED, through, held_from, limit - len(rows)),
            )
        seqs = [seq for (seq,) in rows]
        self.carry_over(here, there, seqs, Outcome.MOVED, now)
        return len(seqs)

    def carry_over(self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """Messages leave one queue for another, where they have never been received."""
        if not seqs:
            return
        session = self.session
        if here.number != there.number:  # a queue may be its own dead-letter queue
            if there.settings.dedup is not Dedup.OFF:
                session.take_turn(there.number)
            seqs = self._without_twins(here, there, seqs, outcome, now)
        session.record(seqs, outcome, now)
        session.look_everywhere()
        # What has come home has come from nowhere.
        came_from, name = "CASE WHEN came_from = ? THEN NULL ELSE came_from END", there.name
        if outcome is Outcome.DEAD_LETTERED and here.number != there.number:
            came_from, name = "?", here.name
        # `ready_at` first: MariaDB assigns one column after the other, and `receives` must still be what it was.
        session.engine.run(
            f"""UPDATE message SET ready_at = CASE WHEN ready_at > ? AND {IS_DELAYED} THEN ready_at ELSE 0 END,
                                   queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL,
                                   came_from = {came_from}
                WHERE {session.engine.among("seq")}""",
            (now, there.number, name, session.engine.listed(seqs)),
        )
        if there.settings.dedup is Dedup.CLAIM:
            collapses.spare(session, seqs)
        session.departed(here.number, len(seqs))
        session.arrived(there.number, len(seqs))
        session.stirred.add(there.name)

    def _without_twins(
        self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int
    ) -> Sequence[int]:
        """Finish those whose key the target already holds, and give the others the key they need there."""
        session = self.session
        keys = session.engine.rows(
            f"SELECT seq, dedup_key, body_hash FROM message WHERE {session.engine.among('seq')} ORDER BY seq",
            (session.engine.listed(seqs),),
        )
        if there.settings.dedup is Dedup.CLAIM:
            # Such a queue holds twins until one of them is claimed.
            session.engine.many(
                "UPDATE message SET dedup_key = ? WHERE seq = ?",
                [(policy.dedup_key_on_arrival(there.settings, key, hashed), seq) for seq, key, hashed in keys],
            )
            return seqs
        kept, twins, held = [], [], set()
        for seq, own_key, hashed in keys:
            key = policy.dedup_key_on_arrival(there.settings, own_key, hashed)
            if key is not None and (key in held or self._twin(there, key, now) is not None):
                twins.append(seq)
                continue
            kept.append(seq)
            if key is not None:
                held.add(key)
            if key != own_key:
                session.engine.run("UPDATE message SET dedup_key = ? WHERE seq = ?", (key, seq))
        session.finish(here.number, twins, outcome, now)
        return kept

    def last_seq(self) -> int:
        return self.session.engine.last_seq()
