"""All queues as a table: how full they are, or how they are set; once, or again and again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.cli.output import note, print_json, print_json_line, print_table
from penstock.cli.text import age, number
from penstock.clock import system_clock

if TYPE_CHECKING:
    from penstock.client import Client, Count, Queue

# The most urgent first: the fullest, or the one with the oldest message.
_SORTS: dict[str, Callable[[Queue], Any]] = {
    "created": lambda queue: queue.created_at,
    "name": lambda queue: queue.name,
    "messages": lambda queue: -_of(queue, "total"),
    "ready": lambda queue: -_of(queue, "ready"),
    "claimed": lambda queue: -_of(queue, "claimed"),
    "delayed": lambda queue: -_of(queue, "delayed"),
    "oldest": lambda queue: _oldest(queue) or float("inf"),
}
SORTS = tuple(_SORTS)
COUNTS = ("name", "messages", "ready", "claimed", "delayed", "oldest")


def _of(queue: Queue, name: str) -> int:
    return getattr(queue.count, name) if queue.count is not None else 0


def _oldest(queue: Queue) -> int | None:
    return queue.count.oldest_sent_at if queue.count is not None else None


class Listing:
    def __init__(
        self, client: Client, sort: str, settings: Callable[[Queue], dict[str, str]] | None, as_json: bool
    ) -> None:
        """`settings` are the cells of a queue's settings, to be shown instead of its counts."""
        self._client, self._key, self._settings, self._as_json = client, _SORTS[sort], settings, as_json

    def show(self, in_lines: bool = False) -> None:
        queues = sorted(self._client.queues(), key=self._key)
        if self._as_json:
            value = {"total": len(queues), "queues": [as_json(queue) for queue in queues]}
            if in_lines:
                print_json_line(value)
            else:
                print_json(value)
        elif not queues:
            note("there are no queues yet; 'penstock queue create NAME' makes one")
        elif self._settings is not None:
            rows = [{"name": queue.name, **self._settings(queue)} for queue in queues]
            _print_with_pauses([list(row.values()) for row in rows], list(rows[0]), queues)
        else:
            _print_with_pauses([_counts(queue) for queue in queues], COUNTS, queues, right=COUNTS[1:])


def _print_with_pauses(
    rows: Sequence[Sequence[str]], header: Sequence[str], queues: Sequence[Queue], right: Collection[str] = ()
) -> None:
    """How long each has been paused, in a column that is there only where one is."""
    if any(queue.paused_at is not None for queue in queues):
        now = system_clock()
        pauses = ["" if queue.paused_at is None else f"for {age(queue.paused_at, now)}" for queue in queues]
        rows = [(*row, pause) for row, pause in zip(rows, pauses, strict=True)]
        header = (*header, "paused")
    print_table(rows, header, right=right)


def _counts(queue: Queue) -> Sequence[str]:
    count = queue.count
    if count is None:
        return (queue.name, *[""] * (len(COUNTS) - 1))
    ready, claimed, delayed = bounded(count)
    oldest = "" if count.oldest_sent_at is None else age(count.oldest_sent_at, system_clock())
    return queue.name, number(count.total), ready, claimed, delayed, oldest


def bounded(count: Count) -> tuple[str, str, str]:
    """Ready, claimed and delayed; with a sign where they are bounds and no more."""
    least, most = ("", "") if count.exact else ("≥", "≤")
    return most + number(count.ready), least + number(count.claimed), least + number(count.delayed)


def as_json(queue: Queue) -> dict[str, object]:
    """In the native API's words: what the server has not told is not there."""
    value = asdict(queue)
    return {name: part for name, part in value.items() if part is not None}
