"""A strip for each of several series: a cell for each stretch of time, the darker the longer. Geometry only: colours
are the page's, by class, and every cell says its value under the pointer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.spark.report.axis import Axis
from penstock.spark.report.scales import duration, time_ticks

# About a third of a power of ten apart, and round to people.
_BOUNDS = (
    1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000, 3_600_000, 10_800_000,
    43_200_000, 86_400_000, 259_200_000, 864_000_000, 2_592_000_000, 8_640_000_000,
)  # fmt: skip
# As many shades as an eye tells apart.
LEVELS = 6

Values = Sequence[float | None]


@dataclass(frozen=True)
class Strip:
    """`cells` are place, level and what the cell says; `worst` is the stretch with the longest duration, or None."""

    cells: Sequence[tuple[int, int, str]]
    worst: int | None


def bounds_for(values: Iterable[float | None]) -> list[int]:
    """Where a level ends and the next begins: fewer than there are levels."""
    known = [it for it in values if it is not None]
    if not known:
        return []
    chosen = [it for it in _BOUNDS if min(known) < it <= max(known)]
    apart = -(-len(chosen) // (LEVELS - 1)) or 1
    # From the top, so that the longest have the darkest shade to themselves.
    return chosen[::-1][::apart][::-1]


def strip(values: Values, axis: Axis, bounds: Sequence[int]) -> Strip:
    known = [(number, value) for number, value in enumerate(values) if value is not None]
    cells = [(number, level(value, bounds), f"{axis.called(number)} UTC\n{duration(value)}") for number, value in known]
    worst = max(known, key=lambda it: it[1])[0] if known else None
    return Strip(cells, worst)


def level(value: float, bounds: Sequence[int]) -> int:
    """From 1; the longest have the last one, however few levels are in use."""
    return LEVELS - len(bounds) + bisect_right(bounds, value)


def levels(bounds: Sequence[int]) -> list[tuple[int, str]]:
    """What each level in use means."""
    lowest = LEVELS - len(bounds)
    if not bounds:
        return []
    named = [f"under {_round(bounds[0])}", *(f"from {_round(it)}" for it in bounds)]
    return [(lowest + place, name) for place, name in enumerate(named)]


def _round(ms: int) -> str:
    """Of whole minutes, hours and days no more is said."""
    return duration(ms).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def labels(axis: Axis) -> list[tuple[float, str]]:
    """Along the bottom: how far from the left in per cent, and what it says. Not so near to the right that it would
    stick out."""
    return [(round(place * 100, 2), label) for place, label in time_ticks(axis) if place < 0.94]
