"""What can be asked about queues, as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock import policy
from penstock.broker.operations import Again
from penstock.errors import QueueNotFound
from penstock.keys import check_dead_letters
from penstock.limits import Limits
from penstock.model import (
    Count,
    CountedPage,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Settings,
)
from penstock.stores.protocol import Unit, ensure_queue, needed

# Queues that are counted by one call of the store.
_COUNTED_TOGETHER = 20


class CreateQueue(Struct, frozen=True):
    name: str
    settings: Settings
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        return unit.create_queue(self.name, self.settings, now)


class EnsureQueue(Struct, frozen=True):
    name: str
    settings: Settings
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        ensure_queue(unit, self.name, self.settings, now)


class UpdateQueue(Struct, frozen=True):
    name: str
    change: QueueChange
    rules: Sequence[str] | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        settings = policy.changed(_found(unit, self.name).settings, self.change)
        check_dead_letters(self.rules, settings.redrive)
        return unit.update_queue(self.name, settings, now)


class PauseQueue(Struct, frozen=True):
    name: str
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        return unit.pause_queue(self.name, now)


class ResumeQueue(Struct, frozen=True):
    name: str
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        return unit.resume_queue(self.name, now)


class DeleteQueue(Struct, frozen=True):
    name: str
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        return unit.delete_queue(self.name, now)


class FindQueues(Struct, frozen=True):
    names: Sequence[str]
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> list[Queue | None]:
        return [unit.find_queue(name) for name in self.names]


class DescribeQueue(Struct, frozen=True):
    name: str
    tally: bool
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> QueueReport:
        queue = _found(unit, self.name)
        count = unit.count(self.name, now, limits.count_rows)
        return QueueReport(queue, count, now, needed(unit.ledger, "ledger").tally(self.name) if self.tally else None)


class ListQueues(Struct, frozen=True):
    offset: int
    limit: int
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> QueuePage:
        return unit.list_queues(self.offset, self.limit)


class PageQueues(Struct, frozen=True):
    prefix: str
    after: str
    limit: int
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> list[Queue]:
        return unit.page_queues(self.prefix, self.after, self.limit)


class DeadLetterSources(Struct, frozen=True):
    queue: str
    after: str
    limit: int
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> list[Queue]:
        return unit.dead_letter_sources(self.queue, self.after, self.limit)


class CountQueues(Struct, frozen=True):
    """In steps, because each of a thousand queues may hold many claims."""

    offset: int
    limit: int
    page: QueuePage | None = None
    counts: Sequence[Count] = ()
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> CountedPage | Again:
        page = unit.list_queues(self.offset, self.limit) if self.page is None else self.page
        counts = list(self.counts)
        until, looked_at = min(len(counts) + limits.listed_counts, len(page.queues)), 0
        while len(counts) < until and looked_at < limits.count_rows:
            some = page.queues[len(counts) : len(counts) + _COUNTED_TOGETHER]
            more = unit.counts(some, now, limits.listed_count_rows)
            looked_at += sum(count.delayed + count.claimed for count in more)
            counts += more
        if len(counts) < len(page.queues):
            return Again(CountQueues(self.offset, self.limit, page, counts))
        return CountedPage(page, counts)


def _found(unit: Unit, name: str) -> Queue:
    queue = unit.find_queue(name)
    if queue is None:
        raise QueueNotFound(name)
    return queue
