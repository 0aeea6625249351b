"""Plots as geometry: lines, areas and stacked columns over the stretches of an axis. They know nothing of queues or
ledgers; the template `plot.html` writes them as SVG, and colours are the page's, by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.spark.report.axis import Axis
from penstock.spark.report.scales import Scale, time_ticks

_WIDTH, _HEIGHT = 560, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 552, 10, 186
_INNER_WIDTH = _RIGHT - _LEFT
_INNER_HEIGHT = _BOTTOM - _TOP
# Nearer to an edge than this, a label begins or ends there instead of sticking out.
_LABEL_ROOM = 14

Values = Sequence[float | None]


@dataclass(frozen=True)
class Line:
    """`tone` is the class that gives it its colour."""

    name: str
    tone: str
    values: Values
    filled: bool = False


@dataclass(frozen=True)
class Plot:
    title: str
    unit: str
    lines: Sequence[Line]
    scale: Callable[[Sequence[float]], Scale]
    shown: Callable[[float | None], str]
    stacked: bool = False


@dataclass(frozen=True)
class Mark:
    """A shape: a path, or a dot at `x` and `y` for a value without neighbours."""

    tone: str
    path: str | None = None
    x: float = 0
    y: float = 0


@dataclass(frozen=True)
class Drawing:
    """A plot with everything in its place. `rows` are labels up the side, `columns` those along the bottom; `hovers`
    are areas over each stretch with what it was."""

    plot: Plot
    marked: bool
    rows: Sequence[tuple[float, str]] = ()
    columns: Sequence[tuple[float, str, str]] = ()
    marks: Sequence[Mark] = ()
    hovers: Sequence[tuple[str, str]] = ()
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _RIGHT
    bottom: int = _BOTTOM


def draw(plot: Plot, axis: Axis) -> Drawing:
    if not any(value is not None for line in plot.lines for value in line.values):
        return Drawing(plot, marked=False)
    scale = plot.scale(_heights(plot))
    return Drawing(
        plot,
        True,
        [(_y(scale, value), label) for value, label in scale.ticks],
        [_column(place, label) for place, label in time_ticks(axis)],
        _columns(plot, scale, axis.count) if plot.stacked else _curves(plot, scale),
        _hovers(plot, axis),
    )


def _heights(plot: Plot) -> list[float]:
    if plot.stacked:
        return [sum(value or 0 for value in column) for column in zip(*(it.values for it in plot.lines), strict=True)]
    return [value for line in plot.lines for value in line.values if value is not None]


def _column(place: float, label: str) -> tuple[float, str, str]:
    x = _round(_LEFT + place * _INNER_WIDTH)
    anchor = "start" if x - _LEFT < _LABEL_ROOM else "end" if _RIGHT - x < _LABEL_ROOM else "middle"
    return x, anchor, label


def _curves(plot: Plot, scale: Scale) -> list[Mark]:
    marks = []
    for line in plot.lines:
        for run in _runs(line.values):
            points = [(_x(number, len(line.values)), _y(scale, value)) for number, value in run]
            if len(points) == 1:
                marks.append(Mark(line.tone, x=points[0][0], y=points[0][1]))
                continue
            path = "M" + "L".join(f"{x} {y}" for x, y in points)
            if line.filled:
                closed = f"{path}L{points[-1][0]} {_BOTTOM}L{points[0][0]} {_BOTTOM}Z"
                marks.append(Mark(f"area {line.tone}", closed))
            marks.append(Mark(f"line {line.tone}", path))
    return marks


def _runs(values: Values) -> list[list[tuple[int, float]]]:
    """The values that follow each other without a gap, with their places."""
    runs: list[list[tuple[int, float]]] = [[]]
    for number, value in enumerate(values):
        if value is not None:
            runs[-1].append((number, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _columns(plot: Plot, scale: Scale, count: int) -> list[Mark]:
    width = _round(min(max(_INNER_WIDTH / count * 0.8, 1), 40))
    marks = []
    for number in range(count):
        below = 0.0
        for line in plot.lines:
            value = line.values[number] or 0
            if value:
                top, foot = _y(scale, below + value), _y(scale, below)
                x = _round(_x(number, count) - width / 2)
                height = _round(foot - top)
                marks.append(Mark(f"column {line.tone}", f"M{x} {foot}v-{height}h{width}v{height}z"))
                below += value
    return marks


def _hovers(plot: Plot, axis: Axis) -> list[tuple[str, str]]:
    slot = _INNER_WIDTH / axis.count
    hovers = []
    for number in range(axis.count):
        told = [(line.name, line.values[number]) for line in plot.lines]
        if plot.stacked:
            told = [(name, value) for name, value in told if value]
        lines = [f"{axis.called(number)} UTC", *(f"{name}: {plot.shown(value)}" for name, value in told)]
        if len(lines) == 1:
            lines.append("none")
        x, width = _round(_LEFT + number * slot), _round(slot)
        hovers.append((f"M{x} {_TOP}h{width}v{_INNER_HEIGHT}h-{width}z", "\n".join(lines)))
    return hovers


def _x(number: int, count: int) -> float:
    """The middle of a stretch."""
    return _round(_LEFT + (number + 0.5) * _INNER_WIDTH / count)


def _y(scale: Scale, value: float) -> float:
    return _round(_BOTTOM - scale.place(value) * _INNER_HEIGHT)


def _round(value: float) -> float:
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded
