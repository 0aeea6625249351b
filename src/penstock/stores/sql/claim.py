"""How messages are handed out.

One file because claims on a queue and on its lines judge messages, hold them and come to an end in the same ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from penstock import policy
from penstock.ids import before_seq
from penstock.limits import SHIPPED
from penstock.model import Claimed, Dedup, Message, Outcome, Queue
from penstock.policy import Verdict
from penstock.stores.figures import CLAIMED, REDELIVERED
from penstock.stores.sql.budget import Budget, is_spent
from penstock.stores.sql.engine import Row
from penstock.stores.sql.hints import FROM_THE_BEGINNING, Start
from penstock.stores.sql.lines import group_text, has_lines
from penstock.stores.sql.moves import Moves
from penstock.stores.sql.runs import Run, at_once, each_run, runs_of
from penstock.stores.sql.session import (
    Session,
    body_in,
    deadline_in,
    decode_attributes,
    group_in,
    receives_in,
    sent_at_in,
    seq_in,
    size_of,
)
from penstock.stores.sql.statements import Bounded, ByRuns, by_runs
from penstock.stores.sql.twins import Twins

_FINISHED = {Verdict.EXPIRE: Outcome.EXPIRED, Verdict.FAIL: Outcome.FAILED}
_NONE = frozenset((None,))
# Lines that a claim begins with at once.
_HEADS = 16
_MOST_LINES = 500
_HELD = """receives = receives + 1, claim = abs(claim) + 1,
                           first_claimed_at = coalesce(first_claimed_at, ?), last_claimed_at = ?"""


@dataclass(frozen=True, slots=True)
class ClaimSql:
    head: str = Bounded("""
        SELECT {message} FROM {walk} WHERE queue = ? AND ready_at = 0 AND {age} > ?
        ORDER BY {age} LIMIT ? {lock_free}""")
    # The same, but not read.
    measured_head: str = """
        SELECT {measured} FROM {walk} WHERE queue = ? AND ready_at = 0 AND {age} > ?
        ORDER BY {age} LIMIT ? {lock_free}"""
    # The same in all: one row, however many there are.
    summed_head: str = """
        SELECT count(*), min(seq), max(seq), sum(size), min(sent_at), max(receives),
            count(CASE WHEN receives > 0 THEN 1 END), count(deadline_at)
        FROM (SELECT seq, length(body) AS size, sent_at, receives, deadline_at FROM {walk}
              WHERE queue = ? AND ready_at = 0 ORDER BY {age} LIMIT ?) AS head"""
    ready: str = "SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 AND {age} > ? ORDER BY {age} LIMIT ?"
    # The sum keeps a database from reading the queue once more instead of these messages.
    chosen: str = Bounded("""
        SELECT {message} FROM message WHERE {among:seq} AND queue + 0 = ? AND ready_at = 0
        ORDER BY seq {lock_free}""")
    hold: ByRuns = by_runs(f"UPDATE message SET ready_at = ?, {_HELD} WHERE {{which}}")
    hold_to_deadline: ByRuns = by_runs(f"""
        UPDATE message SET ready_at = CASE WHEN deadline_at > ? THEN deadline_at ELSE ? END, {_HELD}
        WHERE {{which}}""")


@dataclass(frozen=True, slots=True)
class Share:
    """The messages whose number leaves the remainder `rank` when it is divided by `among`."""

    rank: int
    among: int


@dataclass(frozen=True, slots=True)
class Terms:
    """How messages are claimed: until when; whether until their deadline where that lies ahead; whether those past
    their deadline fail; whose share comes first; whether they are read, or only measured; and how long
    these may be."""

    until: int
    to_deadline: bool = False
    heeds_deadlines: bool = True
    share: Share | None = None
    reads: bool = True
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a shipment has taken: how many messages, the length of their bodies, which ones, and whether it stopped at a
    limit of one unit."""

    messages: int
    bytes: int
    runs: list[Run]
    more: bool


class _Taking:
    """What a claim on lines has taken so far, and how much more it may."""

    def __init__(self, queue: Queue, limit: int, room: int, most_left_out: int, budget: Budget | None) -> None:
        self.queue = queue
        self.taken: list[Row] = []
        self.room = room
        self._budget = budget
        self._limit = limit
        self._left_out = 0
        self._most_left_out = most_left_out

    def goes_on(self) -> bool:
        is_short = len(self.taken) < self._limit and self.room > 0 and self._left_out < self._most_left_out
        return is_short and not is_spent(self._budget)

    def wanted(self) -> int:
        return self._limit - len(self.taken)

    def most_to_leave_out(self) -> int:
        return self._most_left_out - self._left_out

    def add(self, delivered: list[Row], left_out: int, size: int) -> None:
        self.taken += delivered
        self._left_out += left_out
        self.room -= size


def _keeps_dead_letters(queue: Queue) -> bool:
    redrive = queue.settings.redrive
    return redrive is not None and redrive.dead_letter_queue == queue.name


def _without_share(terms: Terms) -> Terms:
    return terms if terms.share is None else replace(terms, share=None)


class Claims:
    __slots__ = ("_moves", "_session", "_sql", "_twins")

    def __init__(self, session: Session, twins: Twins, moves: Moves) -> None:
        self._session = session
        self._twins = twins
        self._moves = moves
        self._sql = session.engine.statements.of(ClaimSql)

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self._session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        return self.claim_on(found, limit, now, Terms(now + hold if hold > 0 else 0))

    def claim_on(self, found: Queue, limit: int, now: int, terms: Terms) -> Claimed:
        rows, more = self.take(found, limit, now, terms)
        return Claimed(self._delivered(found, rows, now, terms), more)

    def take(self, found: Queue, limit: int, now: int, terms: Terms) -> tuple[list[Row], bool]:
        """The messages that a claim takes, as they were before it, and whether it stopped at a limit of one unit. Every
        claim comes through here, and finds nothing in a paused queue."""
        if found.paused_at is not None:
            return [], False
        take = self._take_lines if has_lines(found) else self._take
        rows, more = take(found, limit, now, terms)
        if rows:
            self._session.count(found.number, CLAIMED, len(rows))
            again = len(rows) - list(map(receives_in, rows)).count(0)
            if again:
                self._session.count(found.number, REDELIVERED, again)
        return rows, more

    def ship(self, found: Queue, limit: int, now: int, budget: Budget | None) -> Shipped:
        """Messages for a shipment, which are not read."""
        shipped = self._ship_alike(found, limit, now, budget)
        if shipped is None:
            rows, more = self.take(found, limit, now, Terms(SHIPPED, reads=False, budget=budget))
            size = sum(map(body_in, rows))  # which is a length here
            shipped = Shipped(len(rows), size, runs_of(sorted(map(seq_in, rows))), more)
        return shipped

    def _ship_alike(self, found: Queue, limit: int, now: int, budget: Budget | None) -> Shipped | None:
        """The usual case, in which all that is ready is handed out as it stands: told by a few sums, without looking at
        each message. None in any other, and where other units may take some of it in between."""
        session, engine = self._session, self._session.engine
        is_plain = not has_lines(found) and found.settings.dedup is not Dedup.CLAIM and found.paused_at is None
        if engine.shared or session.hints is not None or not is_plain or session.look_for_due(found, now, 1).rows():
            return None
        [head] = engine.rows(self._sql.summed_head, (found.number, limit))
        count, first, last, size, oldest, receives, received, deadlines = head
        if not count:
            return Shipped(0, 0, [], False)
        if deadlines or policy.judge(found.settings, now, oldest, receives, None) is not Verdict.DELIVER:
            return None
        if budget is not None and not budget.covers(size):
            return None
        if last - first == count - 1:
            runs = [(first, last)]
        else:
            runs = runs_of([seq for (seq,) in engine.rows(self._sql.ready, (found.number, 0, limit))])
        self._hold_runs(runs, SHIPPED, now)
        session.count(found.number, CLAIMED, count)
        if received:
            session.count(found.number, REDELIVERED, received)
        return Shipped(count, size, runs, False)

    def _take(self, found: Queue, limit: int, now: int, terms: Terms) -> tuple[list[Row], bool]:
        session, limits = self._session, self._session.limits
        left_out, has_notes = 0, False
        if found.settings.dedup is Dedup.CLAIM:
            session.lock_queue(found.number)  # else two claims at once hand out a message and its twin
            left_out, has_notes = self._twins.go_on(found.number, now, limits.collapse_rows // 2)
        hints = session.hints
        start = hints.start(found.number) if hints else FROM_THE_BEGINNING
        most_promoted = max(limit, limits.promote_rows)
        room = limits.claim_bytes
        promoted, looked = self._promote(found, terms, start, limit, room, most_promoted, now)
        if promoted:
            start = FROM_THE_BEGINNING
        taken: list[Row] = []
        after, rounds = start.after, 0
        # What is not handed out takes long to finish: a claim that has met much of it goes on in the next unit.
        enough = max(limit, limits.step_rows)
        while rounds < limits.claim_rounds and len(taken) < limit and room > 0 and left_out < enough:
            rows = self._head(found, terms, after, limit - len(taken), room) if looked is None else looked
            looked = None
            if not rows and not start.after:
                return taken, False
            if not rows:
                start, after = FROM_THE_BEGINNING, 0
                continue
            rows = self._affordable(found, rows, now, terms)
            if not rows:
                break
            rounds += 1
            delivered = self._judge(found, rows, now, terms, has_notes)
            has_notes = True  # perhaps: this round may have made some
            self._hold(delivered, now, terms)
            left_out += len(rows) - len(delivered)
            last = seq_in(rows[-1])
            after = last if delivered else self._clear(found, last, now, terms, max(1, enough - left_out))
            taken += delivered
            if terms.reads:
                room -= size_of(delivered)
            if is_spent(terms.budget):
                break
        if hints and terms.until and promoted < most_promoted:
            # A share leaves gaps behind it.
            seen = after if terms.share is None else seq_in(taken[0]) - 1 if taken else 0
            hints.keep(found.number, start, Start(seen, now))
        return taken, len(taken) < limit and not is_spent(terms.budget)

    def _promote(
        self, found: Queue, terms: Terms, start: Start, limit: int, room: int, most: int, now: int
    ) -> tuple[int, list[Row] | None]:
        """How many messages were due and are seen to, and what `_head` finds, if it was asked and that still holds."""
        session = self._session
        looked: list[Row] | None = None
        look = session.look_for_due(found, now, most, start.due)
        if session.engine.shared:
            # In one round trip with that look, which mostly finds nothing.
            looked = self._head(found, terms, start.after, limit, room)
        due = look.rows()
        if not due:
            return 0, looked
        session.promote(found, due, now)
        if looked:
            session.stirred.add(found.name)  # others have passed over what is not taken after all
        return len(due), None

    def _take_lines(self, found: Queue, limit: int, now: int, terms: Terms) -> tuple[list[Row], bool]:
        """Of each line that has a ready message, the oldest such line first, as many as may be taken. Shares would tear
        lines apart, and hints pass over a line whose first message was just lifted."""
        session, limits = self._session, self._session.limits
        session.lock_queue(found.number)
        most_promoted = max(limit, limits.promote_rows)
        due = session.look_for_due(found, now, most_promoted).rows()
        session.promote(found, due, now)
        # The first message of a line may be among those that are left.
        are_all_promoted = len(due) < most_promoted
        taking = _Taking(found, limit, limits.claim_bytes, max(limit, limits.step_rows), terms.budget)
        after = begun = 0
        # Each line takes statements of its own: a claim that has met many goes on in the next unit.
        while taking.goes_on() and begun < _MOST_LINES:
            # Few, because the first line may well be as long as the claim.
            heads = self._head(found, _without_share(terms), after, min(taking.wanted(), _HEADS), taking.room)
            if not heads:
                return taking.taken, not are_all_promoted
            for head in heads:
                if taking.goes_on():
                    self._take_line(taking, head, now, terms)
                    after = seq_in(head)
                    begun += 1
        return taking.taken, len(taking.taken) < limit and not is_spent(terms.budget)

    def _take_line(self, taking: _Taking, head: Row, now: int, terms: Terms) -> None:
        """From its first message on, until one is hidden, or the claim has enough."""
        session, queue, group = self._session, taking.queue, group_in(head)
        rows = [head]
        while rows:
            rows = self._affordable(queue, rows, now, terms)
            if not rows:
                return
            delivered = self._judge(queue, rows, now, terms)
            self._hold(delivered, now, terms)
            if not terms.until:
                session.stand_in_line(queue, [seq_in(row) for row in delivered], now)
            left_out = len(rows) - len(delivered)
            taking.add(delivered, left_out, size_of(delivered) if terms.reads else 0)
            if group is None or not taking.goes_on() or (left_out and _keeps_dead_letters(queue)):
                return
            last = seq_in(rows[-1])
            rows = [] if delivered else self._dead_in_line(taking, group, last, now, terms)
            rows = rows or self._next_in_line(taking, group, last, now, terms)

    def _dead_in_line(self, taking: _Taking, group: bytes, after: int, now: int, terms: Terms) -> list[Row]:
        """Where one message cannot be delivered, those behind it may be as old: up to a step of them, as `_clear`."""
        queue, lines = taking.queue, self._session.lines
        if _keeps_dead_letters(queue):
            return []
        seqs = lines.following(queue, group, after, taking.most_to_leave_out(), now)
        rows = lines.measured(queue, seqs) if seqs else []
        return list(takewhile(lambda row: self._verdict(queue, row, now, terms) is not Verdict.DELIVER, rows))

    def _next_in_line(self, taking: _Taking, group: bytes, after: int, now: int, terms: Terms) -> list[Row]:
        """A dead letter that stays in its queue keeps back those behind it: there, one is taken at a time."""
        queue, lines = taking.queue, self._session.lines
        limit = 1 if _keeps_dead_letters(queue) else taking.wanted()
        seqs = lines.following(queue, group, after, limit, now)
        if not seqs:
            return []
        return lines.read(queue, seqs, taking.room) if terms.reads else lines.measured(queue, seqs)

    def _head(self, queue: Queue, terms: Terms, after: int, limit: int, room: int) -> list[Row]:
        """The oldest ready messages, which no other unit can claim before this one ends."""
        if terms.share is not None:
            return self._own_share_first(queue, terms.share, after, limit, room)
        engine, params = self._session.engine, (queue.number, after, limit)
        if terms.reads:
            return engine.rows_within(self._sql.head, params, room)
        return engine.rows(self._sql.measured_head, params)

    def _own_share_first(self, queue: Queue, share: Share, after: int, limit: int, room: int) -> list[Row]:
        """Of the ready messages, those of the share; where they are too few, the oldest of the others as well.

        The share is looked for only among the first, or a queue of a million messages would be read for each claim.
        """
        engine = self._session.engine
        few = min(max(limit, self._session.limits.share_rows), limit * share.among * 2)
        ready = engine.rows(self._sql.ready, (queue.number, after, few))
        own = [seq for (seq,) in ready if seq % share.among == share.rank]
        others = [seq for (seq,) in ready if seq % share.among != share.rank]
        chosen = engine.listed((own + others)[:limit])
        return engine.rows_within(self._sql.chosen, (chosen, queue.number), room)

    def _judge(self, queue: Queue, rows: list[Row], now: int, terms: Terms, has_notes: bool = True) -> list[Row]:
        """The rows to deliver; all others leave the queue here. `has_notes` says whether twins of the queue may have
        been left over."""
        settings = queue.settings
        collapses = settings.dedup is Dedup.CLAIM and bool(rows)
        if self._are_all_delivered(queue, rows, now, terms):
            if collapses:
                seqs = list(map(seq_in, rows))
                gone = self._twins.collapse(queue, seqs, set(seqs), now, has_notes)
                return [row for row in rows if seq_in(row) not in gone]
            return rows
        judged = [(row, self._verdict(queue, row, now, terms)) for row in rows]
        if collapses:
            # Only what is handed out takes its twins along: a message that has expired must not.
            wanted = {seq_in(row) for row, verdict in judged if verdict is Verdict.DELIVER}
            gone = self._twins.collapse(queue, list(map(seq_in, rows)), wanted, now, has_notes)
            judged = [(row, verdict) for row, verdict in judged if seq_in(row) not in gone]
        delivered: list[Row] = []
        others: dict[Verdict, list[int]] = {}
        for row, verdict in judged:
            if verdict is Verdict.DELIVER:
                delivered.append(row)
            else:
                others.setdefault(verdict, []).append(seq_in(row))
        for verdict, seqs in others.items():
            if verdict is Verdict.DEAD_LETTER and settings.redrive is not None:
                dead_letters = self._session.queue(settings.redrive.dead_letter_queue)
                self._moves.carry_over(queue, dead_letters, seqs, Outcome.DEAD_LETTERED, now)
            else:
                self._session.finish(queue.number, seqs, _FINISHED[verdict], now)
        return delivered

    def _affordable(self, queue: Queue, rows: list[Row], now: int, terms: Terms) -> list[Row]:
        """The rows that the claim still comes to. None where the next one to deliver is too much: then the budget is
        spent."""
        budget = terms.budget
        if budget is None:
            return rows
        found = budget.affordable(rows, lambda row: self._verdict(queue, row, now, terms) is Verdict.DELIVER)
        if len(found) == len(rows):
            return rows
        if self._session.engine.shared:
            self._session.stirred.add(queue.name)  # others have passed over what is not taken after all
        if queue.settings.dedup is Dedup.CLAIM and found:
            return found  # a twin among them is not delivered and costs nothing: that shows when the claim looks again
        if queue.settings.dedup is Dedup.CLAIM and self._twins.is_left_over(seq_in(rows[0])):
            return rows[:1]
        budget.is_spent = True
        return found

    def _clear(self, queue: Queue, after: int, now: int, terms: Terms, step: int) -> int:
        """Where one message cannot be delivered, a million behind it may be as old: take up to `step` away at once.

        Returns the number of the last message seen.
        """
        rows = self._session.engine.rows(self._sql.measured_head, (queue.number, after, step))
        dead = list(takewhile(lambda row: self._verdict(queue, row, now, terms) is not Verdict.DELIVER, rows))
        self._judge(queue, dead, now, terms)
        return int(seq_in(dead[-1])) if dead else after

    @staticmethod
    def _are_all_delivered(queue: Queue, rows: list[Row], now: int, terms: Terms) -> bool:
        """The usual case, told by the oldest: nothing is expired, nothing has a deadline or was received too often."""
        oldest = min(map(sent_at_in, rows), default=now)
        most = max(map(receives_in, rows), default=0)
        has_deadline = terms.heeds_deadlines and not _NONE.issuperset(map(deadline_in, rows))
        return not has_deadline and policy.judge(queue.settings, now, oldest, most, None) is Verdict.DELIVER

    @staticmethod
    def _verdict(queue: Queue, row: Row, now: int, terms: Terms) -> Verdict:
        deadline_at = deadline_in(row) if terms.heeds_deadlines else None
        return policy.judge(queue.settings, now, sent_at_in(row), receives_in(row), deadline_at)

    def _hold(self, rows: Sequence[Row], now: int, terms: Terms) -> None:
        if not rows:
            return
        engine, sql = self._session.engine, self._sql
        seqs = list(map(seq_in, rows))
        if terms.to_deadline:
            statement, which = at_once(engine, sql.hold_to_deadline, seqs)
            engine.later(statement, (now, terms.until, now, now, *which))
        elif terms.reads:
            statement, which = at_once(engine, sql.hold, seqs)
            engine.later(statement, (terms.until, now, now, *which))
        else:
            self._hold_runs(runs_of(seqs), terms.until, now)
        if terms.budget is not None:
            terms.budget.spend(rows)

    def _hold_runs(self, runs: Sequence[Run], until: int, now: int) -> None:
        engine = self._session.engine
        for statement, _, which in each_run(engine, self._sql.hold, runs):
            engine.later(statement, (until, now, now, *which))

    def _delivered(self, queue: Queue, rows: Sequence[Row], now: int, terms: Terms) -> list[Message]:
        """The messages as they are after their claim."""
        until, to_deadline = terms.until or now, terms.to_deadline
        origin, name = self._session.origin, queue.name
        messages: list[Message] = []
        # Messages that were sent together stand together, and their ids begin alike.
        begun_at, beginning = -1, ""
        for (
            seq,
            body,
            content_type,
            attributes,
            sent_at,
            _,
            receives,
            claim,
            deadline_at,
            came_from,
            group,
            first_claimed_at,
        ) in rows:
            if sent_at != begun_at:
                begun_at, beginning = sent_at, before_seq(origin, sent_at)
            messages.append(
                Message(
                    beginning + "%012x" % seq,  # noqa: UP031 - see `ids`
                    seq,
                    name,
                    body,
                    content_type,
                    attributes and decode_attributes(attributes),
                    sent_at,
                    deadline_at if to_deadline and deadline_at is not None and deadline_at > now else until,
                    receives + 1,
                    claim + 1,
                    deadline_at,
                    came_from,
                    group and group_text(group),
                    now if first_claimed_at is None else first_claimed_at,
                )
            )
        return messages
