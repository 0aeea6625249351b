"""The report's tables: queue by queue, and single messages. Everything in them is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from penstock.spark.report.axis import instant
from penstock.spark.report.figures import OTHERS
from penstock.spark.report.scales import duration, per_cent
from penstock.spark.report.tables import Entry, Story

_NAME_SHOWN = 80
_BODY_SHOWN = 120


def list_of_queues(told: Sequence[Story], distinct: int, live: Mapping[str, int] | None) -> str:
    head = [
        "queue", "sent", "finished", "handed out again", "dead-lettered",
        "wait p50", "p95", "p99", "handling p50", "p95", "p99",
    ]  # fmt: skip
    if live is not None:
        head.append("now")
    rows = []
    for place, story in enumerate(told):
        whole = story.whole
        if story.queue == OTHERS:
            name = f"{distinct - len(told) + 1:,} others"
        else:
            name = shortened(story.queue or "", _NAME_SHOWN)
        cells = [
            f"{whole.sent:,}",
            f"{whole.finished:,}",
            per_cent(whole.rate(whole.redelivered)),
            per_cent(whole.rate(whole.dead_lettered)),
            *map(duration, whole.wait or (None, None, None)),
            *map(duration, whole.handling or (None, None, None)),
        ]
        if live is not None:
            now = live.get(story.queue or "")
            cells.append("–" if now is None else f"{now:,}")
        link = f'<a href="#queue-{place}">{escape(name)}</a>'
        rows.append(f'<td class="name">{link}</td>' + "".join(f'<td class="right">{escape(it)}</td>' for it in cells))
    titles = [f'<th class="{"name" if it == "queue" else "right"}">{escape(it)}</th>' for it in head]
    return _table("".join(titles), rows)


def list_of_messages(entries: Sequence[Entry]) -> str:
    if not entries:
        return '<p class="note">None.</p>\n'
    with_body = any(entry.body is not None for entry in entries)
    head = [
        "queue",
        "id",
        "sent",
        "in all",
        "wait",
        "handling",
        "received",
        "outcome",
        "bytes",
        *(["body"] * with_body),
    ]
    right = {"in all", "wait", "handling", "received", "bytes"}
    titles = "".join(f"<th{' class=right' if it in right else ''}>{escape(it)}</th>" for it in head)
    return _table(titles, [_message(entry, with_body) for entry in entries])


def _message(entry: Entry, with_body: bool) -> str:
    wait = None if entry.first_claimed_at is None else entry.first_claimed_at - entry.sent_at
    handled = entry.outcome == "processed" and entry.last_claimed_at is not None
    handling = entry.finished_at - (entry.last_claimed_at or 0) if handled else None
    cells = [
        f'<td class="name">{escape(shortened(entry.queue, _NAME_SHOWN))}</td>',
        f'<td class="id"><code>{escape(shortened(entry.id, _NAME_SHOWN))}</code></td>',
        f"<td>{instant(entry.sent_at)}</td>",
        *(
            f'<td class="right">{escape(it)}</td>'
            for it in (
                duration(entry.finished_at - entry.sent_at),
                duration(wait),
                duration(handling),
                f"{entry.receives:,} ×",
            )
        ),
        f"<td>{escape(entry.outcome)}</td>",
        f'<td class="right">{entry.size:,}</td>',
    ]  # fmt: skip
    if with_body:
        cells.append(f'<td class="body"><code>{escape(excerpt(entry.body))}</code></td>')
    return "".join(cells)


def _table(titles: str, rows: Sequence[str]) -> str:
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


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
