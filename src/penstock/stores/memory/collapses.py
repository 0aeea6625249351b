"""How twins collapse in the memory store: those of one claim in as many units as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from penstock.model import Outcome
from penstock.stores.memory.tables import MessageRow, Tables


def collapse(tables: Tables, first: MessageRow, now: int, limit: int) -> None:
    """Up to `limit` twins behind a message that is handed out for the first time. What is left is noted."""
    if first.dedup_key is None:
        return
    twins = (row for row in _twins(tables, first.queue, first.dedup_key) if row.seq > first.seq)
    if _finish(tables, twins, now, limit) == limit:
        noted = {**tables.collapsing, (first.queue, first.dedup_key): tables.last_seq}
        tables.replace("collapsing", noted)


def is_doomed(tables: Tables, row: MessageRow) -> bool:
    """Whether a ready message is a twin that an earlier claim has left."""
    if row.dedup_key is None or row.receives:
        return False
    return row.seq <= tables.collapsing.get((row.queue, row.dedup_key), 0)


def go_on(tables: Tables, now: int, limit: int, queue: int | None = None) -> int:
    """Finish up to `limit` of the twins that earlier claims have left, of one queue or all, and say how many."""
    finished = 0
    for (number, key), through in list(tables.collapsing.items()):
        room = limit - finished
        if room <= 0:
            break
        if queue not in (None, number):
            continue
        found = _finish(tables, (row for row in _twins(tables, number, key) if row.seq <= through), now, room)
        finished += found
        if found < room:
            rest = {place: last for place, last in tables.collapsing.items() if place != (number, key)}
            tables.replace("collapsing", rest)
    return finished


def spared(tables: Tables, row: MessageRow) -> MessageRow:
    """A message that comes into a queue after its twins were handed out is not one of those that have to collapse."""
    return replace(row, dedup_key=None) if is_doomed(tables, row) else row


def _twins(tables: Tables, queue: int, key: bytes) -> Iterator[MessageRow]:
    return (row for row in tables.some_with_key(queue, key) if row.ready_at == 0 and row.receives == 0)


def _finish(tables: Tables, twins: Iterator[MessageRow], now: int, limit: int) -> int:
    doomed = list(islice(twins, limit))
    for row in doomed:
        tables.depart(row, Outcome.COLLAPSED, now)
    return len(doomed)
