"""The figures of a report as Python values, every stretch of time present. Gaps are filled and ages are told from
instants, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.spark.report.axis import DAY_MS, Axis
from penstock.spark.report.figures import LOST, OUTCOMES, RECEIVES_TOLD

# Three durations in ms, or None where no message had one.
Durations = tuple[float, float, float] | None


@dataclass(frozen=True)
class Figure:
    """`redelivered` are the finished messages that were handed out more than once, `redeliveries` how often they were
    beyond the first time. `oldest` is the age in ms of the oldest in the backlog; None where that is empty."""

    sent: int = 0
    finished: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    redelivered: int = 0
    redeliveries: int = 0
    bytes: int = 0
    wait: Durations = None
    handling: Durations = None
    latency: Durations = None
    backlog: int = 0
    oldest: int | None = None

    @property
    def ends(self) -> dict[str, int]:
        """How many ended in which way; as unknown where a later version has a name for it."""
        known = dict(self.outcomes)
        rest = self.finished - sum(known.values())
        return known | {"unknown": rest} if rest else known

    @property
    def dead_lettered(self) -> int:
        return self.outcomes.get("dead-lettered", 0)

    @property
    def lost(self) -> int:
        return sum(self.outcomes.get(name, 0) for name in LOST)

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
class Days:
    """What finished on a `day`, from its midnight to `until`, and on the day before up to the same time of the day; by
    queue, and under None of all queues together. All in ms."""

    day: int
    until: int
    pairs: Mapping[str | None, tuple[Figure, Figure]]

    @property
    def whole(self) -> bool:
        return self.until - self.day == DAY_MS


@dataclass(frozen=True)
class Cause:
    """How many messages were lost in one way: `messages` of a queue, with one outcome, handed out equally often, and of
    one content type, the first at `first_at` and the last at `last_at`."""

    queue: str
    outcome: str
    receives: int
    content_type: str | None
    messages: int
    first_at: int
    last_at: int

    @property
    def why(self) -> str:
        """As much as the ledger knows."""
        often = f"more than {RECEIVES_TOLD} times" if self.receives > RECEIVES_TOLD else _times(self.receives)
        if self.outcome == "dead-lettered":
            return f"handed out {often} and not acked"
        limit = "past its deadline" if self.outcome == "failed" else "past the queue's retention"
        return f"{limit}, handed out {often}" if self.receives else f"{limit}, never handed out"


@dataclass(frozen=True)
class Held:
    """What a server says of a queue: how many messages it holds now, and for each stretch of the page how many it held
    and how old the oldest ready one was, in ms; None where no server has looked."""

    total: int
    depths: Sequence[int | None] = ()
    ages: Sequence[int | None] = ()


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
    def latency(self) -> int:
        """From send to finish."""
        return self.finished_at - self.sent_at

    @property
    def wait(self) -> int | None:
        return None if self.first_claimed_at is None else self.first_claimed_at - self.sent_at

    @property
    def handling(self) -> int | None:
        if self.outcome != "processed" or self.last_claimed_at is None:
            return None
        return self.finished_at - self.last_claimed_at


def series_of(rows: Iterable[Mapping[str, Any]], axis: Axis) -> dict[str | None, Series]:
    """By queue; under None of all queues together."""
    wholes: dict[str | None, Figure] = {}
    parts: dict[str | None, dict[int, Figure]] = {}
    sent_from: dict[str | None, dict[int, int]] = {}
    for row in rows:
        queue = None if row["of_all"] else row["queue"]
        if row["stretch"] is None:
            wholes[queue] = _figure(row)
            continue
        parts.setdefault(queue, {})[row["stretch"]] = _figure(row)
        if row["sent_from"] is not None:
            sent_from.setdefault(queue, {})[row["stretch"]] = row["sent_from"]
    return {
        queue: _series(queue, whole, parts[queue], ages(sent_from.get(queue, {}), axis))
        for queue, whole in wholes.items()
    }


def ages(sent_from: Mapping[int, int], axis: Axis) -> list[int | None]:
    """How old the oldest message was at the end of each stretch, in ms; None where there was none. `sent_from` is the
    first send of what finished in a stretch: what was there at the end of one are the messages that finished in a later
    one, unless all of these were sent later too."""
    found: list[int | None] = []
    first = sent_from.get(axis.count)
    for number in reversed(range(axis.count)):
        end = axis.end(number)
        found.append(end - first if first is not None and first < end else None)
        first = min((it for it in (first, sent_from.get(number)) if it is not None), default=None)
    return found[::-1]


def _series(queue: str | None, whole: Figure, parts: Mapping[int, Figure], oldest: Sequence[int | None]) -> Series:
    before = parts.get(-1, Figure())
    filled, backlog = [], before.backlog
    for number, age in enumerate(oldest):
        # Where nothing was sent or finished, what was there stays there.
        figure = replace(parts.get(number) or Figure(backlog=backlog), oldest=age)
        backlog = figure.backlog
        filled.append(figure)
    shown = replace(whole, sent=whole.sent - before.sent, backlog=backlog, oldest=oldest[-1])
    return Series(queue, shown, filled, before.backlog)


def days_of(rows: Iterable[Mapping[str, Any]], day: int, until: int) -> Days:
    found: dict[str | None, dict[int, Figure]] = {}
    for row in rows:
        if row["stretch"] in (0, 1):
            found.setdefault(None if row["of_all"] else row["queue"], {})[row["stretch"]] = _figure(row)
    pairs = {queue: (it.get(0, Figure()), it.get(1, Figure())) for queue, it in found.items()}
    return Days(day, until, pairs)


def _figure(row: Mapping[str, Any]) -> Figure:
    return Figure(
        sent=row["sent"],
        finished=row["finished"],
        outcomes={name: row[name] for name in OUTCOMES if row[name]},
        redelivered=row["redelivered"],
        redeliveries=row["redeliveries"],
        bytes=row["bytes"],
        wait=_durations(row["wait"]),
        handling=_durations(row["handling"]),
        latency=_durations(row["latency"]),
        backlog=row["backlog"] or 0,
    )


def _durations(values: Sequence[float] | None) -> Durations:
    return (values[0], values[1], values[2]) if values else None


def entries(rows: Iterable[Mapping[str, Any]], numbers: Sequence[int]) -> list[Entry]:
    """In the order of the numbers."""
    found = {row["number"]: row for row in rows}
    names = Entry.__dataclass_fields__
    return [Entry(**{name: found[number][name] for name in names}) for number in numbers if number in found]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
