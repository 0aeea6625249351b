"""What can be asked about messages beyond send, claim and ack, as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker.entries import detail_of, write_down
from penstock.broker.operations import Again
from penstock.errors import NotPermitted
from penstock.keys import permits
from penstock.limits import Limits
from penstock.model import ActionKind, Actor, Count, Groups, Message, PeekAfter, Receipt
from penstock.stores.protocol import Unit, needed


class AckPermitted(Struct, frozen=True):
    receipts: Sequence[Receipt]
    rules: Sequence[str]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[bool]:
        for queue in needed(unit.messages, "messages").locate(self.receipts):
            if queue is not None and not permits(self.rules, "poll", queue):
                # Which queue that is, is not told to a caller who may not look into it.
                raise NotPermitted("poll on the queue of this message")
        return unit.ack(self.receipts, now)


class Locate(Struct, frozen=True):
    receipts: Sequence[Receipt]
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> list[str | None]:
        return needed(unit.messages, "messages").locate(self.receipts)


class Renew(Struct, frozen=True):
    receipts: Sequence[Receipt]
    hold_ms: int
    shorten: bool
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[bool]:
        return needed(unit.messages, "messages").renew(self.receipts, now, now + self.hold_ms, self.shorten)


class Release(Struct, frozen=True):
    receipts: Sequence[Receipt]
    delay_ms: int | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[bool]:
        return needed(unit.messages, "messages").release(self.receipts, now, self.delay_ms)


class ReleaseLate(Struct, frozen=True):
    """What was claimed for callers who did not wait for it, at once. In a store that cannot release, the claims run
    out."""

    receipts: Sequence[Receipt]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        if unit.messages is not None:
            unit.messages.release(self.receipts, now, 0)


class ReleaseAll(Struct, frozen=True):
    queue: str
    by: Actor | None
    released: int = 0
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> int | Again:
        released = needed(unit.messages, "messages").release_all(self.queue, now, limits.step_rows)
        if released:
            return Again(ReleaseAll(self.queue, self.by, self.released + released))
        write_down(unit, self.by, ActionKind.CLAIMS_RELEASE, now, self.queue, self.released)
        return self.released


class Purge(Struct, frozen=True):
    """`through` is the last sequence number that belongs to it: what is sent later stays."""

    queue: str
    by: Actor | None
    through: int | None = None
    purged: int = 0
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> int | Again:
        messages = needed(unit.messages, "messages")
        through = messages.last_seq() if self.through is None else self.through
        purged = messages.purge(self.queue, now, limits.step_rows, through)
        if purged:
            return Again(Purge(self.queue, self.by, through, self.purged + purged))
        write_down(unit, self.by, ActionKind.QUEUE_PURGE, now, self.queue, self.purged)
        return self.purged


class PurgeBounds(Struct, frozen=True):
    """What a purge by age has to do with, as its first unit has found it, and where the next one goes on."""

    sent_before: int
    through: int
    after: PeekAfter | None


class PurgeOlder(Struct, frozen=True):
    """Through the whole queue, a step's rows in each unit. Where one leaves a line, the next may take a place that was
    passed already: a queue with lines is gone through again until none is `found`."""

    queue: str
    older_than_ms: int
    by: Actor | None
    bounds: PurgeBounds | None = None
    purged: int = 0
    found: int = 0
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> int | Again:
        messages = needed(unit.messages, "messages")
        bounds = self.bounds or PurgeBounds(now - self.older_than_ms, messages.last_seq(), None)
        through, sent_before = bounds.through, bounds.sent_before
        step = messages.purge_older(self.queue, now, limits.step_rows, through, sent_before, bounds.after)
        purged, found = self.purged + step.count, self.found + step.count
        if step.after is None:
            if not found or not _has_lines(unit, self.queue):
                detail = detail_of({"older_than_ms": self.older_than_ms})
                write_down(unit, self.by, ActionKind.QUEUE_PURGE, now, self.queue, purged, detail)
                return purged
            found = 0
        following = PurgeBounds(bounds.sent_before, bounds.through, step.after)
        return Again(PurgeOlder(self.queue, self.older_than_ms, self.by, following, purged, found))


def _has_lines(unit: Unit, name: str) -> bool:
    queue = unit.find_queue(name)
    return queue is not None and queue.settings.groups is Groups.FIFO


class Peek(Struct, frozen=True):
    queue: str
    limit: int
    after: PeekAfter | None
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> list[Message]:
        return needed(unit.messages, "messages").peek(self.queue, self.limit, self.after)


class CountMessages(Struct, frozen=True):
    queue: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> Count:
        return unit.count(self.queue, now, limits.count_rows)
