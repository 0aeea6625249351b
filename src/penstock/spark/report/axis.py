"""The stretches of time that a report shows: how wide they are, where they begin, and what they are called.

All in milliseconds since the epoch, and UTC for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

_SECOND = 1_000
_MINUTE = 60 * _SECOND
HOUR_MS = 60 * _MINUTE
DAY_MS = 24 * HOUR_MS

# Hours are what people compare. Only where there are few of them, a plot of hours would be a plot of nothing.
_FINE = (_SECOND, 5 * _SECOND, 15 * _SECOND, _MINUTE, 5 * _MINUTE)
_FINE_SPAN = 6 * HOUR_MS
_FINE_STRETCHES = 72
_COARSE = (HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS)
# A week of hours. More would be narrower than the eye, and the page would grow without an end.
MOST_STRETCHES = 168

_UNITS = ((DAY_MS, "day"), (HOUR_MS, "hour"), (_MINUTE, "minute"), (_SECOND, "second"))


@dataclass(frozen=True)
class Axis:
    """`count` stretches of `width_ms`, the first of which begins at `start_ms`, a multiple of the width. Nothing before
    `since_ms` or from `until_ms` on counts, so the first and the last may be shorter than they look."""

    start_ms: int
    width_ms: int
    count: int
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.count * self.width_ms

    @property
    def from_ms(self) -> int:
        """Where the first stretch begins to count."""
        return self.start_ms if self.since_ms is None else max(self.start_ms, self.since_ms)

    @property
    def to_ms(self) -> int:
        return self.end_ms if self.until_ms is None else min(self.end_ms, self.until_ms)

    @property
    def unit(self) -> str:
        """What a stretch is called after 'messages per'."""
        size, name = next((size, name) for size, name in _UNITS if self.width_ms % size == 0)
        times = self.width_ms // size
        return name if times == 1 else f"{times} {name}s"

    def begin(self, number: int) -> int:
        return self.start_ms + number * self.width_ms

    def first(self, number: int) -> int:
        """Where a stretch begins, or begins to count."""
        return max(self.begin(number), self.from_ms)

    def end(self, number: int) -> int:
        """Where a stretch ends, or stops to count."""
        return min(self.begin(number + 1), self.to_ms)

    def called(self, number: int) -> str:
        """'2026-10-09 13:00 – 14:00' for a stretch."""
        first, last = at(self.begin(number)), at(self.begin(number + 1))
        if self.width_ms % DAY_MS == 0:
            return f"{first:%Y-%m-%d}" if self.width_ms == DAY_MS else f"{first:%Y-%m-%d} – {last:%Y-%m-%d}"
        style = "%H:%M" if self.width_ms >= _MINUTE else "%H:%M:%S"
        return f"{first:%Y-%m-%d} {first:{style}} – {last:{style}}"


def make_axis(first_ms: int, last_ms: int, width_ms: int | None = None) -> Axis:
    """Stretches that cover both instants; as wide as it takes unless the width is given."""
    width = width_ms or _width(first_ms, last_ms)
    start = first_ms // width * width
    return Axis(start, width, (last_ms - start) // width + 1)


def _width(first_ms: int, last_ms: int) -> int:
    def stretches(width: int) -> int:
        return last_ms // width - first_ms // width + 1

    if last_ms - first_ms <= _FINE_SPAN:
        fine = next((width for width in _FINE if stretches(width) <= _FINE_STRETCHES), None)
        if fine is not None:
            return fine
    for width in _COARSE:
        if stretches(width) <= MOST_STRETCHES:
            return width
    days = 2
    while stretches(days * DAY_MS) > MOST_STRETCHES:
        days += 1
    return days * DAY_MS


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def instant(ms: int) -> str:
    """For a table: to the second."""
    return f"{at(ms):%Y-%m-%d %H:%M:%S}"
