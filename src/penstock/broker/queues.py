"""What can be asked about queues, as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock import policy
from penstock.broker.entries import change_detail, settings_detail, write_down
from penstock.broker.operations import Again
from penstock.errors import QueueNotFound
from penstock.keys import check_dead_letters
from penstock.limits import Limits
from penstock.model import (
    ActionKind,
    Actor,
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
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        queue = unit.create_queue(self.name, self.settings, now)
        note_creation(unit, self.by, self.name, self.settings, now)
        return queue


class EnsureQueue(Struct, frozen=True):
    name: str
    settings: Settings
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        if ensure_queue(unit, self.name, self.settings, now):
            note_creation(unit, self.by, self.name, self.settings, now)


class UpdateQueue(Struct, frozen=True):
    name: str
    change: QueueChange
    rules: Sequence[str] | None
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        former = found_queue(unit, self.name).settings
        settings = policy.changed(former, self.change)
        check_dead_letters(self.rules, settings.redrive)
        queue = unit.update_queue(self.name, settings, now)
        if detail := change_detail(former, settings):
            write_down(unit, self.by, ActionKind.QUEUE_UPDATE, now, self.name, detail=detail)
        return queue


class PauseQueue(Struct, frozen=True):
    name: str
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        former, queue = unit.find_queue(self.name), unit.pause_queue(self.name, now)
        if former is not None and former.paused_at is None and queue.paused_at == now:
            write_down(unit, self.by, ActionKind.QUEUE_PAUSE, now, self.name)
        return queue


class ResumeQueue(Struct, frozen=True):
    name: str
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        former, queue = unit.find_queue(self.name), unit.resume_queue(self.name, now)
        if former is not None and former.paused_at is not None:
            write_down(unit, self.by, ActionKind.QUEUE_RESUME, now, self.name)
        return queue


class DeleteQueue(Struct, frozen=True):
    name: str
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Queue:
        queue = unit.delete_queue(self.name, now)
        write_down(unit, self.by, ActionKind.QUEUE_DELETE, now, self.name)
        return queue


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
        queue = found_queue(unit, self.name)
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
    """In steps, because each of a thousand queues may hold many claims. One that is created or deleted meanwhile may
    shift the others: none is told twice."""

    offset: int
    limit: int
    queues: Sequence[Queue] = ()
    counts: Sequence[Count] = ()
    # How many were looked at.
    passed: int = 0
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> CountedPage | Again:
        told = {queue.number for queue in self.queues}
        some = min(limits.listed_counts, self.limit - self.passed)
        page = unit.list_queues(self.offset + self.passed, some)
        queues, counts = [*self.queues], [*self.counts]
        passed = looked_at = 0
        while passed < len(page.queues) and looked_at < limits.count_rows:
            together = page.queues[passed : passed + _COUNTED_TOGETHER]
            passed += len(together)
            fresh = [queue for queue in together if queue.number not in told]
            more = unit.counts(fresh, now, limits.listed_count_rows) if fresh else []
            looked_at += sum(count.delayed + count.claimed for count in more)
            queues += fresh
            counts += more
        is_end = passed == len(page.queues) < some or self.passed + passed >= self.limit
        if not is_end:
            return Again(CountQueues(self.offset, self.limit, queues, counts, self.passed + passed))
        return CountedPage(QueuePage(page.total, queues), counts)


def note_creation(unit: Unit, by: Actor | None, name: str, settings: Settings, now: int) -> None:
    write_down(unit, by, ActionKind.QUEUE_CREATE, now, name, detail=settings_detail(settings))


def found_queue(unit: Unit, name: str) -> Queue:
    """Raises QueueNotFound."""
    queue = unit.find_queue(name)
    if queue is None:
        raise QueueNotFound(name)
    return queue
