"""What can be asked about figures of queues, and how they are kept, as tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import astuple

from penstock.broker.operations import Again
from penstock.broker.queues import found_queue
from penstock.limits import Limits
from penstock.model import (
    Bucket,
    ConsumerReport,
    Count,
    Depths,
    History,
    LedgerSize,
    Queue,
    Shipment,
    Sizes,
    Span,
    Totals,
)
from penstock.stores.figures import BUCKETS, DEPTHS_LAST_MS, WIDTHS, bucket_of, kept_since
from penstock.stores.protocol import Unit

# Queues that are counted by one call of the store, and rows of figures that one unit reads.
_COUNTED_TOGETHER = 20
_READ_TOGETHER = 500
# Consumers, shipments of a queue, and open shipments that are told at most.
_MOST_WORKERS = 1_000
_MOST_SHIPMENTS = 10_000


class Seen(Struct, frozen=True):
    """A queue as it was found. Without a `queue`, there is none of this name."""

    name: str
    queue: Queue | None = None
    count: Count = Count(0, 0, 0, 0, exact=True)
    totals: Totals = Totals()


class KeepFigures(Struct, frozen=True):
    """Add what has happened in queues to the store, and tell the totals that it has then."""

    happened: Mapping[int, Sequence[int]]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Mapping[int, Totals]:
        unit.figures.add(self.happened, now)
        return unit.figures.totals(sorted(self.happened))


class SampleDepths(Struct, frozen=True):
    depths: Mapping[int, Depths]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        unit.figures.sample(self.depths, now)


class BucketPage(Struct, frozen=True):
    """Buckets of a minute, and the totals of their queues; `after` says where to go on, None past the end."""

    buckets: Sequence[Bucket]
    totals: Mapping[int, Totals]
    after: tuple[int, int] | None


class ReadBuckets(Struct, frozen=True):
    """The next buckets of a minute from an instant on. The totals of `known` queues are left out."""

    since: int
    after: tuple[int, int] = (0, 0)
    known: Set[int] = frozenset()
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> BucketPage:
        found = unit.figures.active(self.since, self.after, _READ_TOGETHER)
        queues = {bucket.queue for bucket in found}.difference(self.known)
        totals = unit.figures.totals(sorted(queues)) if queues else {}
        is_end = len(found) < _READ_TOGETHER
        return BucketPage(found, totals, None if is_end else (found[-1].since, found[-1].queue))


class LookAtQueues(Struct, frozen=True):
    """The queues of these names: as many as one unit may count."""

    names: Sequence[str]
    seen: Sequence[Seen] = ()
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> Sequence[Seen] | Again:
        queues = {name: unit.find_queue(name) for name in self.names[: limits.listed_counts]}
        found = [queue for queue in queues.values() if queue is not None]
        seen = [*self.seen, *(Seen(name) for name, queue in queues.items() if queue is None)]
        seen += _counted(unit, found, now, limits)
        rest = self.names[limits.listed_counts :]
        return Again(LookAtQueues(rest, seen)) if rest else seen


class FindNumbers(Struct, frozen=True):
    """The names of the queues of these numbers, where they are still there; in steps."""

    numbers: Set[int]
    after: str = ""
    found: Mapping[int, str] = {}
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Mapping[int, str] | Again:
        page = unit.page_queues("", self.after, _READ_TOGETHER)
        more = {queue.number: queue.name for queue in page if queue.number in self.numbers}
        found = {**self.found, **more}
        if len(page) < _READ_TOGETHER or len(found) == len(self.numbers):
            return found
        return Again(FindNumbers(self.numbers, page[-1].name, found))


class LookOn(Struct, frozen=True):
    """The queues whose names come after this one, as many as one unit may count."""

    after: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> Sequence[Seen]:
        return _counted(unit, unit.page_queues("", self.after, limits.listed_counts), now, limits)


def _counted(unit: Unit, queues: Sequence[Queue], now: int, limits: Limits) -> list[Seen]:
    totals = unit.figures.totals([queue.number for queue in queues]) if queues else {}
    seen: list[Seen] = []
    for start in range(0, len(queues), _COUNTED_TOGETHER):
        some = queues[start : start + _COUNTED_TOGETHER]
        counts = unit.counts(some, now, limits.listed_count_rows)
        for queue, count in zip(some, counts, strict=True):
            seen.append(Seen(queue.name, queue, count, totals.get(queue.number, Totals())))
    return seen


class ReadHistory(Struct, frozen=True):
    """Of a queue, and its number. What has happened and is not kept yet is not in it."""

    queue: str
    span: Span
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> tuple[int, History]:
        queue = found_queue(unit, self.queue)
        count = unit.count(self.queue, now, limits.listed_count_rows)
        live = Depths(count.ready, count.delayed, count.claimed, count.oldest_ready_sent_at)
        buckets = unit.figures.history(queue.number, self.span, kept_since(now, self.span))
        return queue.number, history_of(self.span, buckets, live, now)


class LookForWorkers(Struct, frozen=True):
    queue: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> tuple[list[ConsumerReport], list[Shipment]]:
        found_queue(unit, self.queue)
        consumers = [] if unit.consumers is None else unit.consumers.list(self.queue, _MOST_WORKERS)
        shipments = [] if unit.shipments is None else unit.shipments.list_open(self.queue, _MOST_WORKERS)
        return [*consumers], [*shipments]


class MeasureStore(Struct, frozen=True):
    """How much it takes, how many shipments are open, how much the ledger holds, and when that was."""

    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, _limits: Limits) -> tuple[Sizes, int, LedgerSize | None, int]:
        open_shipments = 0 if unit.shipments is None else unit.shipments.count_open(_MOST_SHIPMENTS)
        ledger = None if unit.ledger is None else unit.ledger.size()
        return unit.figures.sizes(), open_shipments, ledger, now


def history_of(span: Span, buckets: Sequence[Bucket], live: Depths, now: int) -> History:
    """In columns, with a number for every bucket. Depths hold on from the last look; those of the last bucket are of
    now. Where nothing was in a queue, nothing is written down: none known means none there."""
    width = WIDTHS[span]
    last = bucket_of(now, width)
    since = list(range(last - (BUCKETS[span] - 1) * width, last + width, width))
    by_begin = {bucket.since: bucket for bucket in buckets}
    nothing = Depths(0, 0, 0, None)
    seen: Depths | None = nothing
    seen_at = 0
    for bucket in buckets:
        if bucket.depths is not None and bucket.since < since[0]:
            seen, seen_at = bucket.depths, bucket.since
    depths: list[Depths | None] = []
    ages: list[int | None] = []
    for begun in since:
        found = by_begin.get(begun)
        if begun == last:
            seen, seen_at = live, begun
        elif found is not None and found.depths is not None:
            seen, seen_at = found.depths, begun
        elif seen is not None and seen != nothing and begun - seen_at > DEPTHS_LAST_MS + width:
            seen = None  # no server was there to look
        depths.append(seen)
        oldest = None if seen is None else seen.oldest_ready_sent_at
        ages.append(None if oldest is None else max(0, min(now, begun + width) - oldest))
    counts = [astuple(by_begin[begun].totals) if begun in by_begin else astuple(Totals()) for begun in since]
    sent, claims, redelivered, acked, expired, dead_lettered, failed, purged, moved, collapsed = (
        list(column) for column in zip(*counts, strict=True)
    )
    return History(
        span=span,
        bucket_ms=width,
        since=since,
        ready=[None if one is None else one.ready for one in depths],
        delayed=[None if one is None else one.delayed for one in depths],
        claimed=[None if one is None else one.claimed for one in depths],
        oldest_ready_ms=ages,
        sent=sent,
        claims=claims,
        redelivered=redelivered,
        acked=acked,
        expired=expired,
        dead_lettered=dead_lettered,
        failed=failed,
        purged=purged,
        moved=moved,
        collapsed=collapsed,
    )


def with_unkept(history: History, unkept: Sequence[int] | None) -> History:
    """With what has happened lately in its last bucket."""
    if unkept is not None:
        columns = (
            history.sent,
            history.claims,
            history.redelivered,
            history.acked,
            history.expired,
            history.dead_lettered,
            history.failed,
            history.purged,
            history.moved,
            history.collapsed,
        )
        for column, number in zip(columns, unkept, strict=True):
            column[-1] += number
    return history
