"""Plots as SVG: lines, areas and stacked columns over the stretches of an axis. They know nothing of queues or ledgers.

Colours are the page's, by class. Whatever text comes from outside is escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from penstock.spark.report.axis import Axis
from penstock.spark.report.scales import Scale, time_ticks

_WIDTH, _HEIGHT = 560, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 10, 24
_INNER_WIDTH = _WIDTH - _LEFT - _RIGHT
_INNER_HEIGHT = _HEIGHT - _TOP - _BOTTOM

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


def draw(plot: Plot, axis: Axis) -> str:
    """A figure: its title, its legend, and the plot. With nothing to show it says so."""
    legend = "".join(
        f'<span class="key"><i class="{escape(line.tone)}"></i>{escape(line.name)}</span>' for line in plot.lines
    )
    caption = (
        f'<figcaption><b>{escape(plot.title)}</b> <span class="unit">{escape(plot.unit)}</span>'
        f'<span class="legend">{legend}</span></figcaption>'
    )
    if not any(value is not None for line in plot.lines for value in line.values):
        return f'<figure class="plot empty">{caption}<p class="nothing">nothing to show</p></figure>'
    scale = plot.scale(_heights(plot))
    marks = _columns(plot, scale, axis.count) if plot.stacked else _curves(plot, scale, axis.count)
    return (
        f'<figure class="plot">{caption}<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(f"{plot.title}, {plot.unit}")}">'
        f"{_frame(scale, axis)}{marks}{_hovers(plot, axis)}</svg></figure>"
    )


def _heights(plot: Plot) -> list[float]:
    if plot.stacked:
        return [sum(value or 0 for value in column) for column in zip(*(it.values for it in plot.lines), strict=True)]
    return [value for line in plot.lines for value in line.values if value is not None]


def _frame(scale: Scale, axis: Axis) -> str:
    parts = []
    for value, label in scale.ticks:
        y = _y(scale, value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="up" x="{_LEFT - 6}" y="{y}" dy=".32em">{escape(label)}</text>')
    bottom = _HEIGHT - _BOTTOM
    for place, label in time_ticks(axis):
        x = _round(_LEFT + place * _INNER_WIDTH)
        # A label that would stick out is set to end, or to begin, at the edge.
        anchor = "start" if x - _LEFT < 14 else "end" if _WIDTH - _RIGHT - x < 14 else "middle"
        parts.append(f'<path class="tick" d="M{x} {bottom}v4"/>')
        parts.append(f'<text class="along" x="{x}" y="{bottom + 16}" text-anchor="{anchor}">{escape(label)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}"/>')
    return "".join(parts)


def _curves(plot: Plot, scale: Scale, count: int) -> str:
    parts = []
    for line in plot.lines:
        for run in _runs(line.values):
            points = [(_x(number, count), _y(scale, value)) for number, value in run]
            if len(points) == 1:
                x, y = points[0]
                parts.append(f'<circle class="{line.tone}" cx="{x}" cy="{y}" r="3"/>')
                continue
            path = "M" + "L".join(f"{x} {y}" for x, y in points)
            if line.filled:
                bottom = _HEIGHT - _BOTTOM
                closed = f"{path}L{points[-1][0]} {bottom}L{points[0][0]} {bottom}Z"
                parts.append(f'<path class="area {line.tone}" d="{closed}"/>')
            parts.append(f'<path class="line {line.tone}" d="{path}"/>')
    return "".join(parts)


def _runs(values: Values) -> list[list[tuple[int, float]]]:
    """The values that follow each other without a gap, with their places."""
    runs: list[list[tuple[int, float]]] = [[]]
    for number, value in enumerate(values):
        if value is not None:
            runs[-1].append((number, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _columns(plot: Plot, scale: Scale, count: int) -> str:
    slot = _INNER_WIDTH / count
    width = _round(min(max(slot * 0.8, 1), 40))
    parts = []
    for number in range(count):
        below = 0.0
        for line in plot.lines:
            value = line.values[number] or 0
            if value:
                top, foot = _y(scale, below + value), _y(scale, below)
                x = _round(_x(number, count) - width / 2)
                height = _round(foot - top)
                parts.append(f'<path class="column {line.tone}" d="M{x} {foot}v-{height}h{width}v{height}z"/>')
                below += value
    return "".join(parts)


def _hovers(plot: Plot, axis: Axis) -> str:
    """Over each stretch an area that is not seen, with what it was as its title."""
    slot = _INNER_WIDTH / axis.count
    parts = []
    for number in range(axis.count):
        told = [(line.name, line.values[number]) for line in plot.lines]
        if plot.stacked:
            told = [(name, value) for name, value in told if value]
        lines = [f"{axis.called(number)} UTC", *(f"{name}: {plot.shown(value)}" for name, value in told)]
        if len(lines) == 1:
            lines.append("none")
        x, width = _round(_LEFT + number * slot), _round(slot)
        title = escape("\n".join(lines), quote=False)
        parts.append(
            f'<path class="over" d="M{x} {_TOP}h{width}v{_INNER_HEIGHT}h-{width}z"><title>{title}</title></path>'
        )
    return "".join(parts)


def _x(number: int, count: int) -> float:
    """The middle of a stretch."""
    return _round(_LEFT + (number + 0.5) * _INNER_WIDTH / count)


def _y(scale: Scale, value: float) -> float:
    return _round(_HEIGHT - _BOTTOM - scale.place(value) * _INNER_HEIGHT)


def _round(value: float) -> float:
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded
