"""The six plots of a queue."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from penstock.spark.report.axis import Axis
from penstock.spark.report.figures import OUTCOMES, PERCENTILES
from penstock.spark.report.plots import Line, Plot
from penstock.spark.report.scales import count_scale, duration, duration_scale, per_cent, share_scale
from penstock.spark.report.tables import Durations, Figure, Story


def plots_of(story: Story, axis: Axis) -> list[Plot]:
    stretches = story.stretches
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
        _durations("Wait", "until first delivery, log scale", story, attrgetter("wait")),
        _durations("Handling", "from last delivery to ack, log scale", story, attrgetter("handling")),
        Plot("Not processed", per, _unprocessed(story), count_scale, _count, stacked=True),
        Plot(
            "Trouble", "share of finished messages",
            [
                Line("handed out again", "again", [it.rate(it.redelivered) for it in stretches]),
                Line("dead-lettered", "dead-lettered", [it.rate(it.dead_lettered) for it in stretches]),
            ],
            share_scale, per_cent,
        ),
    ]  # fmt: skip


def _durations(title: str, unit: str, story: Story, of: Callable[[Figure], Durations]) -> Plot:
    lines = []
    for place, share in reversed(list(enumerate(PERCENTILES))):
        name = f"p{round(share * 100)}"
        values = [None if (found := of(it)) is None else found[place] for it in story.stretches]
        lines.append(Line(name, name, values))
    return Plot(title, unit, lines, duration_scale, duration)


def _unprocessed(story: Story) -> list[Line]:
    """Of the outcomes that occur. Processed messages are left out: the others could not be seen beside them."""
    occurring = [name for name in OUTCOMES if name != "processed" and story.whole.outcomes.get(name)]
    return [Line(name, name, [it.outcomes.get(name, 0) for it in story.stretches]) for name in occurring]


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
