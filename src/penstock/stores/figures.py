"""Figures of queues: how units count what they do, and what stores share that keep the counts.

A unit counts as it goes, a list of numbers for each queue, and costs nothing else. Those who hold the store add these
counts to it every few seconds, by `Figures.add`: to the totals of each queue, and to the buckets of its history. What a
process that is killed has not added is missing then; nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import astuple, replace

from penstock.model import Bucket, Depths, Happened, Outcome, Sizes, Span, Totals

# Places in a list of counts: those of `Totals`.
SENT: Final = 0
CLAIMED: Final = 1
REDELIVERED: Final = 2
# An outcome has its place so far behind its number.
_BEFORE_OUTCOMES: Final = 2
PLACES: Final = 10

MINUTE_MS: Final = 60_000
# How long each bucket of a span lasts, and how many of them make it up.
WIDTHS: dict[Span, int] = {Span.HOUR: MINUTE_MS, Span.DAY: 10 * MINUTE_MS}
BUCKETS: dict[Span, int] = {Span.HOUR: 60, Span.DAY: 144}
# The width of what is never forgotten.
EVER: Final = 0
# Depths that stay as they are need not be kept more often than this.
DEPTHS_LAST_MS: Final = 10 * MINUTE_MS
# Buckets are kept for longer than their span: the depths from before its beginning hold on into it.
_MARGIN_MS: Final = 2 * DEPTHS_LAST_MS


def count(happened: Happened, queue: int, place: int, number: int) -> None:
    counts = happened.get(queue)
    if counts is None:
        counts = happened[queue] = [0] * PLACES
    counts[place] += number


def place_of(outcome: Outcome) -> int:
    return int(outcome) + _BEFORE_OUTCOMES


def merge(into: Happened, happened: Mapping[int, list[int]]) -> None:
    """The lists themselves may be taken over."""
    for queue, counts in happened.items():
        known = into.get(queue)
        into[queue] = counts if known is None else [sum(pair) for pair in zip(known, counts, strict=True)]


def bucket_of(now: int, width: int) -> int:
    """When the bucket begins that an instant falls into."""
    return now - now % width if width else 0


def kept_since(now: int, span: Span) -> int:
    """Buckets that begin earlier are of no use any more."""
    width = WIDTHS[span]
    return bucket_of(now, width) - BUCKETS[span] * width - _MARGIN_MS


class FigureBook:
    """The figures of a store that keeps them in memory. `note` is told how to take each change back."""

    def __init__(
        self, note: Callable[[Callable[[], None]], object] | None = None, measure: Callable[[], Sizes] = Sizes
    ) -> None:
        self._measure = measure
        # By width, then by queue and the beginning of the bucket.
        self._rows: dict[int, dict[tuple[int, int], Bucket]] = {width: {} for width in (EVER, *WIDTHS.values())}
        self._note = note

    def add(self, happened: Mapping[int, Sequence[int]], now: int) -> None:
        for queue, counts in happened.items():
            for width in self._rows:
                row = self._row(width, queue, now)
                added = [sum(pair) for pair in zip(astuple(row.totals), counts, strict=True)]
                self._put(width, replace(row, totals=Totals(*added)))

    def sample(self, depths: Mapping[int, Depths], now: int) -> None:
        for queue, seen in depths.items():
            for width in WIDTHS.values():
                self._put(width, replace(self._row(width, queue, now), depths=seen))

    def totals(self, queues: Sequence[int]) -> dict[int, Totals]:
        rows = self._rows[EVER]
        return {queue: rows[queue, 0].totals for queue in queues if (queue, 0) in rows}

    def active(self, since: int, after: tuple[int, int], limit: int) -> list[Bucket]:
        rows = self._rows[MINUTE_MS].values()
        later = [row for row in rows if row.since >= since and (row.since, row.queue) > after]
        return sorted(later, key=lambda row: (row.since, row.queue))[:limit]

    def history(self, queue: int, span: Span, since: int) -> list[Bucket]:
        rows = self._rows[WIDTHS[span]]
        return [row for (number, begun), row in sorted(rows.items()) if number == queue and begun >= since]

    def sizes(self) -> Sizes:
        return self._measure()

    def forget(self, queue: int) -> None:
        for width, rows in self._rows.items():
            for key in [key for key in rows if key[0] == queue]:
                self._set(width, key, None)

    def sweep(self, now: int, limit: int) -> int:
        freed = 0
        for span, width in WIDTHS.items():
            old = [key for key in self._rows[width] if key[1] < kept_since(now, span)]
            for key in old[: max(0, limit - freed)]:
                self._set(width, key, None)
                freed += 1
        return freed

    def _row(self, width: int, queue: int, now: int) -> Bucket:
        since = bucket_of(now, width)
        return self._rows[width].get((queue, since)) or Bucket(queue, since, Totals())

    def _put(self, width: int, row: Bucket) -> None:
        self._set(width, (row.queue, row.since), row)

    def _set(self, width: int, key: tuple[int, int], row: Bucket | None) -> None:
        rows = self._rows[width]
        former = rows.get(key)
        if self._note is not None:
            self._note(lambda: self._restore(rows, key, former))
        self._restore(rows, key, row)

    @staticmethod
    def _restore(rows: dict[tuple[int, int], Bucket], key: tuple[int, int], row: Bucket | None) -> None:
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
