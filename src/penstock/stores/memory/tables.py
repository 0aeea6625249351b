"""What the memory store holds, and how a lost unit is taken back.

Rows are never changed, only replaced, and every replacement goes through one of the methods here: each notes
how to restore what was there before. The verbs need not think about failure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock import ids, limits, policy
from penstock.model import (
    Action,
    Draft,
    Export,
    Happened,
    Held,
    Key,
    Lease,
    LedgerMode,
    LedgerRow,
    Move,
    Outcome,
    Queue,
    Registration,
    Shipment,
)
from penstock.stores.figures import FigureBook, count, place_of


class QueueRow(Struct, frozen=True):
    """A deleted queue keeps its row until a sweep has freed its messages."""

    queue: Queue
    deleted: bool = False
    # The longest retention it had before that was lowered, and the last message that was there then.
    kept_ms: int = 0
    lowered_through: int = 0
    arrived: int = 0
    departed: int = 0


class MessageRow(Struct, frozen=True):
    """A message where it is now: `queue` is the number of its queue. `put_off` says that its latest claim was released
    with a delay."""

    seq: int
    queue: int
    sent_at: int
    draft: Draft
    body_hash: bytes
    dedup_key: bytes | None
    ready_at: int
    receives: int = 0
    claim: int = 0
    first_claimed_at: int | None = None
    last_claimed_at: int | None = None
    put_off: bool = False
    came_from: str | None = None

    @property
    def is_delayed(self) -> bool:
        """Rather than claimed, until its `ready_at` has passed."""
        return self.receives == 0 or self.put_off

    @property
    def size(self) -> int:
        """Of what is handed out: the body and the attributes, as they are stored."""
        attributes = self.draft.attributes
        return len(self.draft.body) + (len(msgspec.json.encode(attributes)) if attributes else 0)

    def is_held(self, now: int) -> bool:
        """Whether a claim on it lasts."""
        return now < self.ready_at != limits.BEHIND and not self.is_delayed

    def waits(self, now: int) -> bool:
        """Whether a delay of it lasts."""
        return now < self.ready_at != limits.BEHIND and self.is_delayed


class ShipmentRow(Struct, frozen=True):
    """`seqs` are its messages, of which the first `cleared` have been dealt with by its end. `kept` are messages that
    have left their queue; as long as it is `readable`, they can still be read, and then they are freed."""

    queue: int
    shipment: Shipment
    seqs: tuple[int, ...] = ()
    cleared: int = 0
    readable: bool = False
    kept: tuple[MessageRow, ...] = ()


class LedgerCounted(Struct, frozen=True):
    """What the ledger holds up to the row of a number."""

    through: int = 0
    rows: int = 0
    bytes: int = 0


class SendingRow(Struct, frozen=True):
    digest: bytes
    count: int
    stored: int
    sent_at: int


class SeenRow(Struct, frozen=True):
    """The first message with a dedup key, which is known again `until` an instant, unless a purge has it forgotten."""

    seq: int
    sent_at: int
    until: int
    forgotten: bool = False


class AttemptRow(Struct, frozen=True):
    """What a claim took that may be repeated: messages by their numbers and claims, in the order it handed them out."""

    held: tuple[Held, ...]
    claimed_at: int


class ConsumerRow(Struct, frozen=True):
    """A consumer that is registered with a queue, as the `rank`th since the queue was made."""

    queue: int
    rank: int
    consumer: Registration
    beat_at: int
    held: frozenset[Held] = frozenset()


class Tables:
    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.queues: dict[int, QueueRow] = {}
        self.numbers: dict[str, int] = {}
        self.messages: dict[int, MessageRow] = {}
        self.ledger: list[LedgerRow] = []
        self.ledger_counted = LedgerCounted()
        self.moves: dict[str, Move] = {}
        self.keys: dict[str, Key] = {}
        # When sessions that were signed out of would have ended by themselves.
        self.session_ends: dict[str, int] = {}
        self.actions: list[Action] = []
        self._last_action_number = 0
        # By the number of the queue, the consumer, and the shipment's own number.
        self.shipments: dict[tuple[int, str, int], ShipmentRow] = {}
        # By the number of the queue and the name.
        self.leases: dict[tuple[int, str], Lease] = {}
        self.exports: dict[tuple[str, int], Export] = {}
        self.sendings: dict[tuple[int, str], SendingRow] = {}
        self.consumers: dict[str, ConsumerRow] = {}
        # By the number of the queue and what a caller has named.
        self.seen: dict[tuple[int, bytes], SeenRow] = {}
        self.attempts: dict[tuple[int, str], AttemptRow] = {}
        # By the number of the queue and the group, the messages of a line; and those of them that were changed.
        self.lines: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        self.touched: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        # Twins that have collapsed and are not finished: the key, by the number of its queue, and up to which message.
        self.collapsing: dict[tuple[int, bytes], int] = {}
        self.last_seq = 0
        # By queue number, (ready_at, seq): ready messages first, by age, then the others by when they are due.
        # A deque, because a queue works at the ends: there, `insort` and `del` cost the same at any depth.
        self.order: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self._by_key: defaultdict[tuple[int, bytes], set[int]] = defaultdict(set)
        self._last_ledger_number = 0
        self._counters = (0, 0)
        self._undo: list[Callable[[], None]] = []
        # What the unit under way has done.
        self.happened: Happened = {}
        self.figures = FigureBook(self._undo.append, is_known=lambda number: number in self.queues)

    # Units

    def keep(self) -> None:
        self._undo.clear()
        self.touched.clear()
        self._counters = (self.last_seq, self._last_ledger_number)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
        self.touched.clear()
        self.last_seq, self._last_ledger_number = self._counters

    # Queues

    def put_queue(self, row: QueueRow) -> None:
        number = row.queue.number
        self._undo.append(partial(self._set_queue, number, self.queues.get(number)))
        self._set_queue(number, row)

    def _set_queue(self, number: int, row: QueueRow | None) -> None:
        former = self.queues.pop(number, None)
        if former is not None and not former.deleted:
            del self.numbers[former.queue.name]
        if row is not None:
            self.queues[number] = row
            if not row.deleted:
                self.numbers[row.queue.name] = number

    def forget_queue(self, number: int) -> None:
        self._undo.append(partial(self._set_queue, number, self.queues[number]))
        self._set_queue(number, None)
        self.figures.forget(number)

    def living_queues(self) -> list[Queue]:
        return [self.queues[number].queue for number in sorted(self.numbers.values())]

    # Messages

    def arrive(self, row: MessageRow) -> None:
        self.put_message(row)
        there = self.queues[row.queue]
        self.put_queue(replace(there, arrived=there.arrived + 1))

    def depart(self, row: MessageRow, outcome: Outcome, now: int) -> None:
        """The message is no longer in its queue, and the ledger says why."""
        here = self.queues[row.queue]
        self._record(here.queue, row, outcome, now)
        self._undo.append(partial(self._set_message, row.seq, row))
        self._set_message(row.seq, None)
        count(self.happened, row.queue, place_of(outcome), 1)
        self.put_queue(replace(here, departed=here.departed + 1))

    def put_message(self, row: MessageRow) -> None:
        self._undo.append(partial(self._set_message, row.seq, self.messages.get(row.seq)))
        self._set_message(row.seq, row)

    def _set_message(self, seq: int, row: MessageRow | None) -> None:
        former = self.messages.pop(seq, None)
        if former is not None:
            order = self.order[former.queue]
            del order[bisect_left(order, (former.ready_at, seq))]
            if former.dedup_key is not None:
                twins = self._by_key[former.queue, former.dedup_key]
                twins.discard(seq)
                if not twins:
                    del self._by_key[former.queue, former.dedup_key]
            self._leave_line(former)
        if row is not None:
            self.messages[seq] = row
            insort(self.order[row.queue], (row.ready_at, seq))
            if row.dedup_key is not None:
                self._by_key[row.queue, row.dedup_key].add(seq)
            self._join_line(row)

    def _line(self, row: MessageRow) -> tuple[int, str] | None:
        """In which a message stands."""
        group, here = row.draft.group, self.queues.get(row.queue)
        if group is None or here is None or not policy.waits_in_line(here.queue.settings, group):
            return None
        self.touched[row.queue, group].add(row.seq)
        return row.queue, group

    def _leave_line(self, row: MessageRow) -> None:
        line = self._line(row)
        if line is not None:
            del self.lines[line][bisect_left(self.lines[line], row.seq)]
            if not self.lines[line]:
                del self.lines[line]

    def _join_line(self, row: MessageRow) -> None:
        line = self._line(row)
        if line is not None:
            insort(self.lines[line], row.seq)

    def in_order(self, number: int, ready_at: int = 0, seq: int = 0) -> Iterator[MessageRow]:
        """The messages of a queue after this place. Each step looks again, so rows may change in between."""
        order = self.order[number]
        while (index := bisect_right(order, (ready_at, seq))) < len(order):
            ready_at, seq = order[index]
            yield self.messages[seq]

    def in_line(self, line: tuple[int, str]) -> Iterator[MessageRow]:
        """The messages of a line, in the same way."""
        seq = 0
        while (index := bisect_right(order := self.lines.get(line, ()), seq)) < len(order):
            seq = order[index]
            yield self.messages[seq]

    def some_with_key(self, number: int, key: bytes) -> Iterator[MessageRow]:
        """In no order, and none is looked at before it is asked for."""
        return (self.messages[seq] for seq in self._by_key.get((number, key), ()))

    def with_key(self, number: int, key: bytes) -> list[MessageRow]:
        return [self.messages[seq] for seq in sorted(self._by_key.get((number, key), ()))]

    # Ledger

    def _record(self, queue: Queue, row: MessageRow, outcome: Outcome, now: int) -> None:
        mode = queue.settings.ledger
        if mode is LedgerMode.OFF:
            return
        self._last_ledger_number += 1
        self.ledger.append(
            LedgerRow(
                number=self._last_ledger_number,
                queue=queue.name,
                id=ids.make_id(self.origin, row.sent_at, row.seq),
                sent_at=row.sent_at,
                first_claimed_at=row.first_claimed_at,
                last_claimed_at=row.last_claimed_at,
                finished_at=now,
                receives=row.receives,
                outcome=outcome,
                size=len(row.draft.body),
                body_hash=row.body_hash,
                content_type=row.draft.content_type,
                body=row.draft.body if mode is LedgerMode.BODIES else None,
            )
        )
        self._undo.append(self._unrecord)

    def _unrecord(self) -> None:
        self.ledger.pop()

    # Actions; a number that a lost unit has taken stays away, as it may in any store

    def put_action(self, action: Action) -> None:
        self._last_action_number += 1
        self.actions.append(replace(action, number=self._last_action_number))
        self._undo.append(self._take_back_action)

    def _take_back_action(self) -> None:
        self.actions.pop()

    # Dedup keys of a window

    def put_seen(self, place: tuple[int, bytes], row: SeenRow | None) -> None:
        self._undo.append(partial(self._set_seen, place, self.seen.get(place)))
        self._set_seen(place, row)

    def _set_seen(self, place: tuple[int, bytes], row: SeenRow | None) -> None:
        if row is None:
            self.seen.pop(place, None)
        else:
            self.seen[place] = row

    # What is small, or rarely changed, is replaced as a whole.

    def replace(
        self,
        name: Literal[
            "ledger",
            "ledger_counted",
            "moves",
            "keys",
            "session_ends",
            "shipments",
            "leases",
            "exports",
            "sendings",
            "consumers",
            "collapsing",
            "attempts",
            "actions",
        ],
        value: object,
    ) -> None:
        self._undo.append(partial(setattr, self, name, getattr(self, name)))
        setattr(self, name, value)
