"""How many messages there are in queues, at a cost that does not grow with their depth; and when the next comes due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock import limits, policy
from penstock.model import Count, Queue, Tally
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import repeated

# Queues that one statement looks at.
_TOGETHER = 20


@dataclass(frozen=True, slots=True)
class CountSql:
    # A row of `_Look` for each queue. What has run out does not stand by age until a claim comes along: up to the
    # limit, all of it is looked at.
    look: tuple[str, ...] = repeated(
        """
        SELECT ?, waiting, claimed, oldest,
            (SELECT min(seq) FROM (SELECT seq FROM {walk} WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
                                   ORDER BY ready_at LIMIT ?) AS run_out),
            (SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 ORDER BY {age} LIMIT 1),
            (SELECT seq FROM {walk} WHERE queue = ? AND ready_at = BEHIND ORDER BY {age} LIMIT 1)
        FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
                     coalesce(sum(CASE WHEN {is_claimed} THEN 1 ELSE 0 END), 0) AS claimed
              FROM (SELECT seq, receives, claim FROM {walk} WHERE queue = ? AND ready_at > ? AND ready_at < BEHIND
                    ORDER BY ready_at LIMIT ?) AS held) AS counted""".replace("BEHIND", str(limits.BEHIND)),
        _TOGETHER,
    )
    run_out: str = """
        SELECT ready_at, receives FROM message
        WHERE queue = ? AND ready_at > ? AND ready_at <= ? AND {is_claimed} ORDER BY ready_at DESC LIMIT ?"""
    sent_at: str = "SELECT seq, sent_at FROM message WHERE {among:seq}"
    tallies: str = "SELECT queue, sum(arrived), sum(departed) FROM tally WHERE {among:queue} GROUP BY queue"
    next_due: str = "SELECT min(ready_at) FROM message WHERE queue = ? AND ready_at > ? AND ready_at < ?"


class _Look(NamedTuple):
    """Of a queue: how many messages are delayed or claimed, and how many of them are claimed; then the oldest of these,
    the oldest whose delay or claim has run out, the oldest of all others, and the oldest behind others of its group."""

    queue: int
    waiting: int
    claimed: int
    oldest_waiting: int | None
    oldest_run_out: int | None
    oldest_ready: int | None
    oldest_behind: int | None


class Counts:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(CountSql)

    def count(self, queue: str, now: int, limit: int) -> Count:
        [count] = self.counts([self._session.queue(queue)], now, limit)
        return count

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        tallies = self._tallies([queue.number for queue in queues])
        looks: dict[int, _Look] = {}
        for start in range(0, len(queues), _TOGETHER):
            looks |= {look.queue: look for look in self._look_at(queues[start : start + _TOGETHER], now, limit)}
        oldest = [
            seq
            for look in looks.values()
            for seq in (look.oldest_waiting, look.oldest_run_out, look.oldest_ready, look.oldest_behind)
        ]
        sent_at = self._instants({seq for seq in oldest if seq is not None})
        counts = []
        for queue in queues:
            look, tally = looks[queue.number], tallies[queue.number]
            waiting, claimed = look.waiting, look.claimed
            oldest_ready = (look.oldest_run_out, look.oldest_ready, look.oldest_behind)
            ready_since = [sent_at.get(seq) for seq in oldest_ready if seq is not None]
            waiting_since = None if look.oldest_waiting is None else sent_at.get(look.oldest_waiting)
            backing_off, is_complete = self._backing_off(queue, now, limit)
            total = tally.arrived - tally.departed
            counts.append(
                Count(
                    total=total,
                    ready=total - waiting - backing_off,
                    delayed=waiting - claimed + backing_off,
                    claimed=claimed,
                    exact=waiting < limit and is_complete,
                    oldest_sent_at=_earliest([waiting_since, *ready_since]),
                    oldest_ready_sent_at=_earliest(ready_since),
                )
            )
        return counts

    def _look_at(self, queues: Sequence[Queue], now: int, limit: int) -> list[_Look]:
        params: list[int] = []
        for queue in queues:
            number = queue.number
            params += (number, number, now, limit, number, number, number, now, limit)
        rows = self._session.engine.rows(self._sql.look[len(queues) - 1], params)
        # A sum of MariaDB is a decimal number.
        return [_Look(queue, int(waiting), int(claimed), *oldest) for queue, waiting, claimed, *oldest in rows]

    def _backing_off(self, queue: Queue, now: int, limit: int) -> tuple[int, bool]:
        """How many claims have run out whose messages have not been put off yet, and whether these are all: behind the
        limit there may be more, also where none was found before it."""
        backoff = queue.settings.backoff
        if backoff is None:
            return 0, True
        params = (queue.number, max(0, now - backoff.most_ms), now, limit)
        rows = self._session.engine.rows(self._sql.run_out, params)
        lasting = sum(ready_at + policy.backoff_ms(queue.settings, receives) > now for ready_at, receives in rows)
        return lasting, len(rows) < limit

    def _instants(self, seqs: set[int]) -> dict[int, int]:
        return dict(self._session.engine.rows(self._sql.sent_at, (self._session.engine.listed(seqs),)))

    def tally(self, queue: str) -> Tally:
        number = self._session.queue(queue).number
        return self._tallies([number])[number]

    def _tallies(self, numbers: Sequence[int]) -> dict[int, Tally]:
        session = self._session
        rows = session.engine.rows(self._sql.tallies, (session.engine.listed(numbers),))
        written = {queue: (int(arrived), int(departed)) for queue, arrived, departed in rows}
        tallies = {}
        for number in numbers:
            arrived, departed = written.get(number, (0, 0))
            more_arrived, more_departed = session.fresh_tally(number)
            tallies[number] = Tally(arrived + more_arrived, departed + more_departed)
        return tallies

    def next_due(self, queue: str, now: int) -> int | None:
        found = self._session.find_queue(queue)
        if found is None or found.paused_at is not None:
            return None
        due: int | None = self._session.scalar(self._sql.next_due, (found.number, now, limits.SHIPPED))
        return due


def _earliest(instants: Sequence[int | None]) -> int | None:
    return min((instant for instant in instants if instant is not None), default=None)
