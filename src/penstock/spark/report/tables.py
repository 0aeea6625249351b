"""The figures of a report as Python values, every stretch of time present: gaps are filled, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.spark.report.figures import OUTCOMES

# Three durations in ms, or None where no message had one.
Durations = tuple[float, float, float] | None


@dataclass(frozen=True)
class Figure:
    sent: int = 0
    finished: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    redelivered: int = 0
    wait: Durations = None
    handling: Durations = None
    backlog: int = 0

    @property
    def ends(self) -> dict[str, int]:
        """How many ended in which way; as unknown where a later version has a name for it."""
        known = dict(self.outcomes)
        rest = self.finished - sum(known.values())
        return known | {"unknown": rest} if rest else known

    @property
    def dead_lettered(self) -> int:
        return self.outcomes.get("dead-lettered", 0)

    def rate(self, count: int) -> float | None:
        """Of the finished messages; None where there are none."""
        return count / self.finished if self.finished else None


@dataclass(frozen=True)
class Series:
    """The figures of a queue, or of all queues: as a whole, and stretch by stretch."""

    queue: str | None
    whole: Figure
    stretches: Sequence[Figure]
    # What was there when the first stretch began.
    opening: int = 0


@dataclass(frozen=True)
class Entry:
    """A single message of one of the lists."""

    queue: str
    id: str
    sent_at: int
    first_claimed_at: int | None
    last_claimed_at: int | None
    finished_at: int
    receives: int
    outcome: str
    size: int
    content_type: str | None
    body: bytes | None

    @property
    def in_all(self) -> int:
        return self.finished_at - self.sent_at

    @property
    def wait(self) -> int | None:
        return None if self.first_claimed_at is None else self.first_claimed_at - self.sent_at

    @property
    def handling(self) -> int | None:
        if self.outcome != "processed" or self.last_claimed_at is None:
            return None
        return self.finished_at - self.last_claimed_at


def series_of(rows: Iterable[Mapping[str, Any]], count: int) -> dict[str | None, Series]:
    """By queue; under None of all queues together."""
    wholes: dict[str | None, Figure] = {}
    parts: dict[str | None, dict[int, Figure]] = {}
    for row in rows:
        queue = None if row["of_all"] else row["queue"]
        parts.setdefault(queue, {})
        if row["stretch"] is None:
            wholes[queue] = _figure(row)
        else:
            parts[queue][row["stretch"]] = _figure(row)
    return {queue: _series(queue, whole, parts[queue], count) for queue, whole in wholes.items()}


def _series(queue: str | None, whole: Figure, parts: Mapping[int, Figure], count: int) -> Series:
    before = parts.get(-1, Figure())
    filled, backlog = [], before.backlog
    for number in range(count):
        # Where nothing was sent or finished, what was there stays there.
        figure = parts.get(number) or Figure(backlog=backlog)
        backlog = figure.backlog
        filled.append(figure)
    shown = Figure(
        sent=whole.sent - before.sent,
        finished=whole.finished,
        outcomes=whole.outcomes,
        redelivered=whole.redelivered,
        wait=whole.wait,
        handling=whole.handling,
        backlog=backlog,
    )
    return Series(queue, shown, filled, before.backlog)


def _figure(row: Mapping[str, Any]) -> Figure:
    return Figure(
        sent=row["sent"],
        finished=row["finished"],
        outcomes={name: row[name] for name in OUTCOMES if row[name]},
        redelivered=row["redelivered"],
        wait=_durations(row["wait"]),
        handling=_durations(row["handling"]),
        backlog=row["backlog"] or 0,
    )


def _durations(values: Sequence[float] | None) -> Durations:
    return (values[0], values[1], values[2]) if values else None


def entries(rows: Iterable[Mapping[str, Any]], numbers: Sequence[int]) -> list[Entry]:
    """In the order of the numbers."""
    found = {row["number"]: row for row in rows}
    names = Entry.__dataclass_fields__
    return [Entry(**{name: found[number][name] for name in names}) for number in numbers if number in found]
