"""How messages are handed out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from penstock import limits, policy
from penstock.ids import make_id
from penstock.model import Claimed, Dedup, Message, Outcome, Queue
from penstock.policy import Verdict
from penstock.stores.sql.arrivals import ArrivalVerbs
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import BODY, LISTED, MESSAGE_COLUMNS, decode_attributes, listed

_FINISHED = {Verdict.EXPIRE: Outcome.EXPIRED, Verdict.FAIL: Outcome.FAILED}


class ClaimVerbs(ArrivalVerbs):
    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self.session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        until = now + hold if hold > 0 else 0
        self.session.promote(found.number, now, limits.PROMOTE_ROWS)
        messages: list[Message] = []
        after, room = 0, limits.CLAIM_BYTES
        for _ in range(limits.CLAIM_ROUNDS):
            rows = self.session.engine.rows_within(
                f"""SELECT {MESSAGE_COLUMNS} FROM message
                    WHERE queue = ? AND ready_at = 0 AND seq > ? ORDER BY seq LIMIT ?""",
                (found.number, after, limit - len(messages)),
                BODY,
                room,
            )
            if not rows:
                return Claimed(messages)
            delivered = self._deliver(found, self._judge(found, rows, now), now, until)
            after = rows[-1][0] if delivered else self._clear(found, rows[-1][0], now)
            messages += delivered
            room -= sum(len(message.body) for message in delivered)
            if len(messages) == limit or room <= 0:
                break
        return Claimed(messages, more=len(messages) < limit)

    def _judge(self, queue: Queue, rows: list[Row], now: int) -> list[Row]:
        """The rows to deliver; all others leave the queue here."""
        settings = queue.settings
        if settings.dedup is not Dedup.CLAIM and self._are_all_delivered(queue, rows, now):
            return rows
        judged = [(row, self._verdict(queue, row, now)) for row in rows]
        if settings.dedup is Dedup.CLAIM:
            # Only what is handed out takes its twins along: a message that has expired must not.
            gone = self._collapse(queue, [row[0] for row, verdict in judged if verdict is Verdict.DELIVER], now)
            judged = [(row, verdict) for row, verdict in judged if row[0] not in gone]
        delivered: list[Row] = []
        others: dict[Verdict, list[int]] = {}
        for row, verdict in judged:
            if verdict is Verdict.DELIVER:
                delivered.append(row)
            else:
                others.setdefault(verdict, []).append(row[0])
        for verdict, seqs in others.items():
            if verdict is Verdict.DEAD_LETTER and settings.redrive is not None:
                dead_letters = self.session.queue(settings.redrive.dead_letter_queue)
                self.carry_over(queue, dead_letters, seqs, Outcome.DEAD_LETTERED, now)
            else:
                self.session.finish(queue.number, seqs, _FINISHED[verdict], now)
        return delivered

    def _clear(self, queue: Queue, after: int, now: int) -> int:
        """Where one message cannot be delivered, a million behind it may be as old: take many away at once.

        Returns the number of the last message seen.
        """
        rows = self.session.engine.rows(
            f"""SELECT {MESSAGE_COLUMNS.replace(" body,", " NULL,")} FROM message
                WHERE queue = ? AND ready_at = 0 AND seq > ? ORDER BY seq LIMIT ?""",
            (queue.number, after, limits.STEP_ROWS),
        )
        dead = list(takewhile(lambda row: self._verdict(queue, row, now) is not Verdict.DELIVER, rows))
        self._judge(queue, dead, now)
        return int(dead[-1][0]) if dead else after

    @staticmethod
    def _are_all_delivered(queue: Queue, rows: list[Row], now: int) -> bool:
        """The usual case, told by the oldest: nothing is expired, nothing has a deadline or was received too often."""
        oldest = min([row[4] for row in rows], default=now)
        most = max([row[6] for row in rows], default=0)
        deadlines = [row for row in rows if row[8] is not None]
        return not deadlines and policy.judge(queue.settings, now, oldest, most, None) is Verdict.DELIVER

    @staticmethod
    def _verdict(queue: Queue, row: Row, now: int) -> Verdict:
        return policy.judge(queue.settings, now, row[4], row[6], row[8])

    def _deliver(self, queue: Queue, rows: list[Row], now: int, until: int) -> list[Message]:
        if not rows:
            return []
        self.session.engine.run(
            f"""UPDATE message SET ready_at = ?, receives = receives + 1, claim = claim + 1,
                                   first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ?
                WHERE seq IN {LISTED}""",
            (until, now, now, listed(row[0] for row in rows)),
        )
        origin, name = self.session.origin, queue.name
        return [
            Message(
                make_id(origin, sent_at, seq),
                seq,
                name,
                body,
                content_type,
                attributes and decode_attributes(attributes),
                sent_at,
                until or now,
                receives + 1,
                claim + 1,
                deadline_at,
            )
            for seq, body, content_type, attributes, sent_at, _, receives, claim, deadline_at in rows
        ]

    def _collapse(self, queue: Queue, seqs: Sequence[int], now: int) -> set[int]:
        """Of messages with one key that nobody has received yet, only the oldest is handed out.

        Its twins are found by their key, wherever in the queue they are. A message that was handed out before
        keeps to itself: its holder may be working on it, and a later twin may carry news.
        """
        # The plus sign keeps the planner from walking all ready messages for each twin: their key is what finds them.
        twins = self.session.engine.rows(
            f"""SELECT DISTINCT t.seq FROM message AS m JOIN message AS t
                    ON t.queue = m.queue AND t.dedup_key = m.dedup_key AND t.seq > m.seq
                WHERE m.seq IN {LISTED} AND m.receives = 0 AND t.receives = 0 AND +t.ready_at = 0""",
            (listed(seqs),),
        )
        collapsed = [seq for (seq,) in twins]
        self.session.finish(queue.number, collapsed, Outcome.COLLAPSED, now)
        return set(collapsed)
