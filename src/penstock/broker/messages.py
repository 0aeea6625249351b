"""What can be asked about messages beyond send, claim and ack, as tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from penstock import policy
from penstock.broker import pages
from penstock.broker.entries import detail_of, write_down
from penstock.broker.operations import Again
from penstock.broker.queues import found_queue
from penstock.errors import InvalidRequest, NotPermitted
from penstock.keys import needed_rule, permits
from penstock.limits import Limits
from penstock.model import (
    ANY_AGE,
    ActionKind,
    Actor,
    Ages,
    Count,
    Dealing,
    Dedup,
    Draft,
    Found,
    Groups,
    Message,
    PeekAfter,
    Receipt,
    Resent,
    Scan,
    Selection,
)
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
        step = needed(unit.messages, "messages").release_all(self.queue, now, limits.step_rows)
        released = self.released + step
        # Not until none is left: those who get the messages have claims of their own, which would end as well.
        if step == limits.step_rows:
            return Again(ReleaseAll(self.queue, self.by, released))
        write_down(unit, self.by, ActionKind.CLAIMS_RELEASE, now, self.queue, released)
        return released


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
    """In steps, `so_far` from the one before. A message that has changed its place meanwhile is shown once."""

    queue: str
    limit: int
    after: PeekAfter | None
    so_far: Sequence[Message] = ()
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, limits: Limits) -> list[Message] | Again:
        rows = pages.step_rows(self.limit, self.so_far, limits)
        read = needed(unit.messages, "messages").peek(self.queue, rows, self.after)
        shown = {message.seq for message in self.so_far}
        page = [*self.so_far, *(message for message in read if message.seq not in shown)]
        if pages.is_last(read, rows, page, self.limit, limits):
            return page
        return Again(Peek(self.queue, self.limit, PeekAfter(read[-1].ready_at, read[-1].seq), page))


class ScanMessages(Struct, frozen=True):
    """In steps, until enough is found, or enough was looked at or read."""

    queue: str
    selection: Selection
    limit: int
    ages: Ages
    so_far: Scan
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> Scan | Again:
        selection, so_far = policy.aged(self.selection, self.ages, now), self.so_far
        limit = self.limit - len(so_far.messages)
        rows = min(limits.step_rows, limits.scan_rows - so_far.examined)
        step = needed(unit.messages, "messages").scan(self.queue, selection, now, limit, rows, so_far.after)
        found = [*so_far.messages, *step.messages]
        scan = Scan(found, so_far.examined + step.examined, step.after, so_far.read + step.read)
        is_enough = len(found) >= self.limit or scan.examined >= limits.scan_rows or scan.read >= limits.scan_bytes
        if scan.after is None or is_enough or _size(found) >= limits.claim_bytes:
            return scan
        return Again(ScanMessages(self.queue, selection, self.limit, ANY_AGE, scan))


def _size(found: Sequence[Found]) -> int:
    return sum(len(one.message.body) for one in found)


class FindMessage(Struct, frozen=True):
    queue: str
    message_id: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Found | None:
        return needed(unit.messages, "messages").find(self.queue, self.message_id, now)


class DeleteMessages(Struct, frozen=True):
    queue: str
    message_ids: Sequence[str]
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[Dealing]:
        dealings = needed(unit.messages, "messages").delete(self.queue, self.message_ids, now)
        _note(unit, self.by, ActionKind.MESSAGES_DELETE, now, self.queue, dealings, _ids(self.message_ids, dealings))
        return dealings


class ReleaseMessages(Struct, frozen=True):
    queue: str
    message_ids: Sequence[str]
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[Dealing]:
        messages = needed(unit.messages, "messages")
        found_queue(unit, self.queue)
        receipts = [Receipt(message_id, None, self.queue) for message_id in self.message_ids]
        dealings = [Dealing.DONE if done else Dealing.MISSING for done in messages.release(receipts, now, 0)]
        _note(unit, self.by, ActionKind.MESSAGES_RELEASE, now, self.queue, dealings, _ids(self.message_ids, dealings))
        return dealings


class MoveMessages(Struct, frozen=True):
    queue: str
    message_ids: Sequence[str]
    target: str | None
    as_new: bool
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> list[Dealing]:
        if self.queue == self.target:
            raise InvalidRequest("a queue cannot be moved into itself")
        moves = needed(unit.moves, "moves")
        dealings = list(moves.move_named(self.queue, self.message_ids, self.target, now, self.as_new))
        detail = {"target": self.target, **_ids(self.message_ids, dealings)}
        _note(unit, self.by, ActionKind.MESSAGES_MOVE, now, self.queue, dealings, detail)
        return dealings


# Ids that an entry in the log of actions names; it tells the number of all.
_NAMED = 20


def _ids(message_ids: Sequence[str], dealings: Sequence[Dealing]) -> dict[str, object]:
    done = [one for one, dealing in zip(message_ids, dealings, strict=True) if dealing is Dealing.DONE]
    return {"ids": done[:_NAMED]}


def _note(
    unit: Unit,
    by: Actor | None,
    what: ActionKind,
    now: int,
    queue: str,
    dealings: Sequence[Dealing],
    detail: Mapping[str, object],
) -> None:
    count = sum(dealing is Dealing.DONE for dealing in dealings)
    if count:
        write_down(unit, by, what, now, queue, count, detail_of(detail))


class Resend(Struct, frozen=True):
    """The new message is sent before the old one is deleted: where it is not stored, nothing is lost. Only where the
    old one itself stands in its way, that goes first."""

    queue: str
    message_id: str
    draft: Draft
    target: str | None
    rules: Sequence[str] | None
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Resent:
        messages = needed(unit.messages, "messages")
        seen = messages.find(self.queue, self.message_id, now)
        target = self.queue if seen is None else self._target(unit, seen)
        # Before the message, as others do: else a server that has the line would wait for the message, and this one for
        # the line.
        unit.take_turns((self.queue, target))
        found = messages.find(self.queue, self.message_id, now, lock=True)
        if found is None or found.shipped:
            return Resent(Dealing.MISSING if found is None else Dealing.SHIPPED)
        if not permits(self.rules, "post", target):
            raise NotPermitted(needed_rule("post", target))
        [sent] = unit.send(target, [self.draft], now)
        is_in_the_way = sent.id == found.message.id and self._holds_keys(unit, target)
        if not sent.stored and not is_in_the_way:
            return Resent(Dealing.TWIN, sent.id)
        messages.delete(self.queue, [self.message_id], now)
        if is_in_the_way:
            [sent] = unit.send(target, [self.draft], now)
        detail = detail_of({"id": found.message.id, "target": target, "new": sent.id})
        write_down(unit, self.by, ActionKind.MESSAGES_RESEND, now, self.queue, 1, detail)
        return Resent(Dealing.DONE, sent.id)

    def _target(self, unit: Unit, found: Found) -> str:
        """Where none is named, the queue it came from, or the one it is in."""
        came_from = found.message.came_from
        if self.target is not None:
            return self.target
        return came_from if came_from is not None and unit.find_queue(came_from) is not None else self.queue

    @staticmethod
    def _holds_keys(unit: Unit, name: str) -> bool:
        """Whether a message stands in the way of its twins only as long as it is in the queue."""
        queue = unit.find_queue(name)
        return queue is not None and queue.settings.dedup is Dedup.SEND


class CountMessages(Struct, frozen=True):
    queue: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, limits: Limits) -> Count:
        return unit.count(self.queue, now, limits.count_rows)
