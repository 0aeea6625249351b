"""Axes: which values get a label, what the label says, and where a value lies. No drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from penstock.spark.report.axis import Axis, at

_DURATIONS = (
    (1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s"), (60_000, "1 min"),
    (600_000, "10 min"), (3_600_000, "1 h"),
    (86_400_000, "1 d"), (864_000_000, "10 d"), (8_640_000_000, "100 d"),
)  # fmt: skip
_TIMES = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000,
    2592000, 7776000, 31536000,
)  # fmt: skip
_LABELS_ACROSS = 7


@dataclass(frozen=True)
class Scale:
    """`ticks` are values with their labels; `place` says how far up a value lies, from 0 to 1."""

    ticks: Sequence[tuple[float, str]]
    low: float
    high: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        if self.logarithmic:
            value = max(value, self.low)
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def count_scale(values: Sequence[float]) -> Scale:
    """From 0 in about four round steps of whole messages."""
    step = max(1.0, _round_step(max(values, default=0), 4))
    return _steps(values, step, number)


def share_scale(values: Sequence[float]) -> Scale:
    """Of shares from 0 to 1, as per cent."""
    step = max(0.00025, _round_step(max(values, default=0), 4))
    return _steps(values, step, per_cent)


def duration_scale(values: Sequence[float]) -> Scale:
    """Logarithmic, in ms: a second and a day fit on one plot. What took no time at all lies at the bottom."""
    positive = [value for value in values if value > 0] or [1]
    low = max((value for value, _ in _DURATIONS if value <= min(positive)), default=1)
    # One step above the largest, so that no scale is empty.
    high = next((value for value, _ in _DURATIONS if value > max(max(positive), low)), max(positive) * 2)
    ticks = [(float(value), label) for value, label in _DURATIONS if low <= value <= high]
    return Scale(ticks, low, high, logarithmic=True)


def _steps(values: Sequence[float], step: float, label: Callable[[float], str]) -> Scale:
    steps = max(1, math.ceil(max(values, default=0) / step - 1e-9))
    return Scale([(it * step, label(it * step)) for it in range(steps + 1)], 0, steps * step)


def _round_step(largest: float, steps: int) -> float:
    """The least of 1, 2, 2.5, 5 times a power of ten with which `steps` reach the largest."""
    if largest <= 0:
        return 0.0
    rough = largest / steps
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))


def time_ticks(axis: Axis) -> list[tuple[float, str]]:
    """Where along the axis, from 0 to 1, and what it says: the time, or the date where that is what changes."""
    span = axis.end_ms - axis.start_ms
    step = next((it * 1000 for it in _TIMES if span / (it * 1000) <= _LABELS_ACROSS), span)
    first = -(-axis.start_ms // step) * step
    return [((ms - axis.start_ms) / span, _time_label(ms, step)) for ms in range(first, axis.end_ms, step)]


def _time_label(ms: int, step: int) -> str:
    when = at(ms)
    if ms % 86_400_000 == 0:
        return f"{when:%b} {when.day}" if step < 31536000_000 else f"{when:%Y}"
    return f"{when:%H:%M}" if step >= 60_000 else f"{when:%H:%M:%S}"


def number(value: float) -> str:
    """Short, for an axis: 1,500 or 20k or 3.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            divisor = 1e3 if letter == "k" else size
            return f"{value / divisor:.3g}{letter}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def count(value: float | None) -> str:
    """In full."""
    return "–" if value is None else f"{value:,.0f}"


def size(value: float) -> str:
    """Of bytes, in a few digits."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1023.5:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:,.3g} TiB"


def per_cent(value: float | None) -> str:
    if value is None:
        return "–"
    percent = value * 100
    return f"{percent:.3g} %" if percent < 99.95 else f"{percent:.4g} %"


def duration(ms: float | None) -> str:
    """Two or three digits that matter."""
    if ms is None:
        return "–"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.3g} s"
    if ms < 86_400_000:
        whole = timedelta(seconds=round(ms / 1000))
        hours, rest = divmod(whole.seconds + whole.days * 86_400, 3600)
        return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    days, left = divmod(round(ms / 3_600_000), 24)
    return f"{days} d {left} h"
