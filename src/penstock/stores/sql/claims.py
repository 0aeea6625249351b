"""How messages are handed out."""

from __future__ import annotations

from itertools import takewhile

from msgspec import Struct

from penstock import limits, policy
from penstock.ids import make_id
from penstock.model import Claimed, Dedup, Message, Outcome, Queue
from penstock.policy import Verdict
from penstock.stores.sql import collapses
from penstock.stores.sql.arrivals import ArrivalVerbs
from penstock.stores.sql.engine import Row
from penstock.stores.sql.hints import FROM_THE_BEGINNING, Start
from penstock.stores.sql.runs import conditions, runs_of
from penstock.stores.sql.session import MESSAGE_COLUMNS, decode_attributes

# Instead of a body, how long it is; and only what a verdict needs.
_MEASURED_COLUMNS = "seq, length(body), NULL, NULL, sent_at, 0, receives, 0, deadline_at"
_FINISHED = {Verdict.EXPIRE: Outcome.EXPIRED, Verdict.FAIL: Outcome.FAILED}


class Share(Struct, frozen=True):
    """The messages whose number leaves the remainder `rank` when it is divided by `among`."""

    rank: int
    among: int


class Manner(Struct, frozen=True):
    """How messages are claimed: until when; whether until their deadline where that lies ahead; whether those past
    their deadline fail; whose share comes first; and whether they are read, or only measured."""

    until: int
    to_deadline: bool = False
    heeds_deadlines: bool = True
    share: Share | None = None
    reads: bool = True


class ClaimVerbs(ArrivalVerbs):
    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self.session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        return self.claim_so(found, limit, now, Manner(now + hold if hold > 0 else 0))

    def claim_so(self, found: Queue, limit: int, now: int, manner: Manner) -> Claimed:
        rows, more = self.take(found, limit, now, manner)
        return Claimed(self._delivered(found, rows, now, manner), more)

    def take(self, found: Queue, limit: int, now: int, manner: Manner) -> tuple[list[Row], bool]:
        """The messages that a claim takes, as they were before it, and whether it stopped at a limit of one unit."""
        if found.settings.dedup is Dedup.CLAIM:
            self.session.take_turn(found.number)  # else two claims at once hand out a message and its twin
            collapses.go_on(self.session, found.number, now, limits.STEP_ROWS)
        hints = self.session.hints
        start = hints.start(found.number) if hints else FROM_THE_BEGINNING
        promoted = self.session.promote(found, now, limits.PROMOTE_ROWS, start.due)
        if promoted:
            start = FROM_THE_BEGINNING
        taken: list[Row] = []
        after, room, rounds = start.after, limits.CLAIM_BYTES, 0
        while rounds < limits.CLAIM_ROUNDS and len(taken) < limit and room > 0:
            rows = self._head(found, manner, after, limit - len(taken), room)
            if not rows and not start.after:
                return taken, False
            if not rows:
                start, after = FROM_THE_BEGINNING, 0
                continue
            rounds += 1
            delivered = self._judge(found, rows, now, manner)
            self._hold(delivered, now, manner)
            after = rows[-1][0] if delivered else self._clear(found, rows[-1][0], now, manner)
            taken += delivered
            if manner.reads:
                room -= sum(len(row[1]) for row in delivered)
        if hints and manner.until and promoted < limits.PROMOTE_ROWS:
            # A share leaves gaps behind it.
            seen = after if manner.share is None else taken[0][0] - 1 if taken else 0
            hints.keep(found.number, start, Start(seen, now))
        return taken, len(taken) < limit

    def _head(self, queue: Queue, manner: Manner, after: int, limit: int, room: int) -> list[Row]:
        """The oldest ready messages, which nobody else can claim before this unit ends."""
        if manner.share is not None:
            return self._own_share_first(queue, manner.share, after, limit, room)
        engine = self.session.engine
        sql = f"""SELECT {MESSAGE_COLUMNS if manner.reads else _MEASURED_COLUMNS} FROM {engine.walk}
                  WHERE queue = ? AND ready_at = 0 AND {engine.age} > ?
                  ORDER BY {engine.age} LIMIT ? {engine.lock_free}"""
        params = (queue.number, after, limit)
        return engine.rows_within(sql, params, room) if manner.reads else engine.rows(sql, params)

    def _own_share_first(self, queue: Queue, share: Share, after: int, limit: int, room: int) -> list[Row]:
        """Of the ready messages, those of the share; where they are too few, the oldest of the others as well.

        The share is looked for only among the first, or a queue of a million messages would be read for each claim.
        """
        engine = self.session.engine
        ready = engine.rows(
            f"""SELECT seq FROM {engine.walk} WHERE queue = ? AND ready_at = 0 AND {engine.age} > ?
                ORDER BY {engine.age} LIMIT ?""",
            (queue.number, after, min(max(limit, limits.SHARE_ROWS), limit * share.among * 2)),
        )
        own = [seq for (seq,) in ready if seq % share.among == share.rank]
        others = [seq for (seq,) in ready if seq % share.among != share.rank]
        # The sum keeps a database from reading the queue once more instead of these messages.
        return engine.rows_within(
            f"""SELECT {MESSAGE_COLUMNS} FROM message WHERE {engine.among("seq")} AND queue + 0 = ? AND ready_at = 0
                ORDER BY seq {engine.lock_free}""",
            (engine.listed((own + others)[:limit]), queue.number),
            room,
        )

    def _judge(self, queue: Queue, rows: list[Row], now: int, manner: Manner) -> list[Row]:
        """The rows to deliver; all others leave the queue here."""
        settings = queue.settings
        if settings.dedup is not Dedup.CLAIM and self._are_all_delivered(queue, rows, now, manner):
            return rows
        judged = [(row, self._verdict(queue, row, now, manner)) for row in rows]
        if settings.dedup is Dedup.CLAIM:
            # Only what is handed out takes its twins along: a message that has expired must not.
            wanted = {row[0] for row, verdict in judged if verdict is Verdict.DELIVER}
            gone = collapses.collapse(self.session, queue, [row[0] for row in rows], wanted, now)
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

    def _clear(self, queue: Queue, after: int, now: int, manner: Manner) -> int:
        """Where one message cannot be delivered, a million behind it may be as old: take many away at once.

        Returns the number of the last message seen.
        """
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT {_MEASURED_COLUMNS} FROM {engine.walk}
                WHERE queue = ? AND ready_at = 0 AND {engine.age} > ?
                ORDER BY {engine.age} LIMIT ? {engine.lock_free}""",
            (queue.number, after, limits.STEP_ROWS),
        )
        dead = list(takewhile(lambda row: self._verdict(queue, row, now, manner) is not Verdict.DELIVER, rows))
        self._judge(queue, dead, now, manner)
        return int(dead[-1][0]) if dead else after

    @staticmethod
    def _are_all_delivered(queue: Queue, rows: list[Row], now: int, manner: Manner) -> bool:
        """The usual case, told by the oldest: nothing is expired, nothing has a deadline or was received too often."""
        oldest = min([row[4] for row in rows], default=now)
        most = max([row[6] for row in rows], default=0)
        deadlines = manner.heeds_deadlines and [row for row in rows if row[8] is not None]
        return not deadlines and policy.judge(queue.settings, now, oldest, most, None) is Verdict.DELIVER

    @staticmethod
    def _verdict(queue: Queue, row: Row, now: int, manner: Manner) -> Verdict:
        return policy.judge(queue.settings, now, row[4], row[6], row[8] if manner.heeds_deadlines else None)

    def _hold(self, rows: list[Row], now: int, manner: Manner) -> None:
        if not rows:
            return
        engine = self.session.engine
        ends, params = "?", [manner.until]
        if manner.to_deadline:
            ends, params = "CASE WHEN deadline_at > ? THEN deadline_at ELSE ? END", [now, manner.until]
        update = f"""UPDATE message SET ready_at = {ends}, receives = receives + 1, claim = abs(claim) + 1,
                                        first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ? WHERE """
        seqs = [row[0] for row in rows]
        if manner.reads:
            engine.run(update + engine.among("seq"), (*params, now, now, engine.listed(seqs)))
            return
        for _, where, which in conditions(engine, runs_of(seqs)):
            engine.run(update + where, (*params, now, now, *which))

    def _delivered(self, queue: Queue, rows: list[Row], now: int, manner: Manner) -> list[Message]:
        """The messages as they are after their claim."""
        until = manner.until
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
                deadline_at if manner.to_deadline and deadline_at is not None and deadline_at > now else until or now,
                receives + 1,
                claim + 1,
                deadline_at,
                came_from,
            )
            for seq, body, content_type, attributes, sent_at, _, receives, claim, deadline_at, came_from in rows
        ]
