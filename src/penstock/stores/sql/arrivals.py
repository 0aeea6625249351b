"""How messages come into a queue: by being sent, and by moving from another queue."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import policy
from penstock.ids import make_id, make_ids
from penstock.model import Dedup, Draft, Outcome, Queue, Sent
from penstock.stores.sql.session import LISTED, Session, attributes_text, listed

_INSERT = """
    INSERT INTO message (seq, queue, ready_at, sent_at, receives, claim, deadline_at,
                         content_type, attributes, dedup_key, body_hash, body)
    VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?)"""


class ArrivalVerbs:
    session: Session

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        session = self.session
        found = session.queue(queue)
        if found.settings.dedup is Dedup.SEND:
            return self._send_once(found, drafts, now)
        number, settings = found.number, found.settings
        seqs = session.next_seqs(len(drafts))
        # Most drafts ask for nothing special: what holds for the whole queue is worked out once.
        ready_at = policy.ready_at(settings, None, now)
        keyed = settings.dedup is not Dedup.OFF
        hashes = [policy.body_hash(draft.body) for draft in drafts]
        session.engine.many(
            _INSERT,
            [
                (
                    seq,
                    number,
                    ready_at if draft.delay_ms is None else policy.ready_at(settings, draft.delay_ms, now),
                    now,
                    draft.deadline_at,
                    draft.content_type,
                    attributes_text(draft.attributes) if draft.attributes else None,
                    policy.dedup_key(settings, draft, hashed) if keyed else None,
                    hashed,
                    draft.body,
                )
                for seq, draft, hashed in zip(seqs, drafts, hashes, strict=True)
            ],
        )
        session.arrived(number, len(seqs))
        return [Sent(made, True) for made in make_ids(session.origin, now, seqs)]

    def _send_once(self, queue: Queue, drafts: Sequence[Draft], now: int) -> list[Sent]:
        """One draft at a time: each may be the twin of the one before."""
        session, number, settings = self.session, queue.number, queue.settings
        sent = []
        for draft in drafts:
            hashed = policy.body_hash(draft.body)
            key = policy.dedup_key(settings, draft, hashed)
            twin = self._twin(queue, key, now)
            if twin is not None:
                sent.append(Sent(twin, False))
                continue
            [seq] = session.next_seqs(1)
            ready_at = policy.ready_at(settings, draft.delay_ms, now)
            attributes = attributes_text(draft.attributes)
            session.engine.run(
                _INSERT,
                (
                    seq,
                    number,
                    ready_at,
                    now,
                    draft.deadline_at,
                    draft.content_type,
                    attributes,
                    key,
                    hashed,
                    draft.body,
                ),
            )
            session.arrived(number, 1)
            sent.append(Sent(make_id(session.origin, now, seq), True))
        return sent

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

    def move(self, source: str, target: str, now: int, limit: int, through: int) -> int:
        session = self.session
        here, there = session.queue(source), session.queue(target)
        if here.number == there.number:
            return 0  # else whoever moves until nothing is left would never end
        # Ready ones by themselves: what was sent after the start may be a million, and is never looked at.
        rows = session.engine.rows(
            "SELECT seq FROM message WHERE queue = ? AND ready_at = 0 AND seq <= ? ORDER BY seq LIMIT ?",
            (here.number, through, limit),
        )
        if len(rows) < limit:
            rows += session.engine.rows(
                """SELECT seq FROM message
                   WHERE queue = ? AND ready_at > 0 AND seq <= ? AND (ready_at <= ? OR receives = 0)
                   ORDER BY ready_at, seq LIMIT ?""",
                (here.number, through, now, limit - len(rows)),
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
            seqs = self._without_twins(here, there, seqs, outcome, now)
        session.record(seqs, outcome, now)
        session.engine.run(
            f"""UPDATE message SET queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL,
                                   ready_at = CASE WHEN ready_at > ? AND receives = 0 THEN ready_at ELSE 0 END
                WHERE seq IN {LISTED}""",
            (there.number, now, listed(seqs)),
        )
        session.departed(here.number, len(seqs))
        session.arrived(there.number, len(seqs))
        session.stirred.add(there.name)

    def _without_twins(
        self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int
    ) -> Sequence[int]:
        """Finish those whose key the target already holds, and give the others the key they need there."""
        session = self.session
        keys = session.engine.rows(
            f"SELECT seq, dedup_key, body_hash FROM message WHERE seq IN {LISTED} ORDER BY seq",
            (listed(seqs),),
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
        return self.session.last_seq()
