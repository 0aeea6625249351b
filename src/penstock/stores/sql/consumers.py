"""Consumers that are known to the store: their claims last as long as they give signs of life.

What a consumer holds stands in its own row, not with the messages: a batch costs one row, and a message needs no column
for it. Whoever changes what a consumer holds has locked its row first (`attend`), messages after that: then a consumer
and those who believe it dead never wait for each other in a ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from penstock import ids, limits
from penstock.model import Claimed, Consumer, Delivery, Held, Outcome, Trace
from penstock.stores.sql.claims import ClaimVerbs, Manner, Share
from penstock.stores.sql.session import IS_CLAIMED, Session

_decode = msgspec.json.Decoder(list[Held]).decode
# A sign of life counts for its time, whichever way the clock has jumped since.
_ALIVE = "beat_at > ? - dead_after_ms AND beat_at < ? + dead_after_ms"


def _encode(held: Iterable[Held]) -> str:
    return msgspec.json.encode(sorted(held)).decode()


class ConsumerVerbs(ClaimVerbs):
    def register(self, consumer: Consumer, now: int) -> None:
        """The consumer is alive, holds nothing, and is the youngest of its queue. Raises QueueNotFound."""
        session = self.session
        queue = session.queue(consumer.queue)
        session.take_turn(queue.number)
        self.leave(consumer.id)  # it may still stand with a queue of the same name that was deleted
        number = session.scalar("SELECT coalesce(max(number), 0) + 1 FROM consumer WHERE queue = ?", (queue.number,))
        session.engine.run(
            """INSERT INTO consumer (id, queue, number, delivery, beat_at, dead_after_ms, holding)
               VALUES (?, ?, ?, ?, ?, ?, '[]')""",
            (consumer.id, queue.number, int(number), consumer.delivery.value, now, consumer.dead_after_ms),
        )

    def attend(self, consumer_id: str) -> set[Held] | None:
        """What the consumer holds; None when it is not registered, or its queue was deleted. Until the unit ends nobody
        declares it dead."""
        engine = self.session.engine
        rows = engine.rows(f"SELECT queue, holding FROM consumer WHERE id = ? {engine.lock}", (consumer_id,))
        for queue, holding in rows:
            if self.session.queue_name(queue) is not None:
                return set(_decode(holding))
        return None

    def hold(self, consumer_id: str, held: Iterable[Held], now: int) -> None:
        """A sign of life, and all that the consumer holds from now on."""
        self.session.engine.run(
            "UPDATE consumer SET beat_at = ?, holding = ? WHERE id = ?", (now, _encode(held), consumer_id)
        )

    def leave(self, consumer_id: str) -> None:
        """The consumer is gone, and has settled what it held."""
        self.session.engine.run("DELETE FROM consumer WHERE id = ?", (consumer_id,))

    def claim_share(self, consumer: Consumer, limit: int, now: int) -> Claimed:
        """Claim for a consumer, until it is dead or the message's deadline has passed. Raises QueueNotFound.

        Its own share of the queue comes first: the living consumers, in their order of birth, divide the sequence
        numbers among themselves. Where messages are delivered at least once, a deadline ends a claim and nothing else.
        """
        queue = self.session.queue(consumer.queue)
        living = self._living(queue.number, now)
        share = None
        if len(living) > 1 and consumer.id in living:
            share = Share(living.index(consumer.id), len(living))
        heeds = consumer.delivery is Delivery.AT_MOST_ONCE
        return self.claim_so(queue, limit, now, Manner(limits.NEVER, True, heeds, share))

    def _living(self, queue: int, now: int) -> list[str]:
        rows = self.session.engine.rows(
            f"SELECT id FROM consumer WHERE queue = ? AND {_ALIVE} ORDER BY number", (queue, now, now)
        )
        return [consumer_id for (consumer_id,) in rows]

    def settle(
        self, queue: str, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        """Finish messages with an outcome; where there is none, make them ready, now or after `delay_ms`. Returns those
        that were still held by these very claims: nothing happens to the others."""
        found = self.session.find_queue(queue)
        return settle(self.session, found.number, held, outcome, now, delay_ms) if found and held else set()

    def reap(self, now: int) -> int:
        """Clear away consumers that have given no sign of life, and say how many. What they held is ready again, or
        has failed where messages are delivered at most once."""
        return reap(self.session, now)

    def first_due(self, queue: str) -> int | None:
        """When the first message of the queue that is not claimed for good becomes ready; 0 if one is ready."""
        found = self.session.find_queue(queue)
        if found is None:
            return None
        due: int | None = self.session.scalar(
            "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at < ?", (found.number, limits.NEVER)
        )
        return due

    def trace(self, message_id: str, now: int) -> Trace | None:
        """Where a message is, or how it ended; None for one that nobody remembers."""
        seq = ids.seq_of(message_id)
        if seq is None:
            return None
        session = self.session
        for number, sent_at, ready_at, claimed in session.engine.rows(
            f"SELECT queue, sent_at, ready_at, {IS_CLAIMED} FROM message WHERE seq = ? AND queue + 0 > 0", (seq,)
        ):
            if ids.make_id(session.origin, sent_at, seq) != message_id.lower():
                return None
            if session.queue_name(number) is None:
                return Trace(Outcome.PURGED)  # with its queue; the row is freed later
            return Trace(None, ready_at > now and bool(claimed))
        for sent_at, outcome in session.engine.rows(
            "SELECT sent_at, outcome FROM ledger WHERE seq = ? ORDER BY number DESC LIMIT 1", (seq,)
        ):
            if ids.make_id(session.origin, sent_at, seq) == message_id.lower():
                return Trace(Outcome(outcome))
        return None


def settle(
    session: Session, queue: int, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
) -> set[Held]:
    engine = session.engine
    if outcome is not None and engine.deletes_into:
        latest = dict(sorted(held))
        finished = session.finish_claimed(queue, latest, outcome, now)
        return {(seq, claim) for seq, claim in latest.items() if seq in finished}
    # Were the queue part of the condition, a database might read the queue instead of these messages.
    rows = engine.rows(
        f"SELECT seq, claim, queue FROM message WHERE {engine.among('seq')} ORDER BY seq {engine.lock}",
        (engine.listed(seq for seq, _ in held),),
    )
    settled = set(held).intersection((seq, abs(claim)) for seq, claim, number in rows if number == queue)
    if outcome is not None:
        session.finish(queue, sorted(seq for seq, _ in settled), outcome, now)
        return settled
    still_claimed = [seq for seq, claim, _ in rows if (seq, claim) in settled]  # the others were released with a delay
    if still_claimed:
        if delay_ms > 0:
            session.put_off(still_claimed, now + delay_ms)
        else:
            session.make_ready(still_claimed)
        name = session.queue_name(queue)
        if name is not None:
            session.stirred.add(name)
    return settled


def reap(session: Session, now: int) -> int:
    engine = session.engine
    # Mostly there is none, and a look takes no locks.
    dead = engine.rows(f"SELECT id FROM consumer WHERE NOT ({_ALIVE}) LIMIT ?", (now, now, limits.REAP_CONSUMERS))
    reaped = 0
    for (consumer_id,) in sorted(dead):
        rows = engine.rows(
            f"""SELECT queue, delivery, holding FROM consumer WHERE id = ? AND NOT ({_ALIVE}) {engine.lock_free}""",
            (consumer_id, now, now),
        )
        for queue, delivery, holding in rows:
            outcome = Outcome.FAILED if delivery == Delivery.AT_MOST_ONCE else None
            settle(session, queue, _decode(holding), outcome, now)
            engine.run("DELETE FROM consumer WHERE id = ?", (consumer_id,))
            reaped += 1
    return reaped
