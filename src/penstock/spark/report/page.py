"""The report as one HTML page that needs nothing else: no script, no font, no picture from anywhere.

Queue names, ids and bodies were written by anybody: everything that is not ours is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

from penstock.spark.report.axis import Axis, instant
from penstock.spark.report.figures import OTHERS
from penstock.spark.report.lists import list_of_messages, list_of_queues
from penstock.spark.report.plots import draw
from penstock.spark.report.scales import duration, number, per_cent
from penstock.spark.report.sections import plots_of
from penstock.spark.report.tables import Entry, Figure, Story
from penstock.spark.report.words import MEANINGS


@dataclass(frozen=True)
class Facts:
    """All that the page tells. `live` is how many messages a queue holds now, where a server was asked."""

    lake: str
    consumer: str | None
    made_at: int
    axis: Axis | None = None
    rows: int = 0
    distinct: int = 0
    stories: Mapping[str | None, Story] = field(default_factory=dict)
    slowest: Sequence[Entry] = ()
    retried: Sequence[Entry] = ()
    live: Mapping[str, int] | None = None
    since: int | None = None
    until: int | None = None
    queue: str | None = None


def render(facts: Facts) -> str:
    title = "Penstock: what the ledger tells" if facts.queue is None else f"Penstock: {facts.queue}"
    style = files("penstock.spark.report").joinpath("style.css").read_text("utf-8")
    body = "".join(_body(facts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is loaded and nothing runs, whatever a body might contain.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


def _body(facts: Facts) -> list[str]:
    if facts.axis is None:
        return [_about(facts), "<h2>Nothing yet</h2>", f'<p class="note">{escape(_why_empty(facts))}</p>\n']
    others = facts.stories.get(OTHERS)
    queues = [story for name, story in facts.stories.items() if name not in (None, OTHERS)]
    told = [*queues, others] if others else queues
    parts = [_about(facts)]
    whole = facts.stories[None]
    if facts.queue is None:
        parts += ['<h2 id="all">All queues</h2>\n', *_section(whole, facts.axis, facts)]
    if len(told) > 1:
        parts += ["<h2>Queue by queue</h2>\n", list_of_queues(told, facts.distinct, facts.live)]
    parts += [
        "<h2>The slowest</h2>\n",
        '<p class="note">Processed messages with the longest way from send to finish.</p>\n',
    ]
    parts.append(list_of_messages(facts.slowest))
    parts += [
        "<h2>The most retried</h2>\n",
        '<p class="note">Messages that were handed out more than once, most often first.</p>\n',
    ]
    parts.append(list_of_messages(facts.retried))
    if len(told) > 1 or facts.queue is not None:
        for place, story in enumerate(told):
            name = _name(story, facts.distinct - len(queues))
            parts.append(f'<h2 id="queue-{place}">{escape(name)}</h2>\n')
            parts += _section(story, facts.axis, facts)
    parts += ['<h2 id="meaning">What the numbers mean</h2>\n<dl>\n']
    parts += [f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>\n" for term, meaning in MEANINGS]
    return [*parts, "</dl>\n"]


def _about(facts: Facts) -> str:
    lines = []
    if facts.axis is not None:
        lines.append(
            f"{facts.rows:,} {'row' if facts.rows == 1 else 'rows'} of the ledger, {facts.distinct:,} "
            f"{'queue' if facts.distinct == 1 else 'queues'}, {instant(facts.axis.start_ms)} to "
            f"{instant(facts.axis.end_ms)}, figures per {facts.axis.unit}. All times are UTC."
        )
    asked = [f"{word} {instant(ms)}" for word, ms in (("since", facts.since), ("until", facts.until)) if ms is not None]
    if asked:
        lines.append(f"Only {' and '.join(asked)} UTC was asked for.")
    archived = "" if facts.consumer is None else f", archived as {facts.consumer}"
    lines.append(f"From {facts.lake}{archived}; made {instant(facts.made_at)} UTC.")
    return f'<p class="about">{"<br>".join(map(escape, lines))}</p>\n'


def _why_empty(facts: Facts) -> str:
    if facts.since is not None or facts.until is not None or facts.queue is not None:
        return "The archived ledger has no row of a message that this report asks for."
    return (
        "The lake holds no row of the ledger. A message gets its row when it leaves its queue, and "
        "`penstock pipeline archive` brings the rows to the lake."
    )


def _name(story: Story, others: int) -> str:
    if story.queue == OTHERS:
        return f"{others:,} other queues"
    return story.queue or "All queues"


def _section(story: Story, axis: Axis, facts: Facts) -> list[str]:
    live = None
    if facts.live is not None:
        live = sum(facts.live.values()) if story.queue is None else facts.live.get(story.queue)
    return [
        _cards(story.whole, live),
        _shares(story.whole),
        '<div class="plots">\n',
        *(f"{draw(plot, axis)}\n" for plot in plots_of(story, axis)),
        "</div>\n",
    ]


def _cards(whole: Figure, live: int | None) -> str:
    wait, handling = whole.wait or (None, None, None), whole.handling or (None, None, None)
    dead = whole.dead_lettered
    cards = [
        (f"{whole.sent:,}", "sent", ""),
        (f"{whole.finished:,}", "finished", ""),
        (per_cent(whole.rate(whole.redelivered)), "handed out again", f"{whole.redelivered:,}"),
        (per_cent(whole.rate(dead)), "dead-lettered", f"{dead:,}"),
        (duration(wait[0]), "wait, median", f"p95 {duration(wait[1])}, p99 {duration(wait[2])}"),
        (duration(handling[0]), "handling, median", f"p95 {duration(handling[1])}, p99 {duration(handling[2])}"),
    ]
    if live is not None:
        cards.append((f"{live:,}", "in the queue now", ""))
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(what)}<br>{escape(more)}</span></div>'
        for value, what, more in cards
    )
    return f'<div class="cards">{inner}</div>\n'


def _shares(whole: Figure) -> str:
    """One bar for all that finished, by how it ended."""
    if not whole.finished:
        return ""
    known = dict(whole.outcomes)
    rest = whole.finished - sum(known.values())
    if rest:
        known["unknown"] = rest
    bar, legend = [], []
    for name, count in known.items():
        share = f"{number(count)}, {per_cent(whole.rate(count))}"
        bar.append(f'<i class="{escape(name)}" style="flex:{count}" title="{escape(f"{name}: {share}")}"></i>')
        legend.append(f'<span class="key"><i class="{escape(name)}"></i>{escape(f"{name} {share}")}</span>')
    return f'<div class="shares">{"".join(bar)}</div>\n<p class="legend">{"".join(legend)}</p>\n'
