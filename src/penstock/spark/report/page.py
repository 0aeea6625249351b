"""The report as one HTML page that needs nothing else: no script, no font, no picture from anywhere.

Queue names, ids and bodies come from outside: the templates escape everything that is not their own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.spark.report.axis import Axis, instant
from penstock.spark.report.figures import ACCURACY, OTHERS, OUTCOMES, PERCENTILES
from penstock.spark.report.plots import Drawing, Line, Plot, draw
from penstock.spark.report.scales import count_scale, duration, duration_scale, number, per_cent, share_scale
from penstock.spark.report.tables import Durations, Entry, Figure, Series

_NAME_SHOWN = 80
_BODY_SHOWN = 120


@dataclass(frozen=True)
class Facts:
    """All that the page shows. `live` is how many messages a queue holds now, where a server was asked."""

    lake: str
    consumer: str | None
    made_at: int
    axis: Axis | None = None
    rows: int = 0
    distinct: int = 0
    series: Mapping[str | None, Series] = field(default_factory=dict)
    slowest: Sequence[Entry] = ()
    retried: Sequence[Entry] = ()
    live: Mapping[str, int] | None = None
    since: int | None = None
    until: int | None = None
    queue: str | None = None


@dataclass(frozen=True)
class Section:
    """A queue's part of the page, or that of all queues. `name` is short, for a table."""

    anchor: str
    name: str
    title: str
    series: Series
    live: int | None
    drawings: Sequence[Drawing]


def render(facts: Facts) -> str:
    if facts.axis is None:
        return _TEMPLATES.get_template("page.html").render(facts=facts)
    overview = _section(facts, facts.axis, facts.series[None], 0)
    # The small queues together come last.
    told = sorted((it for name, it in facts.series.items() if name is not None), key=lambda it: it.queue == OTHERS)
    sections = [_section(facts, facts.axis, series, place) for place, series in enumerate(told)]
    page = _TEMPLATES.get_template("page.html")
    return page.render(facts=facts, overview=overview, sections=sections, accuracy=ACCURACY)


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
    live = None
    if facts.live is not None:
        live = sum(facts.live.values()) if series.queue is None else facts.live.get(series.queue)
    drawings = [draw(plot, axis) for plot in plots_of(series, axis)]
    return Section(f"queue-{place}", name, title, series, live, drawings)


# The six plots of a queue


def plots_of(series: Series, axis: Axis) -> list[Plot]:
    stretches = series.stretches
    per = f"messages per {axis.unit}"
    return [
        Plot(
            "Throughput", per,
            [
                Line("sent", "sent", [it.sent for it in stretches]),
                Line("finished", "finished", [it.finished for it in stretches]),
            ],
            count_scale, _count,
        ),
        Plot(
            "Backlog", f"messages at the end of each {axis.unit}",
            [Line("backlog", "backlog", [it.backlog for it in stretches], filled=True)],
            count_scale, _count,
        ),
        _durations("Wait", "until first delivery, log scale", series, attrgetter("wait")),
        _durations("Handling", "from last delivery to ack, log scale", series, attrgetter("handling")),
        Plot("Not processed", per, _unprocessed(series), count_scale, _count, stacked=True),
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


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


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


def _grouped(value: int) -> str:
    return f"{value:,}"


_TEMPLATES = Environment(
    loader=PackageLoader("penstock.spark.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters |= {
    "count": _grouped,
    "duration": duration,
    "excerpt": excerpt,
    "instant": instant,
    "per_cent": per_cent,
    "short": number,
    "shortened": shortened,
}
