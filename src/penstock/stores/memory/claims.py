"""How messages are handed out: to anyone, for a shipment, or to a consumer that prefers its share of the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace

from penstock import policy
from penstock.model import Claimed, Dedup, Groups, Message, Outcome, Queue
from penstock.policy import Verdict
from penstock.stores.figures import CLAIMED, REDELIVERED, count
from penstock.stores.memory import collapses
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import MessageRow

_FINISHED = {Verdict.EXPIRE: Outcome.EXPIRED, Verdict.FAIL: Outcome.FAILED}


class Share(Struct, frozen=True):
    """The messages whose number leaves the remainder `rank` when it is divided by `among`."""

    rank: int
    among: int


class ClaimTerms(Struct, frozen=True):
    """How messages are claimed: until when, 0 where they stay ready; how many bytes of them; whether until their
    deadline where that lies ahead; whether those past their deadline fail; whose share comes first; and how long their
    bodies may be together, but for the first, unless the claim goes on and `has_some`."""

    until: int
    room: int
    to_deadline: bool = False
    heeds_deadlines: bool = True
    share: Share | None = None
    budget: int | None = None
    has_some: bool = False


def claim(session: Session, queue: Queue, limit: int, now: int, terms: ClaimTerms) -> Claimed:
    if queue.paused_at is not None:
        return Claimed([])
    return _Claim(session, queue, limit, now, terms).run()


class _Claim:
    """One claim under way."""

    def __init__(self, session: Session, queue: Queue, limit: int, now: int, terms: ClaimTerms) -> None:
        self._session = session
        self._tables = session.tables
        self._queue = queue
        self._limit = limit
        self._now = now
        self._terms = terms
        self._room = terms.room
        self._budget = terms.budget
        self._has_some = terms.has_some
        self._is_full = False
        self._collapsed = 0
        self._is_cut = False
        self._messages: list[Message] = []

    def run(self) -> Claimed:
        self._session.promote(self._queue, self._now)
        collapses.go_on(self._tables, self._now, self._session.limits.collapse_rows, self._queue.number)
        if self._queue.settings.groups is Groups.FIFO:
            self._take_lines()
        elif self._terms.share is None:
            self._take(self._session.ready(self._queue))
        else:
            self._take_share_first(self._terms.share)
        self._session.mend_lines(self._now)
        is_short = len(self._messages) < self._limit
        return Claimed(self._messages, more=is_short and (self._is_cut or self._room <= 0))

    @property
    def _goes_on(self) -> bool:
        return len(self._messages) < self._limit and self._room > 0 and not self._is_cut and not self._is_full

    def _take(self, rows: Iterable[MessageRow]) -> None:
        ready = iter(rows)
        while self._goes_on and (row := next(ready, None)) is not None:
            if self._tables.messages.get(row.seq) is not row:
                continue  # it has collapsed behind one that was delivered
            if not self._collapses(row):
                verdict = self._verdict(row)
                if verdict is Verdict.DELIVER and self._is_too_long(row):
                    self._is_full = True
                elif verdict is Verdict.DELIVER:
                    self._deliver(row)
                else:
                    self._finish(row, verdict)

    def _take_lines(self) -> None:
        """Of each line that has a ready message, the oldest such line first, as many as may be taken. Shares would tear
        lines apart."""
        taken: set[str] = set()
        for first in self._session.ready(self._queue):
            if not self._goes_on:
                break
            group = first.draft.group
            if group is None:
                self._take([first])
            elif group not in taken:  # without a hold, those behind the first are ready now as well
                taken.add(group)
                self._take(self._free_in_line(group))

    def _free_in_line(self, group: str) -> Iterator[MessageRow]:
        """From the first message of a line up to one that is hidden."""
        for row in takewhile(self._is_free, self._tables.in_line((self._queue.number, group))):
            yield row
            again = self._tables.messages.get(row.seq)
            if again is not None and again.queue == row.queue and again.receives == 0:
                break  # a dead letter of a queue that keeps its own is passed over, and those behind it wait

    def _is_free(self, row: MessageRow) -> bool:
        delayed_until = policy.line_ready_at(self._queue.settings, self._now, row.sent_at, row.receives)
        return not policy.is_hidden(row.ready_at) and not (row.ready_at and delayed_until)

    def _take_share_first(self, share: Share) -> None:
        after = 0
        while self._goes_on and (rows := self._own_share_first(share, after)):
            before = len(self._messages)
            self._take(rows)
            after = rows[-1].seq
            if len(self._messages) == before:
                after = self._clear(after)

    def _own_share_first(self, share: Share, after: int) -> list[MessageRow]:
        """Of the ready messages, those of the share; where they are too few, the oldest of the others as well."""
        limit = self._limit - len(self._messages)
        look = min(max(limit, self._session.limits.share_rows), limit * share.among * 2)
        ready = list(islice(self._ready_after(after), look))
        own = [row for row in ready if row.seq % share.among == share.rank]
        others = [row for row in ready if row.seq % share.among != share.rank]
        room, found = self._room, []
        for row in sorted((own + others)[:limit], key=lambda row: row.seq):
            if room <= 0:
                break
            found.append(row)
            room -= row.size
        return found

    def _clear(self, after: int) -> int:
        """Where no message of a page can be delivered, those behind it may be as old: they leave as well. Returns the
        number of the last message seen."""
        for row in takewhile(lambda row: self._verdict(row) is not Verdict.DELIVER, self._ready_after(after)):
            after = row.seq
            if not self._collapses(row):
                self._finish(row, self._verdict(row))
        return after

    def _ready_after(self, after: int) -> Iterable[MessageRow]:
        return takewhile(lambda row: row.ready_at == 0, self._tables.in_order(self._queue.number, 0, after))

    def _collapses(self, row: MessageRow) -> bool:
        """Whether a message is a twin that an earlier claim has left: then it is gone now, or the claim ends here."""
        if self._queue.settings.dedup is not Dedup.CLAIM or not collapses.is_doomed(self._tables, row):
            return False
        if self._collapsed == self._session.limits.collapse_rows:
            self._is_cut = True
        else:
            self._tables.depart(row, Outcome.COLLAPSED, self._now)
            self._collapsed += 1
        return True

    def _is_too_long(self, row: MessageRow) -> bool:
        return self._has_some and self._budget is not None and len(row.draft.body) > self._budget

    def _verdict(self, row: MessageRow) -> Verdict:
        deadline_at = row.draft.deadline_at if self._terms.heeds_deadlines else None
        return policy.judge(self._queue.settings, self._now, row.sent_at, row.receives, deadline_at)

    def _finish(self, row: MessageRow, verdict: Verdict) -> None:
        redrive = self._queue.settings.redrive
        if verdict is Verdict.DEAD_LETTER and redrive is not None:
            dead_letters = self._session.queue(redrive.dead_letter_queue)
            self._session.carry_over(row, dead_letters, Outcome.DEAD_LETTERED, self._now)
        else:
            self._tables.depart(row, _FINISHED[verdict], self._now)

    def _deliver(self, row: MessageRow) -> None:
        now, until, deadline_at = self._now, self._terms.until, row.draft.deadline_at
        if self._terms.to_deadline and deadline_at is not None and deadline_at > now:
            until = deadline_at
        if self._queue.settings.dedup is Dedup.CLAIM and row.receives == 0:
            collapses.collapse(self._tables, row, now, self._session.limits.collapse_rows)
        delivered = replace(
            row,
            ready_at=until,
            receives=row.receives + 1,
            claim=row.claim + 1,
            first_claimed_at=now if row.first_claimed_at is None else row.first_claimed_at,
            last_claimed_at=now,
            put_off=False,
        )
        self._tables.put_message(delivered)
        count(self._tables.happened, self._queue.number, CLAIMED, 1)
        if row.receives:
            count(self._tables.happened, self._queue.number, REDELIVERED, 1)
        self._messages.append(self._session.message(self._queue, replace(delivered, ready_at=until or now)))
        self._room -= row.size
        self._has_some = True
        if self._budget is not None:
            self._budget -= len(row.draft.body)
            self._is_full = self._budget <= 0
