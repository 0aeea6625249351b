"""Looks at messages, counts and the ledger that change nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from penstock import limits
from penstock.model import Count, LedgerFilter, LedgerRow, Message, PeekAfter, Queue, Tally
from penstock.stores.memory.state import MessageRow, State


class ViewVerbs:
    _state: State

    def find_queue(self, name: str) -> Queue | None:
        raise NotImplementedError

    def _queue(self, name: str) -> Queue:
        raise NotImplementedError

    def _message(self, queue: Queue, row: MessageRow) -> Message:
        raise NotImplementedError

    def _backs_off(self, queue: Queue, row: MessageRow, now: int) -> bool:
        raise NotImplementedError

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        found = self._queue(queue)
        start = after or PeekAfter(0, 0)
        messages: list[Message] = []
        room = limits.CLAIM_BYTES
        for row in islice(self._state.in_order(found.number, start.ready_at, start.seq), limit):
            messages.append(self._message(found, row))
            room -= len(row.draft.body)
            if room <= 0:
                break
        return messages

    def count(self, queue: str, now: int, limit: int) -> Count:
        [count] = self.counts([self._queue(queue)], now, limit)
        return count

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        return [self._count(queue, now, limit) for queue in queues]

    def _count(self, queue: Queue, now: int, limit: int) -> Count:
        number = queue.number
        messages, order = self._state.messages, self._state.order[number]
        standing = [messages[seq] for ready_at, seq in islice(order, 1) if ready_at == 0]
        held = takewhile(lambda place: place[0] > now, reversed(order))
        waiting = [messages[seq] for _, seq in islice(held, limit)]
        due = takewhile(lambda row: row.ready_at <= now, self._state.in_order(number, ready_at=1))
        run_out = list(islice(due, limit))
        backing_off = sum(self._backs_off(queue, row, now) for row in run_out)
        claimed = sum(not row.is_delayed for row in waiting)
        return Count(
            total=len(order),
            ready=len(order) - len(waiting) - backing_off,
            delayed=len(waiting) - claimed + backing_off,
            claimed=claimed,
            exact=len(waiting) < limit,
            oldest_sent_at=min((row.sent_at for row in (*standing, *run_out, *waiting)), default=None),
            oldest_ready_sent_at=min((row.sent_at for row in (*standing, *run_out)), default=None),
        )

    def next_due(self, queue: str, now: int) -> int | None:
        found = self.find_queue(queue)
        if found is None:
            return None
        following = next(self._state.in_order(found.number, ready_at=now + 1), None)
        return None if following is None or following.ready_at == limits.SHIPPED else following.ready_at

    def ledger(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        rows = self._state.ledger
        start = bisect_right(rows, after, key=lambda row: row.number)
        found = (row for row in islice(rows, start, None) if wanted is None or _is_wanted(row, wanted))
        return within_budget(islice(found, limit))

    def tally(self, queue: str) -> Tally:
        row = self._state.queues[self._queue(queue).number]
        return Tally(row.arrived, row.departed)


def _is_wanted(row: LedgerRow, wanted: LedgerFilter) -> bool:
    return (
        wanted.queue in (None, row.queue)
        and (wanted.id is None or wanted.id.lower() == row.id)
        and (wanted.since is None or row.finished_at >= wanted.since)
        and (wanted.before is None or row.finished_at < wanted.before)
    )


def within_budget(rows: Iterable[LedgerRow]) -> list[LedgerRow]:
    """The first rows, until their bodies come to what one answer may hold."""
    found: list[LedgerRow] = []
    room = limits.CLAIM_BYTES
    for row in rows:
        found.append(row)
        room -= len(row.body or b"")
        if room <= 0:
            break
    return found
