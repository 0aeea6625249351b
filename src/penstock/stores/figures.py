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
    """The figures of a store that keeps them in memory. `note` is told how to take each change back; nothing is added
    to a queue that is not known any more."""

    def __init__(
        self,
        note: Callable[[Callable[[], None]], object] | None = None,
        measure: Callable[[], Sizes] = Sizes,
        is_known: Callable[[int], bool] | None = None,
    ) -> None:
        self._measure = measure
        self._is_known = is_known
        # By width, then by the beginning of the bucket, then by queue.
        self._rows: dict[int, dict[int, dict[int, Bucket]]] = {width: {} for width in (EVER, *WIDTHS.values())}
        self._note = note

    def add(self, happened: Mapping[int, Sequence[int]], now: int) -> None:
        for queue, counts in happened.items():
            if self._is_known is not None and not self._is_known(queue):
                continue
            for width in self._rows:
                row = self._row(width, queue, now)
                added = [sum(pair) for pair in zip(astuple(row.totals), counts, strict=True)]
                self._put(width, replace(row, totals=Totals(*added)))

    def sample(self, depths: Mapping[int, Depths], now: int) -> None:
        for queue, seen in depths.items():
            for width in WIDTHS.values():
                self._put(width, replace(self._row(width, queue, now), depths=seen))

    def totals(self, queues: Sequence[int]) -> dict[int, Totals]:
        rows = self._rows[EVER].get(0, {})
        return {queue: rows[queue].totals for queue in queues if queue in rows}

    def active(self, since: int, after: tuple[int, int], limit: int) -> list[Bucket]:
        buckets = self._rows[MINUTE_MS]
        found: list[Bucket] = []
        for begun in sorted(one for one in buckets if one >= max(since, after[0])):
            rows = buckets[begun]
            later = sorted(queue for queue in rows if (begun, queue) > after)
            found += [rows[queue] for queue in later[: limit - len(found)]]
            if len(found) == limit:
                break
        return found

    def history(self, queue: int, span: Span, since: int) -> list[Bucket]:
        buckets = sorted(self._rows[WIDTHS[span]].items())
        return [rows[queue] for begun, rows in buckets if begun >= since and queue in rows]

    def sizes(self) -> Sizes:
        return self._measure()

    def forget(self, queue: int) -> None:
        for width, buckets in self._rows.items():
            for begun in [begun for begun, rows in buckets.items() if queue in rows]:
                self._set(width, begun, queue, None)

    def sweep(self, now: int, limit: int) -> int:
        freed = 0
        for span, width in WIDTHS.items():
            buckets = self._rows[width]
            for begun in sorted(begun for begun in buckets if begun < kept_since(now, span)):
                for queue in list(buckets[begun])[: max(0, limit - freed)]:
                    self._set(width, begun, queue, None)
                    freed += 1
        return freed

    def _row(self, width: int, queue: int, now: int) -> Bucket:
        since = bucket_of(now, width)
        return self._rows[width].get(since, {}).get(queue) or Bucket(queue, since, Totals())

    def _put(self, width: int, row: Bucket) -> None:
        self._set(width, row.since, row.queue, row)

    def _set(self, width: int, begun: int, queue: int, row: Bucket | None) -> None:
        buckets = self._rows[width]
        former = buckets.get(begun, {}).get(queue)
        if self._note is not None:
            self._note(lambda: self._restore(buckets, begun, queue, former))
        self._restore(buckets, begun, queue, row)

    @staticmethod
    def _restore(buckets: dict[int, dict[int, Bucket]], begun: int, queue: int, row: Bucket | None) -> None:
        if row is not None:
            buckets.setdefault(begun, {})[queue] = row
            return
        rows = buckets.get(begun, {})
        rows.pop(queue, None)
        if not rows:
            buckets.pop(begun, None)
