"""What the holder of a receipt may do: ack, renew, release."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids, limits, policy
from penstock.model import Outcome, Receipt
from penstock.stores.sql.session import IS_CLAIMED, PUT_OFF, Session

# The sequence number, queue, queue's name and latest claim of a message that a receipt stands for.
Match = tuple[int, int, str, int]


class ReceiptVerbs:
    session: Session

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        matched = self._match(receipts, change=not self.session.engine.deletes_into)
        by_queue: dict[int, dict[int, int]] = {}
        for match in matched:
            if match is not None:
                by_queue.setdefault(match[1], {})[match[0]] = match[3]
        finished: set[int] = set()
        for queue, claims in by_queue.items():
            finished |= self.session.finish_claimed(queue, claims, Outcome.PROCESSED, now)
        results = []
        for match in matched:
            results.append(match is not None and match[0] in finished)
            if match is not None:
                finished.discard(match[0])  # once, however often it is named
        return results

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        matched = self._match(receipts, change=True)
        engine = self.session.engine
        later = "" if shorten else f" AND ready_at < {int(until)}"
        engine.run(
            f"""UPDATE message SET ready_at = ?, claim = abs(claim),
                                   receives = CASE receives WHEN 0 THEN 1 ELSE receives END
                WHERE {engine.among("seq")} {later}""",
            (until, engine.listed(match[0] for match in matched if match)),
        )
        if shorten or until <= now:
            self.session.look_everywhere()
        if shorten:
            self.session.stirred.update(match[2] for match in matched if match)
        return [match is not None for match in matched]

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        matched = self._match(receipts, change=True)
        self.session.look_everywhere()
        for delay, seqs in self._delays(matched, delay_ms).items():
            self._release(seqs, now, delay)
        self.session.stirred.update(match[2] for match in matched if match)
        return [match is not None for match in matched]

    def _delays(self, matched: Sequence[Match | None], delay_ms: int | None) -> dict[int, list[int]]:
        """The messages to release, by how long each is delayed."""
        found = [match for match in matched if match]
        if delay_ms is not None:
            return {delay_ms: [match[0] for match in found]}
        delays: dict[int, list[int]] = {}
        settings = {name: self.session.queue(name).settings for name in {match[2] for match in found}}
        backing_off = [match[0] for match in found if settings[match[2]].backoff is not None]
        engine = self.session.engine
        receives: dict[int, int] = {}
        if backing_off:
            sql = f"SELECT seq, receives FROM message WHERE {engine.among('seq')}"
            receives = dict(engine.rows(sql, (engine.listed(backing_off),)))
        for seq, _, name, _ in found:
            delay = policy.backoff_ms(settings[name], receives.get(seq, 0))
            delays.setdefault(delay, []).append(seq)
        return delays

    def _release(self, seqs: Sequence[int], now: int, delay_ms: int) -> None:
        engine = self.session.engine
        claim, ready_at = (PUT_OFF, now + delay_ms) if delay_ms > 0 else ("abs(claim)", 0)
        engine.run(
            f"""UPDATE message SET ready_at = ?, claim = {claim}
                WHERE {engine.among("seq")} AND receives > 0 AND (claim >= 0 OR ready_at <= ?)""",
            (ready_at, engine.listed(seqs), now),
        )

    def release_all(self, queue: str, now: int, limit: int) -> int:
        number = self.session.queue(queue).number
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT seq FROM {engine.walk} WHERE queue = ? AND ready_at > ? AND ready_at < ? AND {IS_CLAIMED}
                ORDER BY ready_at, {engine.age} LIMIT ? {engine.lock}""",
            (number, now, limits.SHIPPED, limit),
        )
        self.session.make_ready([seq for (seq,) in rows])
        self.session.stirred.add(queue)
        return len(rows)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        return [match and match[2] for match in self._match(receipts)]

    def _match(self, receipts: Sequence[Receipt], change: bool = False) -> list[Match | None]:
        seqs = [ids.seq_of(receipt.id) for receipt in receipts]
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT seq, queue, sent_at, abs(claim) FROM message
                WHERE {engine.among("seq")} AND ready_at <> ? ORDER BY seq {engine.lock if change else ""}""",
            (engine.listed(seq for seq in seqs if seq is not None), limits.SHIPPED),
        )
        found = {row[0]: row for row in rows}
        origin, make_id = self.session.origin, ids.make_id
        matched: list[Match | None] = []
        for receipt, number in zip(receipts, seqs, strict=True):
            row = found.get(number)
            if row is None:
                matched.append(None)
                continue
            seq, queue, sent_at, claim = row
            name = self.session.queue_name(queue)
            fits = (
                name is not None
                and make_id(origin, sent_at, seq) in (receipt.id, receipt.id.lower())
                and receipt.claim in (None, claim)
                and receipt.queue in (None, name)
            )
            matched.append((seq, queue, name, claim) if fits and name is not None else None)
        return matched
