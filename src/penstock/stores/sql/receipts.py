"""What the holder of a receipt may do: ack, renew, release."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids, limits
from penstock.model import Outcome, Receipt
from penstock.stores.sql.session import IS_CLAIMED, Session


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

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int = 0) -> list[bool]:
        matched = self._match(receipts, change=True)
        engine = self.session.engine
        self.session.look_everywhere()
        # A claim of 0 has no negative: it counts as the first.
        change = "claim = CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END" if delay_ms > 0 else "claim = abs(claim)"
        engine.run(
            f"""UPDATE message SET ready_at = ?, {change}
                WHERE {engine.among("seq")} AND receives > 0 AND (claim >= 0 OR ready_at <= ?)""",
            (now + delay_ms if delay_ms > 0 else 0, engine.listed(match[0] for match in matched if match), now),
        )
        self.session.stirred.update(match[2] for match in matched if match)
        return [match is not None for match in matched]

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

    def _match(self, receipts: Sequence[Receipt], change: bool = False) -> list[tuple[int, int, str, int] | None]:
        """The sequence number, queue, queue's name and latest claim of each message a receipt still stands for."""
        seqs = [ids.seq_of(receipt.id) for receipt in receipts]
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT seq, queue, sent_at, abs(claim) FROM message
                WHERE {engine.among("seq")} AND ready_at <> ? ORDER BY seq {engine.lock if change else ""}""",
            (engine.listed(seq for seq in seqs if seq is not None), limits.SHIPPED),
        )
        found = {row[0]: row for row in rows}
        origin, make_id = self.session.origin, ids.make_id
        matched: list[tuple[int, int, str, int] | None] = []
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
