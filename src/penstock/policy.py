"""What should become of a message, as pure functions. Stores apply these decisions; they make none of their own."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

import msgspec
from msgspec import UNSET

from penstock import limits
from penstock.errors import InvalidRequest, MoveConflict, SettingFixed, ShipmentConflict
from penstock.ids import KEY_BYTES, body_hash, dedup_key_of
from penstock.model import (
    ANY_AGE,
    Ages,
    Dedup,
    DedupScope,
    Draft,
    ExportRef,
    Groups,
    MessageState,
    Move,
    MoveAction,
    QueueChange,
    Selection,
    Settings,
    ShipmentRef,
)

# How often a move with a pace takes a step, if it may move that many messages at all.
# About what a row of the ledger takes beside its body, with its share of an index.
LEDGER_ROW_BYTES = 150
_STEPS_PER_SECOND = 10
_LONGEST_PAUSE_MS = 1_000


class Verdict(Enum):
    DELIVER = auto()
    EXPIRE = auto()
    FAIL = auto()
    DEAD_LETTER = auto()


def judge(settings: Settings, now: int, sent_at: int, receives: int, deadline_at: int | None) -> Verdict:
    """What a claim does with a message that is ready."""
    if is_expired(settings, now, sent_at):
        return Verdict.EXPIRE
    if deadline_at is not None and deadline_at <= now:
        return Verdict.FAIL
    if settings.redrive is not None and receives >= settings.redrive.max_receives:
        return Verdict.DEAD_LETTER
    return Verdict.DELIVER


def is_expired(settings: Settings, now: int, sent_at: int) -> bool:
    return sent_at + settings.retention_ms <= now


def ready_at(settings: Settings, delay_ms: int | None, now: int) -> int:
    """When a message sent now may first be claimed; 0 is at once. Its own delay overrides the queue's."""
    delay = settings.delay_ms if delay_ms is None else delay_ms
    return now + delay if delay > 0 else 0


def backoff_ms(settings: Settings, receives: int) -> int:
    """How long a message that was received so often waits after its claim has run out or was released."""
    backoff = settings.backoff
    if backoff is None or receives < 1:
        return 0
    if settings.redrive is not None and receives >= settings.redrive.max_receives:
        return 0  # it will not be tried again, and should soon be seen among the dead letters
    return doubled_ms(backoff.first_ms, backoff.most_ms, receives)


def doubled_ms(first_ms: int, most_ms: int, receives: int) -> int:
    """Twice as long with every receive after the first, up to a limit."""
    # Shifted no further than any limit: a message may be received very often.
    return min(most_ms, first_ms << min(max(0, receives - 1), 64))


def keeps_keys(settings: Settings) -> bool:
    """Whether the messages of a queue have a dedup key of their own: one by which twins are found among them."""
    return settings.dedup is Dedup.SEND or settings.dedup is Dedup.CLAIM


def dedup_key(settings: Settings, draft: Draft, hashed: bytes) -> bytes | None:
    """What makes two messages of a queue the same; None in a queue whose messages keep no key."""
    if not keeps_keys(settings):
        return None
    return draft.dedup_key or hashed[:KEY_BYTES]


def dedup_key_on_arrival(settings: Settings, key: bytes | None, hashed: bytes) -> bytes | None:
    """The key of a message that moves into a queue: its own, or a new one where the queue asks for it."""
    if key is None and keeps_keys(settings):
        return hashed[:KEY_BYTES]
    return key


def window_key(settings: Settings, draft: Draft, hashed: bytes) -> bytes:
    """By which a queue with `Dedup.WINDOW` knows a message again. A body stands for its hash in hexadecimal digits, so
    that a sender may as well give these as its dedup id."""
    key = draft.dedup_key or dedup_key_of(hashed.hex())
    if settings.dedup_scope is DedupScope.GROUP and draft.group is not None:
        return body_hash(draft.group.encode("utf-8", "surrogatepass") + b"\0" + key)[:KEY_BYTES]
    return key


def check_settings(settings: Settings, former: Settings | None = None) -> None:
    """Raises InvalidRequest for settings that do not go together, or not after the former ones."""
    if former is not None and settings.groups is not former.groups:
        raise SettingFixed("the groups of a queue are chosen when it is made, and cannot be changed")
    if settings.groups is Groups.FIFO and settings.dedup is Dedup.CLAIM:
        # Twins stand behind each other, in one group or in several, and would be passed over.
        raise InvalidRequest("a queue with groups cannot deduplicate by claim")
    if sum(not key.startswith(limits.RESERVED_LABELS) for key in settings.labels) > limits.LABELS:
        raise InvalidRequest(f"a queue has at most {limits.LABELS} labels")


def waits_in_line(settings: Settings, group: str | None) -> bool:
    """Whether a message waits for those of its group before it."""
    return group is not None and settings.groups is Groups.FIFO


def refuse_own_delay(settings: Settings, drafts: Iterable[Draft]) -> None:
    """A message that waits in line has the delay of its queue, so that it cannot keep back those behind it for longer
    than they expect. Raises InvalidRequest."""
    for draft in drafts if settings.groups is Groups.FIFO else ():
        if draft.delay_ms is not None and draft.group is not None:
            raise InvalidRequest("a message of a group has the delay of its queue, and none of its own")


def line_ready_at(settings: Settings, now: int, sent_at: int, receives: int) -> int:
    """When the first message of a group may be claimed, once no other is before it; 0 is at once. The delay is that
    which the queue has now."""
    until = sent_at + settings.delay_ms
    return until if not receives and settings.delay_ms and until > now else 0


def is_hidden(ready_at: int) -> bool:
    """Whether a message of a group keeps those behind it back: it is claimed or delayed."""
    return ready_at not in (0, limits.BEHIND)


def state(settings: Settings, now: int, ready_at: int, receives: int, is_claimed: bool) -> MessageState:
    """The state of a message at an instant. `is_claimed` says that its `ready_at` is the end of a claim, if it has one:
    it was received, and its latest claim was not released with a delay."""
    if ready_at in (0, limits.BEHIND):
        return MessageState.READY
    if ready_at > now:
        return MessageState.CLAIMED if is_claimed else MessageState.DELAYED
    backs_off = is_claimed and ready_at + backoff_ms(settings, receives) > now
    return MessageState.DELAYED if backs_off else MessageState.READY


def refuse_conflict(source: str, target: str | None, unfinished: Iterable[Move]) -> None:
    """One move of a queue at a time: two in a ring would carry the same messages round forever. A dry run disturbs no
    other."""
    for move in unfinished:
        if not move.terms.dry_run and (source in (move.source, move.target) or target == move.source):
            raise MoveConflict(source, target)


def takes_everything(move: Move) -> bool:
    """Whether a move takes all there is to its target, and so needs to look at none of it."""
    is_whole = move.terms.selection == Selection() and not move.terms.dry_run
    return is_whole and move.target is not None and move.terms.action is MoveAction.MOVE


def takes_claimed(move: Move) -> bool:
    """What is claimed stays, unless it is asked for."""
    terms = move.terms
    is_meant = terms.selection.state is MessageState.CLAIMED or terms.action is MoveAction.RELEASE
    return move.claimed or is_meant


def aged(selection: Selection, ages: Ages, now: int) -> Selection:
    """An age becomes an instant, so that what takes long means the same messages to its end."""
    if ages == ANY_AGE:
        return selection
    return msgspec.structs.replace(
        selection,
        sent_since=None if ages.newer_than_ms is None else now - ages.newer_than_ms + 1,
        sent_until=None if ages.older_than_ms is None else now - ages.older_than_ms,
    )


def move_room(move: Move, limit: int) -> int:
    """How many messages one step may move, of `limit` at most."""
    terms = move.terms
    if terms.per_second is not None and not terms.dry_run:
        limit = min(limit, max(1, terms.per_second // _STEPS_PER_SECOND))
    if terms.limit is not None:
        done = move.matched - move.homeless if terms.dry_run else move.moved
        limit = min(limit, terms.limit - done)
    return max(0, limit)


def move_next_at(move: Move, moved: int, now: int) -> int:
    """When a move that has just moved this many messages may continue."""
    per_second = move.terms.per_second
    return now - -moved * 1_000 // per_second if per_second and moved else move.next_at


def move_wait_ms(move: Move, now: int) -> int:
    """How long a move has to wait. Never longer than a step may cost: clocks are set back now and then."""
    wait = move.next_at - now
    return wait if 0 < wait <= _LONGEST_PAUSE_MS else 0


def changed(settings: Settings, change: QueueChange) -> Settings:
    """The settings of a queue after a change."""
    changes = {name: value for name in settings.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    if change.labels is not UNSET:
        named = {**settings.labels, **change.labels}
        changes["labels"] = {key: value for key, value in named.items() if value is not None}
    if change.keeps_dedup and change.dedup is not Dedup.OFF and settings.dedup is not Dedup.OFF:
        changes["dedup"] = settings.dedup
    return msgspec.structs.replace(settings, **changes)


def check_number(ref: ShipmentRef | ExportRef, last: int, is_open: bool) -> None:
    """Shipments and exports of a consumer are numbered from 1, one open at a time.

    `last` is the consumer's last number, 0 for none, and `is_open` says whether that one has not ended. Raises
    ShipmentConflict for any number but the one that is open or, where none is, the next.
    """
    expected = last if is_open else last + 1
    if ref.number != expected:
        raise ShipmentConflict(ref, expected)
