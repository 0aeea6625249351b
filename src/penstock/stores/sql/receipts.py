"""What the holder of a receipt may do: ack, renew, release."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids
from penstock.model import Outcome, Receipt
from penstock.stores.sql.session import LISTED, Session, listed


class ReceiptVerbs:
    session: Session

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        by_queue: dict[int, list[int]] = {}
        finished: set[int] = set()
        results = []
        for match in self._match(receipts):
            first = match is not None and match[0] not in finished
            results.append(first)
            if match is not None and first:
                finished.add(match[0])
                by_queue.setdefault(match[1], []).append(match[0])
        for queue, seqs in by_queue.items():
            self.session.finish(queue, seqs, Outcome.PROCESSED, now)
        return results

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        matched = self._match(receipts)
        self.session.engine.run(
            f"""UPDATE message SET ready_at = ?, receives = max(receives, 1)
                WHERE seq IN {LISTED} AND (? OR ready_at < ?)""",
            (until, listed(match[0] for match in matched if match), int(shorten), until),
        )
        if shorten:
            self.session.stirred.update(match[2] for match in matched if match)
        return [match is not None for match in matched]

    def release(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        matched = self._match(receipts)
        self.session.engine.run(
            f"UPDATE message SET ready_at = 0 WHERE seq IN {LISTED} AND receives > 0",
            (listed(match[0] for match in matched if match),),
        )
        self.session.stirred.update(match[2] for match in matched if match)
        return [match is not None for match in matched]

    def release_all(self, queue: str, now: int, limit: int) -> int:
        number = self.session.queue(queue).number
        rows = self.session.engine.rows(
            """SELECT seq FROM message WHERE queue = ? AND ready_at > ? AND receives > 0
               ORDER BY ready_at, seq LIMIT ?""",
            (number, now, limit),
        )
        self.session.engine.run(
            f"UPDATE message SET ready_at = 0 WHERE seq IN {LISTED}", (listed(seq for (seq,) in rows),)
        )
        self.session.stirred.add(queue)
        return len(rows)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        return [match and match[2] for match in self._match(receipts)]

    def _match(self, receipts: Sequence[Receipt]) -> list[tuple[int, int, str] | None]:
        """The sequence number, queue and queue's name of each message a receipt still stands for."""
        seqs = [ids.seq_of(receipt.id) for receipt in receipts]
        rows = self.session.engine.rows(
            f"""SELECT m.seq, m.queue, m.sent_at, m.claim, q.name FROM message AS m
                JOIN queue AS q ON q.number = m.queue
                WHERE m.seq IN {LISTED} AND q.deleted_at IS NULL""",
            (listed(seq for seq in seqs if seq is not None),),
        )
        found = {row[0]: row for row in rows}
        origin, make_id = self.session.origin, ids.make_id
        matched: list[tuple[int, int, str] | None] = []
        for receipt, number in zip(receipts, seqs, strict=True):
            row = found.get(number)
            if row is None:
                matched.append(None)
                continue
            seq, queue, sent_at, claim, name = row
            fits = (
                make_id(origin, sent_at, seq) in (receipt.id, receipt.id.lower())
                and receipt.claim in (None, claim)
                and receipt.queue in (None, name)
            )
            matched.append((seq, queue, name) if fits else None)
        return matched
