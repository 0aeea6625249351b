"""The figures of queues: totals, and the buckets of their history.

One table holds both: the totals of a queue are a bucket that never ends, of width 0. Counts are added, whichever server
they come from. A bucket of depths holds what was seen last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.model import Bucket, Depths, Sizes, Span, Totals
from penstock.stores.figures import EVER, MINUTE_MS, PLACES, WIDTHS, bucket_of, kept_since
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import Session

_COUNTS = Totals.__struct_fields__
_DEPTHS = ("ready_now", "delayed_now", "claimed_now", "oldest_sent_at")
_COLUMNS = ", ".join(("queue", "since", *_COUNTS, *_DEPTHS))
_KEY = "queue, width, since"
# Rows that one statement forgets.
_MOST_FORGOTTEN = 1_000


def _upsert(columns: tuple[str, ...], change: str) -> str:
    """Into a bucket that may be there: then each column changes so."""
    changes = ", ".join(change.replace("COLUMN", column) for column in columns)
    values = ", ".join("?" * (3 + len(columns)))
    return f"INSERT INTO figure ({_KEY}, {', '.join(columns)}) VALUES ({values}) {{if_there:{_KEY}}} {changes}"


@dataclass(frozen=True, slots=True)
class FigureSql:
    # A queue that is forgotten altogether was so with its figures.
    known: str = "SELECT number FROM queue WHERE {among:number}"
    add: str = _upsert(_COUNTS, "COLUMN = figure.COLUMN + {new:COLUMN}")
    sample: str = _upsert(_DEPTHS, "COLUMN = {new:COLUMN}")
    totals: str = f"""
        SELECT {_COLUMNS} FROM figure WHERE {{among:queue}} AND width = {EVER} AND since = 0"""
    # In two parts: for one condition on the pair, a database may read from the beginning.
    active_then: str = f"""
        SELECT {_COLUMNS} FROM figure WHERE width = {MINUTE_MS} AND since = ? AND queue > ?
        ORDER BY queue LIMIT ?"""
    active_later: str = f"""
        SELECT {_COLUMNS} FROM figure WHERE width = {MINUTE_MS} AND since > ? ORDER BY since, queue LIMIT ?"""
    history: str = f"""
        SELECT {_COLUMNS} FROM figure WHERE queue = ? AND width = ? AND since >= ? ORDER BY since"""
    old: str = "SELECT id FROM figure WHERE width = ? AND since < ? ORDER BY since LIMIT ?"
    forget_old: str = "DELETE FROM figure WHERE {among:id}"
    of_queue: str = "SELECT id FROM figure WHERE queue = ? AND width = ? LIMIT ?"


def _bucket_of(row: Row) -> Bucket:
    queue, since, *others = row
    ready, delayed, claimed, oldest = others[PLACES:]
    depths = None if ready is None else Depths(ready, delayed, claimed, oldest)
    return Bucket(queue, since, Totals(*others[:PLACES]), depths)


class Figures:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(FigureSql)

    # In one order, so that two units of two servers never wait for each other in a ring.

    def add(self, happened: Mapping[int, Sequence[int]], now: int) -> None:
        engine = self._session.engine
        known = sorted(number for (number,) in engine.rows(self._sql.known, (engine.listed(sorted(happened)),)))
        rows = [
            (queue, width, bucket_of(now, width), *happened[queue])
            for queue in known
            for width in (EVER, *WIDTHS.values())
        ]
        if rows:
            engine.many(self._sql.add, rows)

    def sample(self, depths: Mapping[int, Depths], now: int) -> None:
        rows = [
            (queue, width, bucket_of(now, width), seen.ready, seen.delayed, seen.claimed, seen.oldest_ready_sent_at)
            for queue, seen in sorted(depths.items())
            for width in WIDTHS.values()
        ]
        self._session.engine.many(self._sql.sample, rows)

    def totals(self, queues: Sequence[int]) -> dict[int, Totals]:
        engine = self._session.engine
        rows = engine.rows(self._sql.totals, (engine.listed(queues),))
        return {bucket.queue: bucket.totals for bucket in map(_bucket_of, rows)}

    def active(self, since: int, after: tuple[int, int], limit: int) -> list[Bucket]:
        engine, sql = self._session.engine, self._sql
        begun, queue = max(after, (since - 1, 0))
        rows = engine.rows(sql.active_then, (begun, queue, limit))
        if len(rows) < limit:
            rows += engine.rows(sql.active_later, (begun, limit - len(rows)))
        return [_bucket_of(row) for row in rows]

    def history(self, queue: int, span: Span, since: int) -> list[Bucket]:
        return [_bucket_of(row) for row in self._session.engine.rows(self._sql.history, (queue, WIDTHS[span], since))]

    def sizes(self) -> Sizes:
        return self._session.engine.sizes()

    def forget(self, queue: int) -> None:
        """Of a queue that is forgotten altogether: it has as many rows as its spans have buckets."""
        for width in (EVER, *WIDTHS.values()):
            self._forget(self._session.engine.rows(self._sql.of_queue, (queue, width, _MOST_FORGOTTEN)))

    def sweep(self, now: int, limit: int) -> int:
        freed = 0
        for span, width in WIDTHS.items():
            room = max(0, limit - freed)
            freed += self._forget(self._session.engine.rows(self._sql.old, (width, kept_since(now, span), room)))
        return freed

    def _forget(self, rows: Sequence[Row]) -> int:
        engine = self._session.engine
        if rows:
            engine.run(self._sql.forget_old, (engine.listed(number for (number,) in rows),))
        return len(rows)
