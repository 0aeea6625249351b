"""The ledger, page by page: all of it, or the rows of a queue, of a message, or of a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from penstock import ids, limits
from penstock.model import LedgerFilter, LedgerRow, Outcome
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import Session

_COLUMNS = """l.number, q.name, l.seq, l.sent_at, l.first_claimed_at, l.last_claimed_at, l.finished_at,
              l.receives, l.outcome, l.size, l.body_hash, l.content_type, l.body"""
_MEASURED = "SELECT number, CASE WHEN body IS NULL THEN 0 ELSE size END FROM"
# Queues that have had one name, looked at by one statement.
_TOGETHER = 20


class LedgerVerbs:
    session: Session

    def read_ledger(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        end = self.session.engine.ledger_end()
        if wanted is None:
            return self.ledger_rows(after, end, limit)
        if wanted.since is not None:
            after = max(after, self._last_before(wanted.since - limits.LEDGER_DISORDER_MS))
        if wanted.before is not None:
            end = min(end, self._last_before(wanted.before + limits.LEDGER_DISORDER_MS))
        if wanted.id is not None:
            return self._of_message(after, end, limit, wanted)
        where, params = "number > ? AND number <= ?", [after, end]
        if wanted.since is not None:
            where, params = f"{where} AND finished_at >= ?", [*params, wanted.since]
        if wanted.before is not None:
            where, params = f"{where} AND finished_at < ?", [*params, wanted.before]
        if wanted.queue is None:
            return self._read(self._measure([f"ledger WHERE {where}"], params, limit))
        return self._read(self._of_queue(wanted.queue, where, params, limit))

    def ledger_rows(self, after: int, through: int, limit: int) -> list[LedgerRow]:
        """Those after a number and through another, until their bodies come to what one answer may hold."""
        return self._read(self._measure(["ledger WHERE number > ? AND number <= ?"], [after, through], limit))

    def _of_queue(self, name: str, where: str, params: Sequence[int], limit: int) -> list[Row]:
        """A name may have belonged to several queues, one after the other, and their rows stand in one order."""
        engine = self.session.engine
        numbers = [number for (number,) in engine.rows("SELECT number FROM queue WHERE name = ?", (name,))]
        measured: list[Row] = []
        for start in range(0, len(numbers), _TOGETHER):
            some = numbers[start : start + _TOGETHER]
            parts = [f"{engine.ledger_of_queue} WHERE queue = ? AND {where}"] * len(some)
            measured += self._measure(parts, [value for number in some for value in (number, *params)], limit)
        return sorted(measured)[:limit]

    def _of_message(self, after: int, end: int, limit: int, wanted: LedgerFilter) -> list[LedgerRow]:
        """There are as many as it has left queues."""
        seq = ids.seq_of(wanted.id or "")
        found = (
            []
            if seq is None
            else self._measure(["ledger WHERE seq = ? AND number > ? AND number <= ?"], [seq, after, end], limit)
        )
        since, before = wanted.since or 0, ids.SEQ_MAX if wanted.before is None else wanted.before
        return [
            row
            for row in self._read(found)
            if row.id == (wanted.id or "").lower()
            and wanted.queue in (None, row.queue)
            and since <= row.finished_at < before
        ]

    def _measure(self, parts: Sequence[str], params: Sequence[int], limit: int) -> list[Row]:
        """The numbers of the first rows of each part, and the lengths of their bodies."""
        each = len(params) // len(parts)
        selects = [f"SELECT * FROM ({_MEASURED} {part} ORDER BY number LIMIT ?) AS part" for part in parts]
        given: list[int] = []
        for start in range(0, len(params), each):
            given += (*params[start : start + each], limit)
        return sorted(self.session.engine.rows(" UNION ALL ".join(selects), given))

    def _read(self, measured: Sequence[Row]) -> list[LedgerRow]:
        """These rows, by number, until their bodies come to what one answer may hold."""
        if not measured:
            return []
        sizes = list(accumulate(int(size) for _, size in measured))
        fitting = measured[: bisect_left(sizes, limits.CLAIM_BYTES) + 1]
        engine = self.session.engine
        rows = engine.rows(
            f"""SELECT {_COLUMNS} FROM ledger AS l JOIN queue AS q ON q.number = l.queue
                WHERE {engine.among("l.number")} ORDER BY l.number""",
            (engine.listed(number for number, _ in fitting),),
        )
        return [self._row_of(row) for row in rows]

    def _row_of(self, row: Row) -> LedgerRow:
        return LedgerRow(
            number=row[0],
            queue=row[1],
            id=ids.make_id(self.session.origin, row[3], row[2]),
            sent_at=row[3],
            first_claimed_at=row[4],
            last_claimed_at=row[5],
            finished_at=row[6],
            receives=row[7],
            outcome=Outcome(row[8]),
            size=row[9],
            body_hash=row[10],
            content_type=row[11],
            body=row[12],
        )

    def _last_before(self, instant: int) -> int:
        """The number after which rows have finished at that instant or later: found by halves, as in a dictionary."""
        low, high = 0, int(self.session.scalar("SELECT coalesce(max(number), 0) FROM ledger"))
        while low < high:
            middle = (low + high) // 2
            rows = self.session.engine.rows(
                "SELECT number, finished_at FROM ledger WHERE number > ? ORDER BY number LIMIT 1", (middle,)
            )
            if not rows or rows[0][1] >= instant:
                high = middle
            else:
                low = rows[0][0]
        return low
