"""What a server says of its queues: how many messages they hold, now and during the last hour or day.

The ledger knows a message only when it has left its queue; a server counts those that are there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from penstock.client import Client, History, QueueNotFound
from penstock.spark.report.axis import Axis
from penstock.spark.report.tables import Held
from penstock.spark.server import counted

_MINUTE_MS = 60_000


def held(client: Client, names: Iterable[str], axis: Axis) -> dict[str, Held]:
    """By queue; one that is gone is left out."""
    found = {}
    span = _span(axis)
    for name in names:
        try:
            total = counted(client, name)[0].total
            found[name] = over_time(client.history(name, span), axis, total) if span else Held(total)
        except QueueNotFound:
            continue
    return found


def _span(axis: Axis) -> Literal["hour", "day"] | None:
    """A day is by tens of minutes, an hour by minutes; narrower stretches than these have no numbers of their own."""
    if axis.width_ms >= 10 * _MINUTE_MS:
        return "day"
    return "hour" if axis.width_ms >= _MINUTE_MS else None


def over_time(history: History, axis: Axis, total: int) -> Held:
    """The last bucket of each stretch in which a server has looked."""
    depths = [_sum(it) for it in zip(history.ready, history.delayed, history.claimed, strict=True)]
    ends = [since + history.bucket_ms for since in history.since]
    places = [_last(ends, depths, axis, number) for number in range(axis.count)]
    return Held(
        total,
        [None if place is None else depths[place] for place in places],
        [None if place is None else history.oldest_ready_ms[place] for place in places],
    )


def _sum(parts: tuple[int | None, int | None, int | None]) -> int | None:
    known = [it for it in parts if it is not None]
    return sum(known) if len(known) == len(parts) else None


def _last(ends: Sequence[int], depths: Sequence[int | None], axis: Axis, number: int) -> int | None:
    place = bisect_right(ends, axis.end(number)) - 1
    while place >= 0 and ends[place] > axis.begin(number):
        if depths[place] is not None:
            return place
        place -= 1
    return None
