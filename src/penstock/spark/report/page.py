"""The report as one HTML page that needs nothing else: no script, no font, no picture from anywhere.

Queue names, ids and bodies come from outside: the templates escape everything that is not their own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.spark.report import changes, strips
from penstock.spark.report.axis import Axis, instant
from penstock.spark.report.changes import Change
from penstock.spark.report.figures import ACCURACY, LOST, OTHERS, OUTCOMES, PERCENTILES
from penstock.spark.report.plots import Drawing, Line, Plot, draw
from penstock.spark.report.scales import (
    count,
    count_scale,
    duration,
    duration_scale,
    number,
    per_cent,
    share_scale,
    size,
)
from penstock.spark.report.strips import Strip
from penstock.spark.report.tables import Cause, Days, Durations, Entry, Figure, Held, Series

_NAME_SHOWN = 80
_BODY_SHOWN = 120
_P95 = PERCENTILES.index(0.95)


@dataclass(frozen=True)
class Facts:
    """All that the page shows. `known_to` is the instant up to which the archive tells what has finished; `live` is
    what the queues hold, where a server was asked."""

    lake: str
    consumer: str | None
    made_at: int
    axis: Axis | None = None
    rows: int = 0
    distinct: int = 0
    series: Mapping[str | None, Series] = field(default_factory=dict)
    known_to: int | None = None
    days: Days | None = None
    causes: Sequence[Cause] = ()
    slowest: Sequence[Entry] = ()
    retried: Sequence[Entry] = ()
    largest: Sequence[Entry] = ()
    live: Mapping[str, Held] | None = None
    since: int | None = None
    until: int | None = None
    queue: str | None = None

    @property
    def told(self) -> list[str]:
        """The queues that are shown one by one."""
        return [name for name in self.series if name not in (None, OTHERS)]

    @property
    def live_of_all(self) -> Held | None:
        """Over time only where every queue was asked: otherwise it would be less than there was."""
        if self.live is None:
            return None
        held = list(self.live.values())
        total = sum(it.total for it in held)
        if len(held) < self.distinct or not all(it.depths for it in held):
            return Held(total)
        depths = [None if None in it else sum(it) for it in zip(*(it.depths for it in held), strict=True)]
        known = zip(depths, zip(*(it.ages for it in held), strict=True), strict=True)
        ages = [
            None if depth is None else max((it for it in of if it is not None), default=None) for depth, of in known
        ]
        return Held(total, depths, ages)


@dataclass(frozen=True)
class Section:
    """A queue's part of the page, or that of all queues. `name` is short, for a table."""

    anchor: str
    name: str
    title: str
    series: Series
    held: Held | None
    drawings: Sequence[Drawing]


@dataclass(frozen=True)
class Comparison:
    """A day and the day before: of all that is shown, and queue by queue, under the names of their sections."""

    times: str
    changes: Mapping[str, Change]
    queues: Sequence[tuple[Section, Mapping[str, Change]]]


@dataclass(frozen=True)
class Strips:
    """How the latency of the queues went, one under the other. `levels` are the classes of the cells, and what they
    mean; `labels` what stands along the bottom."""

    rows: Sequence[tuple[Section, Strip]]
    levels: Sequence[tuple[int, str]]
    labels: Sequence[tuple[float, str]]


def render(facts: Facts) -> str:
    if facts.axis is None:
        return _TEMPLATES.get_template("page.html").render(facts=facts)
    overview = _section(facts, facts.axis, facts.series[None], 0)
    # The small queues together come last.
    told = sorted((it for name, it in facts.series.items() if name is not None), key=lambda it: it.queue == OTHERS)
    sections = [_section(facts, facts.axis, series, place) for place, series in enumerate(told)]
    lost = {name: facts.series[None].whole.outcomes.get(name, 0) for name in LOST}
    return _TEMPLATES.get_template("page.html").render(
        facts=facts,
        overview=overview,
        sections=sections,
        comparison=_comparison(facts, sections),
        strips=_strips(sections, facts.axis),
        lost={name: number for name, number in lost.items() if number},
        accuracy=ACCURACY,
    )


def render_plot(drawing: Drawing) -> str:
    """One figure of the page."""
    return str(_TEMPLATES.get_template("plot.html").module.plot(drawing))  # type: ignore[attr-defined]


def _section(facts: Facts, axis: Axis, series: Series, place: int) -> Section:
    others = facts.distinct - len([name for name in facts.series if name not in (None, OTHERS)])
    if series.queue == OTHERS:
        name, title = f"{others:,} others", f"{others:,} other queues"
    else:
        title = series.queue or "All queues"
        name = shortened(title, _NAME_SHOWN)
    held = None
    if facts.live is not None:
        held = facts.live_of_all if series.queue is None else facts.live.get(series.queue)
    drawings = [draw(plot, axis) for plot in plots_of(series, axis, held)]
    return Section(f"queue-{place}", name, title, series, held, drawings)


def _comparison(facts: Facts, sections: Sequence[Section]) -> Comparison | None:
    if facts.days is None or None not in facts.days.pairs:
        return None
    pairs = facts.days.pairs
    queues = [(it, _named(pairs[it.series.queue])) for it in sections if it.series.queue in pairs]
    return Comparison(changes.called(facts.days), _named(pairs[None]), queues)


def _named(pair: tuple[Figure, Figure]) -> dict[str, Change]:
    return {it.what: it for it in changes.changes(*pair)}


def _strips(sections: Sequence[Section], axis: Axis) -> Strips:
    values = [
        [None if it.latency is None else it.latency[_P95] for it in section.series.stretches] for section in sections
    ]
    bounds = strips.bounds_for(value for row in values for value in row)
    rows = [(section, strips.strip(row, axis, bounds)) for section, row in zip(sections, values, strict=True)]
    return Strips([it for it in rows if it[1].cells], strips.levels(bounds), strips.labels(axis))


# The plots of a queue


def plots_of(series: Series, axis: Axis, held: Held | None = None) -> list[Plot]:
    stretches = series.stretches
    per = f"messages per {axis.unit}"
    end = f"at the end of each {axis.unit}"
    backlog = [Line("backlog", "backlog", [it.backlog for it in stretches], filled=True)]
    oldest = [Line("backlog", "backlog", [it.oldest for it in stretches])]
    if held is not None and any(it is not None for it in held.depths):
        backlog.append(Line("counted by the server", "depth", held.depths))
        oldest.append(Line("oldest ready, by the server", "depth", held.ages))
    return [
        Plot(
            "Throughput", per,
            [
                Line("sent", "sent", [it.sent for it in stretches]),
                Line("finished", "finished", [it.finished for it in stretches]),
            ],
            count_scale, count,
        ),
        _durations("Latency", "from send to ack, log scale", series, attrgetter("latency")),
        Plot("Backlog", f"messages {end}", backlog, count_scale, count),
        Plot("Age of the oldest", f"{end}, log scale", oldest, duration_scale, duration),
        _durations("Wait", "until first delivery, log scale", series, attrgetter("wait")),
        _durations("Handling", "from last delivery to ack, log scale", series, attrgetter("handling")),
        Plot("Not processed", per, _unprocessed(series), count_scale, count, stacked=True),
        Plot(
            "Trouble", "share of finished messages",
            [
                Line("handed out again", "again", [it.rate(it.redelivered) for it in stretches]),
                Line("dead-lettered", "dead-lettered", [it.rate(it.dead_lettered) for it in stretches]),
            ],
            share_scale, per_cent,
        ),
    ]  # fmt: skip


def _durations(title: str, unit: str, series: Series, of: Callable[[Figure], Durations]) -> Plot:
    lines = []
    for place, share in reversed(list(enumerate(PERCENTILES))):
        name = f"p{round(share * 100)}"
        values = [None if (found := of(it)) is None else found[place] for it in series.stretches]
        lines.append(Line(name, name, values))
    return Plot(title, unit, lines, duration_scale, duration)


def _unprocessed(series: Series) -> list[Line]:
    """Of the outcomes that occur. Processed messages are left out: the others could not be seen beside them."""
    occurring = [name for name in OUTCOMES if name != "processed" and series.whole.outcomes.get(name)]
    return [Line(name, name, [it.outcomes.get(name, 0) for it in series.stretches]) for name in occurring]


# Words and figures for the templates


def excerpt(body: bytes | None) -> str:
    """The beginning of a body as text, whatever it is."""
    if body is None:
        return ""
    text = body.decode("utf-8", "replace")
    shown = "".join(
        it if it.isprintable() else "\N{MIDDLE DOT}" if it.isspace() else "\N{REPLACEMENT CHARACTER}" for it in text
    )
    return shortened(shown, _BODY_SHOWN)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_TEMPLATES = Environment(
    loader=PackageLoader("penstock.spark.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters |= {
    "count": count,
    "duration": duration,
    "excerpt": excerpt,
    "instant": instant,
    "per_cent": per_cent,
    "short": number,
    "shortened": shortened,
    "size": size,
}
