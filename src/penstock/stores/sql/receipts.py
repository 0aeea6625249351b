"""What the holder of a receipt may do: ack, renew, release."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import ids
from penstock.model import Outcome, Receipt
from penstock.stores.sql.session import LISTED, Session, listed


class ReceiptVerbs:
    session: Session

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        matched = self._match(receipts)
        by_queue: dict[int, dict[int, None]] = {}
        results = []
        for match in matched:
            seqs = by_queue.setdefault(match[1], {}) if match else {}
            results.append(match is not None and match[0] not in seqs)
            if match:
                seqs[match[0]] = None
        for queue, seqs in by_queue.items():
            self.session.finish(queue, list(seqs), Outcome.PROCESSED, now)
        return results

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        matched = self._match(receipts)
        self.session.engine.run(
            f"""UPDATE message SET ready_at = ?, receives = max(receives, 1)
                WHERE seq IN {LISTED} AND (? OR ready_at < ?)""",
            (until, listed(match[0] for match in matched if match), int(shorten), until),
        )
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

    def _match(self, receipts: Sequence[Receipt]) -> list[tuple[int, int, str] | None]:
        """The sequence number, queue and queue's name of each message a receipt still stands for."""
        seqs = [ids.seq_of(receipt.id) for receipt in receipts]
        rows = self.session.engine.rows(
            f"""SELECT m.seq, m.queue, m.sent_at, m.claim, q.name FROM message AS m
                JOIN queue AS q ON q.number = m.queue
                WHERE m.seq IN {LISTED} AND q.deleted_at IS NULL""",
            (listed(seq for seq in seqs if seq is not None),),
        )
        origin = self.session.origin
        found = {
            ids.make_id(origin, sent_at, seq): (seq, queue, claim, name) for seq, queue, sent_at, claim, name in rows
        }
        matched: list[tuple[int, int, str] | None] = []
        for receipt in receipts:
            seq, queue, claim, name = found.get(receipt.id) or found.get(receipt.id.lower()) or (0, 0, 0, "")
            fits = seq and receipt.claim in (None, claim) and receipt.queue in (None, name)
            matched.append((seq, queue, name) if fits else None)
        return matched
