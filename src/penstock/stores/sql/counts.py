"""How many messages there are in queues, at a cost that does not grow with their depth."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import policy
from penstock.model import Count, Queue, Tally
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import IS_CLAIMED, Session

# Queues that one statement looks at.
_TOGETHER = 20


class CountVerbs:
    session: Session

    def count(self, queue: str, now: int, limit: int) -> Count:
        [count] = self.counts([self.session.queue(queue)], now, limit)
        return count

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        tallies = self._tallies([queue.number for queue in queues])
        seen: dict[int, Row] = {}
        for start in range(0, len(queues), _TOGETHER):
            rows = self._look_at(queues[start : start + _TOGETHER], now, limit)
            seen |= {number: row for number, *row in rows}
        sent_at = self._instants({seq for row in seen.values() for seq in row[2:] if seq is not None})
        counts = []
        for queue in queues:
            waiting, claimed, *oldest = seen[queue.number]
            waits, has_run_out, ready = [sent_at.get(seq) for seq in oldest]
            backing_off = self._backing_off(queue, now, limit)
            total = tallies[queue.number].arrived - tallies[queue.number].departed
            counts.append(
                Count(
                    total=total,
                    ready=total - int(waiting) - backing_off,
                    delayed=int(waiting) - int(claimed) + backing_off,
                    claimed=int(claimed),
                    exact=int(waiting) < limit and backing_off < limit,
                    oldest_sent_at=_earliest(waits, has_run_out, ready),
                    oldest_ready_sent_at=_earliest(has_run_out, ready),
                )
            )
        return counts

    def _look_at(self, queues: Sequence[Queue], now: int, limit: int) -> list[Row]:
        """Of each queue: its number; how many messages are delayed or claimed, and how many of them are claimed; then
        the oldest of these, the oldest whose delay or claim has run out, and the oldest of all others.

        What has run out does not stand by age until a claim comes along: up to the limit, all of it is looked at.
        """
        walk, age = self.session.engine.walk, self.session.engine.age
        one = f"""SELECT ?, waiting, claimed, oldest,
                    (SELECT min(seq) FROM (SELECT seq FROM {walk} WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
                                           ORDER BY ready_at LIMIT ?) AS run_out),
                    (SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 ORDER BY {age} LIMIT 1)
                  FROM (SELECT count(*) AS waiting, min(seq) AS oldest,
                               coalesce(sum(CASE WHEN {IS_CLAIMED} THEN 1 ELSE 0 END), 0) AS claimed
                        FROM (SELECT seq, receives, claim FROM {walk} WHERE queue = ? AND ready_at > ?
                              ORDER BY ready_at LIMIT ?) AS held) AS counted"""
        params: list[int] = []
        for queue in queues:
            number = queue.number
            params += (number, number, now, limit, number, number, now, limit)
        return self.session.engine.rows(" UNION ALL ".join([one] * len(queues)), params)

    def _backing_off(self, queue: Queue, now: int, limit: int) -> int:
        """How many claims have run out whose messages nobody has put off yet."""
        if queue.settings.backoff is None:
            return 0
        rows = self.session.engine.rows(
            f"""SELECT ready_at, receives FROM message
                WHERE queue = ? AND ready_at > ? AND ready_at <= ? AND {IS_CLAIMED} ORDER BY ready_at DESC LIMIT ?""",
            (queue.number, max(0, now - queue.settings.backoff.most_ms), now, limit),
        )
        return sum(ready_at + policy.backoff_ms(queue.settings, receives) > now for ready_at, receives in rows)

    def _instants(self, seqs: set[int]) -> dict[int, int]:
        engine = self.session.engine
        rows = engine.rows(f"SELECT seq, sent_at FROM message WHERE {engine.among('seq')}", (engine.listed(seqs),))
        return dict(rows)

    def tally(self, queue: str) -> Tally:
        number = self.session.queue(queue).number
        return self._tallies([number])[number]

    def _tallies(self, numbers: Sequence[int]) -> dict[int, Tally]:
        engine = self.session.engine
        rows = engine.rows(
            f"SELECT queue, sum(arrived), sum(departed) FROM tally WHERE {engine.among('queue')} GROUP BY queue",
            (engine.listed(numbers),),
        )
        written = {queue: (int(arrived), int(departed)) for queue, arrived, departed in rows}
        tallies = {}
        for number in numbers:
            arrived, departed = written.get(number, (0, 0))
            more_arrived, more_departed = self.session.fresh_tally(number)
            tallies[number] = Tally(arrived + more_arrived, departed + more_departed)
        return tallies


def _earliest(*instants: int | None) -> int | None:
    return min((instant for instant in instants if instant is not None), default=None)
