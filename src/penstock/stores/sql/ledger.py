"""The ledger, page by page: all of it, or the rows of a queue, of a message, or of a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from penstock import ids
from penstock.model import LedgerFilter, LedgerRow, LedgerScan, LedgerSize, Outcome, Tally
from penstock.policy import LEDGER_ROW_BYTES
from penstock.stores.sql.counts import Counts
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import repeated

# Queues that have had one name, looked at by one statement.
_TOGETHER = 20
_MEASURED = "SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END"
# What finished at any time at all did so in between.
_FIRST, _LAST = 0, 2**62


@dataclass(frozen=True, slots=True)
class LedgerSql:
    # The numbers of rows, and the lengths of their bodies.
    measure: str = f"{_MEASURED} FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
    measure_by_time: str = f"""
        {_MEASURED} FROM ledger WHERE number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
        ORDER BY number LIMIT ?"""
    measure_queues: tuple[str, ...] = repeated(
        f"""
        SELECT * FROM (
            {_MEASURED} FROM {{ledger_of_queue}}
            WHERE queue = ? AND number > ? AND number <= ? AND finished_at >= ? AND finished_at < ?
            ORDER BY number LIMIT ?) AS part""",
        _TOGETHER,
    )
    measure_message: str = f"""
        {_MEASURED} FROM ledger WHERE seq = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
    # The same, the latest first, with what they are filtered by.
    latest: str = f"""
        {_MEASURED}, outcome, finished_at FROM ledger WHERE number > ? AND number <= ? ORDER BY number DESC LIMIT ?"""
    latest_of_queues: tuple[str, ...] = repeated(
        f"""
        SELECT * FROM (
            {_MEASURED}, outcome, finished_at FROM {{ledger_of_queue}}
            WHERE queue = ? AND number > ? AND number <= ? ORDER BY number DESC LIMIT ?) AS part""",
        _TOGETHER,
    )
    read: str = """
        SELECT l.number, q.name, l.seq, l.sent_at, l.first_claimed_at, l.last_claimed_at, l.finished_at,
               l.receives, l.outcome, l.size, l.body_hash, l.content_type, l.body
        FROM ledger AS l JOIN queue AS q ON q.number = l.queue
        WHERE {among:l.number} ORDER BY l.number"""
    queues_of_name: str = "SELECT number FROM queue WHERE name = ?"
    last: str = "SELECT coalesce(max(number), 0) FROM ledger"
    after: str = "SELECT number, finished_at FROM ledger WHERE number > ? ORDER BY number LIMIT 1"
    oldest: str = f"{_MEASURED}, finished_at FROM ledger ORDER BY number LIMIT ?"
    delete: str = "DELETE FROM ledger WHERE {among:number}"
    # How much it holds. One server at a time counts, or deletes.
    size: str = "SELECT through, amount, bytes FROM ledger_size"
    size_locked: str = "SELECT through, amount, bytes FROM ledger_size {lock_free}"
    uncounted: str = f"""
        SELECT count(*), coalesce(max(number), 0), coalesce(sum(size), 0) FROM
        ({_MEASURED} AS size FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?) AS part"""
    keep_size: str = "UPDATE ledger_size SET through = ?, amount = ?, bytes = ?"


def _times(wanted: LedgerFilter) -> tuple[int, int]:
    since = _FIRST if wanted.since is None else wanted.since
    return since, _LAST if wanted.before is None else wanted.before


class Ledger:
    __slots__ = ("_counts", "_session", "_sql")

    def __init__(self, session: Session, counts: Counts) -> None:
        self._session = session
        self._counts = counts
        self._sql = session.engine.statements.of(LedgerSql)

    def tally(self, queue: str) -> Tally:
        return self._counts.tally(queue)

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        end = self._session.engine.ledger_end()
        if wanted is None:
            return self.between(after, end, limit)
        after, end = self._bounds(after, end, wanted)
        if wanted.id is not None:
            return self._of_message(after, end, limit, wanted, wanted.id)
        which = (after, end, *_times(wanted), limit)
        if wanted.queue is not None:
            return self._read(sorted(self._of_queue(self._sql.measure_queues, wanted.queue, which))[:limit])
        return self._read(self._session.engine.rows(self._sql.measure_by_time, which))

    def latest(
        self,
        below: int | None,
        limit: int,
        rows: int,
        wanted: LedgerFilter,
        outcomes: Collection[Outcome] | None = None,
    ) -> LedgerScan:
        end = self._session.engine.ledger_end()
        after, end = self._bounds(0, end if below is None else min(end, below - 1), wanted)
        if wanted.id is not None:
            of_message = self._of_message(after, end, rows, wanted, wanted.id)[::-1]
            found = [row for row in of_message if outcomes is None or row.outcome in outcomes]
            return LedgerScan(found[:limit], len(found), found[limit - 1].number if len(found) > limit else None)
        which = (after, end, rows)
        if wanted.queue is not None:
            looked_at = self._of_queue(self._sql.latest_of_queues, wanted.queue, which)
        else:
            looked_at = self._session.engine.rows(self._sql.latest, which)
        looked_at = sorted(looked_at, reverse=True)[:rows]
        since, before = _times(wanted)
        found_rows: list[Row] = []
        examined, room, place = 0, self._session.limits.page_bytes, 0
        for number, size, outcome, finished_at in looked_at:
            if len(found_rows) == limit or room <= 0:
                break
            examined, place = examined + 1, number
            if since <= finished_at < before and (outcomes is None or outcome in outcomes):
                found_rows.append((number, size))
                room -= int(size)
        is_end = examined == len(looked_at) < rows
        return LedgerScan(self._read(found_rows)[::-1], examined, None if is_end else place)

    def _bounds(self, after: int, end: int, wanted: LedgerFilter) -> tuple[int, int]:
        """The numbers between which rows of the wanted time stand."""
        disorder_ms = self._session.limits.ledger_disorder_ms
        if wanted.since is not None:
            after = max(after, self._last_before(wanted.since - disorder_ms))
        if wanted.before is not None:
            end = min(end, self._last_before(wanted.before + disorder_ms))
        return after, end

    def between(self, after: int, through: int, limit: int) -> list[LedgerRow]:
        """Those after a number and through another, until their bodies come to what one answer may hold."""
        return self._read(self._session.engine.rows(self._sql.measure, (after, through, limit)))

    def _of_queue(self, statements: Sequence[str], name: str, which: tuple[int, ...]) -> list[Row]:
        """A name may have belonged to several queues, one after the other, and their rows stand in one order: the
        caller sorts them, and takes the first."""
        engine = self._session.engine
        numbers = [number for (number,) in engine.rows(self._sql.queues_of_name, (name,))]
        measured: list[Row] = []
        for start in range(0, len(numbers), _TOGETHER):
            some = numbers[start : start + _TOGETHER]
            params = [value for number in some for value in (number, *which)]
            measured += engine.rows(statements[len(some) - 1], params)
        return measured

    def _of_message(self, after: int, end: int, limit: int, wanted: LedgerFilter, message_id: str) -> list[LedgerRow]:
        """There are as many as it has left queues."""
        seq = ids.seq_of(message_id)
        if seq is None:
            return []
        measured = self._session.engine.rows(self._sql.measure_message, (seq, after, end, limit))
        since, before = _times(wanted)
        return [
            row
            for row in self._read(measured)
            if row.id == message_id.lower() and wanted.queue in (None, row.queue) and since <= row.finished_at < before
        ]

    def _read(self, measured: Sequence[Row]) -> list[LedgerRow]:
        """These rows, by number, until their bodies come to what one answer may hold."""
        if not measured:
            return []
        sizes = list(accumulate(int(size) for _, size in measured))
        fitting = measured[: bisect_left(sizes, self._session.limits.page_bytes) + 1]
        engine, origin = self._session.engine, self._session.origin
        return [
            LedgerRow(
                number,
                queue,
                ids.make_id(origin, sent_at, seq),
                sent_at,
                first_claimed_at,
                last_claimed_at,
                finished_at,
                receives,
                Outcome(outcome),
                size,
                body_hash,
                content_type,
                body,
            )
            for (
                number,
                queue,
                seq,
                sent_at,
                first_claimed_at,
                last_claimed_at,
                finished_at,
                receives,
                outcome,
                size,
                body_hash,
                content_type,
                body,
            ) in engine.rows(self._sql.read, (engine.listed(number for number, _ in fitting),))
        ]

    def _last_before(self, instant: int) -> int:
        """The number after which rows have finished at that instant or later: found by halves, as in a dictionary."""
        low, high = 0, int(self._session.scalar(self._sql.last))
        while low < high:
            middle = (low + high) // 2
            rows = self._session.engine.rows(self._sql.after, (middle,))
            if not rows:
                high = middle
                continue
            [(number, finished_at)] = rows
            if finished_at >= instant:
                high = middle
            else:
                low = number
        return low

    # How much it holds

    def measure(self, limit: int) -> int:
        engine, sql = self._session.engine, self._sql
        [(through, _, _)] = engine.rows(sql.size)
        # Mostly there is none, and a database over a network takes its time to say where the ledger ends.
        if not engine.rows(sql.after, (through,)):
            return 0
        end = engine.ledger_end()
        for through, amount, size in engine.rows(sql.size_locked):
            [(rows, last, bodies)] = engine.rows(sql.uncounted, (through, end, limit))
            if rows:
                size += int(bodies) + rows * LEDGER_ROW_BYTES
                engine.run(sql.keep_size, (last, amount + rows, size))
            return int(rows)
        return 0

    def size(self) -> LedgerSize:
        [(_, amount, size)] = self._session.engine.rows(self._sql.size)
        oldest = self._session.engine.rows(self._sql.oldest, (1,))
        return LedgerSize(amount, size, oldest[0][2] if oldest else None)

    def sweep(self, before: int, limit: int, most_bytes: int | None = None) -> int:
        """Delete rows that finished before an instant, and the oldest while there are too many."""
        engine, sql = self._session.engine, self._sql
        [(_, _, held)] = engine.rows(sql.size)
        most = held if most_bytes is None else most_bytes
        if limit <= 0 or (held <= most and not self._old(engine.rows(sql.oldest, (1,)), before, 0)):
            return 0
        for through, amount, size in engine.rows(sql.size_locked):
            old = self._old(engine.rows(sql.oldest, (limit,)), before, size - most)
            deleted = engine.run(sql.delete, (engine.listed(number for number, _ in old),))
            counted = [LEDGER_ROW_BYTES + body for number, body in old if number <= through]
            engine.run(sql.keep_size, (through, amount - len(counted), size - sum(counted)))
            return deleted
        return 0

    @staticmethod
    def _old(rows: list[Row], before: int, excess: int) -> list[tuple[int, int]]:
        """The numbers of those that are to go, and the lengths of their bodies."""
        old: list[tuple[int, int]] = []
        for number, body, finished_at in rows:
            if finished_at < before or excess > 0:
                old.append((number, body))
                excess -= LEDGER_ROW_BYTES + body
        return old
