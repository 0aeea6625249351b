"""The contract that every store keeps. The conformance suite in `tests/stores/` is this file, executed.

A store holds queues and messages and applies verbs to them. It reads no clock and draws no random number after it was
made: every instant is a parameter, so that a test of expiry is instant. It blocks; waiting and waking up are the
broker's work.

Nor does it know how long a unit takes. Whatever may be long is a verb that does so many rows of it, or bytes, and says
what is left: the caller has it go on in another unit, with more rows or fewer.

The life of a message, as a store sees it:

    send ──► ready (ready_at = 0) ──claim──► claimed (ready_at = until) ──ack──► gone, with a ledger row
               ▲                                │
               └── ready_at has passed, or release

`ready_at` is one field with one meaning: the message cannot be claimed before that instant. It is set by a delay and by
a claim. A message is delayed, not claimed, until it is received for the first time, and once its claim was released
with a delay. A message whose `ready_at` has passed is ready, whether or not the row says so yet; but in a queue with a
backoff, one whose claim has run out is delayed for `policy.backoff_ms` from then on. A claim sees to such rows first
(at most `promote_rows` of them, or as many as it asks for), then takes the oldest ready ones by sequence number.

In a queue with `Groups.FIFO` the messages of a group form a line, by sequence number. A claim may take, of a line, the
messages from the first up to one that is hidden: claimed, or delayed. The others wait behind it, and count as ready.
The first of a line has a `ready_at` as any message; the others have that of their own claim, or `limits.BEHIND`. Every
verb leaves lines so: where the first one leaves, the next one has its turn. A message in line has the delay of its
queue, as that is when its turn comes, and none of its own. A message without a group waits for no other.

Several processes may hold the same store. Verbs are correct because they run in a transaction, never because a process
is alone.

`Unit` is what every store has: queues, and messages that are sent, claimed and acked. Everything else is a noun with
verbs of its own (`Messages`, `Moves`, `Shipments`, `Leases`, `Ledger`, `Exports`, `Consumers`, `Keys`, `Actions`), an
attribute of the unit that is None where a store has no such thing. Names in backticks such as `promote_rows` are fields
of `limits.Limits`.

One file because it is read as one: those who write a store or call one find every promise here.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Literal, Protocol, TypeVar, runtime_checkable

from penstock.errors import FeatureMissing, QueueExists
from penstock.limits import Limits
from penstock.model import (
    WHOLE,
    Action,
    ActionFilter,
    ActionKind,
    Actor,
    Attendance,
    Bucket,
    Claimed,
    ConsumerReport,
    Count,
    Counted,
    Dealing,
    Depths,
    Draft,
    Ending,
    Export,
    ExportRef,
    Found,
    Happened,
    Held,
    Key,
    KeyUse,
    Lease,
    LedgerFilter,
    LedgerRow,
    LedgerScan,
    LedgerSize,
    Message,
    Move,
    MoveTerms,
    Numbered,
    Outcome,
    PeekAfter,
    Purged,
    Queue,
    QueuePage,
    Receipt,
    Registration,
    Reservation,
    Scan,
    Selection,
    Sent,
    SentOnce,
    Settings,
    Shipment,
    ShipmentRef,
    Sizes,
    Span,
    Tally,
    Totals,
    Trace,
)

T = TypeVar("T")


class Unit(Protocol):
    """The verbs, inside one unit of durability.

    A verb either does all it says or raises before it has changed anything, so a caller may catch a `CallerError` and
    go on with the unit. After any other error the unit is lost.

    A store that has `messages` keeps every setting of a queue and everything a `Draft` and a `Receipt` can say. One
    that has none may refuse a value that it cannot keep: the verb raises FeatureMissing.
    """

    @property
    def stirred(self) -> set[str]:
        """The queues in which this unit has made messages ready by other means than `send`: by a release, a shortened
        claim, a move, a dead letter, or whatever gives the next message of a line its turn, such as an ack; and those
        it has resumed or deleted. A caller who waits for one of them should look again.
        It may name a queue too many, never one too few. To be read before the unit ends."""

    @property
    def sent_to(self) -> set[str]:
        """The queues to which this unit has sent messages. To be read before the unit ends."""

    @property
    def happened(self) -> Happened:
        """What this unit has done in queues, by their numbers; of a queue that was deleted meanwhile as well. To be
        copied before the unit ends, and to be counted once it has ended well; the lists then belong to the reader."""

    # Nouns

    @property
    def figures(self) -> Figures: ...

    @property
    def messages(self) -> Messages | None: ...

    @property
    def moves(self) -> Moves | None: ...

    @property
    def shipments(self) -> Shipments | None: ...

    @property
    def leases(self) -> Leases | None: ...

    @property
    def ledger(self) -> Ledger | None: ...

    @property
    def exports(self) -> Exports | None: ...

    @property
    def consumers(self) -> Consumers | None: ...

    @property
    def keys(self) -> Keys | None: ...

    @property
    def actions(self) -> Actions | None: ...

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        """A new, empty queue, last in creation order.

        Raises QueueExists, InvalidRequest as `policy.check_settings` does, and DeadLetterQueueNotFound where the
        redrive names a queue that does not exist: a queue becomes its own dead-letter queue by an update.
        """

    def update_queue(self, name: str, settings: Settings, now: int) -> Queue:
        """Replace all settings. Messages keep the `ready_at` and the dedup key they have.

        A lower retention counts for the messages that are there when they are claimed next: see `sweep`.

        Raises QueueNotFound and DeadLetterQueueNotFound, and InvalidRequest as `policy.check_settings` does. A queue
        may be its own dead-letter queue.
        """

    def delete_queue(self, name: str, now: int) -> Queue:
        """The queue and its messages are gone for every verb at once; their rows are freed by `sweep`.

        Queues that used it for their dead letters lose their redrive. The name may be used again, for a queue that
        shares nothing with this one. Raises QueueNotFound.
        """

    def pause_queue(self, name: str, now: int) -> Queue:
        """From now on claims of every kind find nothing in the queue, until it is resumed: those of `claim`, and those
        of attempts, shipments and consumers. They do not touch its messages either, so nothing becomes a dead letter.

        Everything else goes on: sends, acks, renewals and releases, peeks, counts, moves, purges and the sweep. An
        attempt that still holds its messages, and a shipment that is open, were claimed before: asking for them again
        is answered as ever. A shipment that is gathering is complete with what it has.

        It is a state, not a setting: an update does not end it, and `modified_at` stays. Pausing a paused queue keeps
        the instant it has. A unit that begins after this one has ended sees it, in every process. Raises QueueNotFound;
        a store without `messages` may raise FeatureMissing.
        """

    def resume_queue(self, name: str, now: int) -> Queue:
        """End the pause: those who wait for its messages are told by `stirred`. Resuming a queue that is not paused
        changes nothing. Raises as `pause_queue`."""

    def find_queue(self, name: str) -> Queue | None:
        """With its settings as this unit sees them, its own changes included; None where there is none of this name, or
        it was deleted."""

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        """In creation order, with the number of all queues."""

    def page_queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        """Those whose names begin so, by name, in the order of their characters' numbers; the first after a name."""

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> list[Queue]:
        """In the same order, the queues whose dead letters go to this one. Raises QueueNotFound."""

    def take_turns(self, queues: Iterable[str]) -> None:
        """Say which queues this unit is going to send to, claim from and ack in. Units of several servers that have to
        wait for each other then do so here, in one order, and never in a ring. Never needed for correctness."""

    # Messages on their way through

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        """Append messages in the order given; one result each. Raises QueueNotFound, and InvalidRequest as
        `policy.refuse_own_delay` does.

        In a queue with `Dedup.SEND`, a draft whose key belongs to a message that is still in the queue (ready, delayed
        or claimed, but not past its retention) or earlier in this call is not stored, and the result names that
        message, the oldest if there are several. One past its retention loses its key for good to the later one.

        In a queue with `Dedup.WINDOW`, a draft with the same `policy.window_key` as one that was sent less than
        `dedup_window_ms` before, as that was then, is not stored, and the result names that one, which may be gone. A
        message that comes by a move is not asked.

        Missing attributes and empty attributes are the same.
        """

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        """Take up to `limit` ready messages, oldest first, until now + `hold_ms`: none in a paused queue. Raises
        QueueNotFound.

        It stops early, but never before the first message, when their bodies come to `claim_bytes`. None holds them for
        the queue's visibility time; 0 hands them out and leaves them ready (their `ready_at` says now). Each delivery
        adds one to `receives`, and one to `claim`, which never goes back.

        `policy.judge` decides about every message seen: expired and failed ones finish, dead letters move to the
        dead-letter queue as by `move`, and the claim goes on to the next; what it has put into its own queue again, it
        passes over. Dead letters remember the queue they came from, until they are there again.

        In a queue with `Dedup.CLAIM`, when a message is handed out for the first time, the ready messages behind it
        that have the same key and were never handed out finish as collapsed: at once up to `collapse_rows` of them, or
        two for each message that is handed out, the others by later claims and sweeps. None of them is handed out
        meanwhile; nor is a delayed one that becomes ready meanwhile.

        In a queue with `Groups.FIFO`, of lines: the one whose first message is the oldest, as far as it may be taken,
        then the next. What finishes or dies gives way to those behind it; but a dead letter that stays in its own line
        keeps them back.
        """

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        """Finish messages as processed; True for each that was there.

        A receipt with a `claim` matches only while that claim is the message's latest, also after it has run out; one
        with a `queue` only while the message is in it. In a queue with `Groups.FIFO` a `claim` matches only while it
        lasts, until it runs out or is released: afterwards the line may have moved on. The case of the letters in an id
        does not matter. A message finishes once, however often this call names it.
        """

    def count(self, queue: str, now: int, limit: int) -> Count:
        """How many messages there are, by state; those past their retention too until they are gone.

        Touches at most a few times `limit` rows. Raises QueueNotFound.
        """

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        """The same of each of these queues, as `list_queues` has given them, for few statements more than one costs.

        Of a queue that was deleted meanwhile, what has not been freed.
        """

    def next_due(self, queue: str, now: int) -> int | None:
        """The earliest instant after `now` at which a delay or a claim of the queue ends: then a message becomes ready,
        or its backoff begins.

        None where there is none, the queue is paused, or it does not exist.
        """

    # Housekeeping

    def sweep(
        self, now: int, limit: int, ledger_before: int, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        """Free space, at most about `limit` rows of it, and say how many: messages of deleted queues (as purged),
        ready messages past their retention, twins that have collapsed, ledger rows finished before
        `ledger_before`, the oldest ones while `Ledger.size` is more than `ledger_bytes`, actions done before
        `actions_before`, moves that ended `move_kept_ms` ago, buckets of figures that are past their span,
        ended shipments (but the latest of each consumer), leases that are over, and sends with a key, claims with an
        attempt and dedup keys of a window that are no longer remembered. Shipments without a heartbeat in time are lost
        here, and those whose end is not finished go on ending. Consumers without a sign of life are cleared
        away as by `Consumers.reap`.

        Messages that were there when the retention of their queue was lowered stay until a claim meets them, or
        they are past the longest retention it had before. A deleted queue is forgotten altogether once the
        ledger does not name it any more. Never needed for correctness. Done again and again, it frees all that
        can be freed.
        """

    def shrink(self, limit: int) -> int:
        """Give back to the file system about `limit` bytes that the store holds and does not use, and say how many: 0
        when there are none, or this is not the store's own affair. It gives back fewer where that would take long.
        Never needed for correctness. Done again and again, it gives back all that `Figures.sizes` calls unused, if the
        store `shrinks`.
        """

    def prove_writable(self) -> None:
        """Show whether the store can be written to: raises StoreUnavailable, here or at the end of the unit, where it
        cannot. Nothing is changed."""


class Messages(Protocol):
    """What else can be done to messages, beyond the send, claim and ack that every store has: send or claim them once
    by a key, hold them for longer and give them back, look at them, and remove them.

    One noun, because a store keeps all of it or none: each verb needs what only such a store has, receipts that name a
    claim, the order of `peek`, or a memory of earlier sends. See `Unit` for what else comes with it.
    """

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        """Like `send`, unless a send to this queue with the same key is remembered: then nothing is stored and its
        result is repeated. `digest` stands for the content. Remembered for `idempotency_ms`.

        Raises QueueNotFound, and SendConflict where the remembered digest is another.
        """

    def claim_once(self, queue: str, attempt: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        """Like `Unit.claim`, unless a claim from this queue with the same attempt is remembered, and every message that
        it took is still held by it: then these messages are handed out again under the same claims, which last as long
        as new ones, also in a paused queue. Remembered for `attempt_ms`, unless nothing was there to take.
        """

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        """Hold messages until `until`; True for each that was there. Matches as `ack` does.

        A later end stays as it is unless `shorten` is set. A claim that has run out comes back to life. A message that
        was never received counts as received once from then on, and one that was released with a delay is claimed
        again.
        """

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        """End the claims on these messages: they are ready after `delay_ms`, or now where that is 0. None delays each
        as the backoff of its queue says. Matches as `ack` does.

        A claim that has run out can still be released with a delay. A delayed message has no claim to end: it is there,
        and stays delayed for as long as it was. One that was never received stays as it is. A claim that a renewal has
        made, without a delivery, counts as the first once it is released with a delay.
        """

    def release_all(self, queue: str, now: int, limit: int) -> int:
        """End up to `limit` claims of a queue, beginning with those that would run out first, and say how many.

        Delayed messages stay delayed; claims that have run out have ended already. Raises QueueNotFound.
        """

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        """The queue each message is in, for those that are there. Matches as `ack` does, but also after the claim has
        run out."""

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        """Messages in any state, changing nothing: ready ones by age, then the others by `ready_at`.

        It stops early, but never before the first message, when their bodies come to `page_bytes`. Raises
        QueueNotFound.
        """

    def scan(
        self, queue: str, selection: Selection, now: int, limit: int, rows: int, after: PeekAfter | None = None
    ) -> Scan:
        """A peek that shows only what is selected, by states as `policy.state` tells them: up to `limit` of the next
        `rows` messages, changing nothing.

        It looks at fewer, but at least at one, when the bodies that it had to read come to `move_bytes`. What changes
        its place in the order between two steps may be passed over or seen twice. Raises QueueNotFound.
        """

    def find(self, queue: str, message_id: str, now: int, lock: bool = False) -> Found | None:
        """A message of this queue in any state, in a shipment too; None where it is not there. With `lock`, no other
        unit can change it before this one ends. Raises QueueNotFound."""

    def delete(self, queue: str, message_ids: Sequence[str], now: int) -> list[Dealing]:
        """Finish messages as purged, in any state but in a shipment, and say what became of each. Raises
        QueueNotFound."""

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        """Finish up to `limit` messages whose `seq` is at most `through`, claimed ones too, in the order of `peek`, and
        say how many. The dedup keys of a window are forgotten up to there as well. Raises QueueNotFound."""

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        """Look at up to `limit` messages behind `after` in the order of `peek`, and finish those that were sent before
        this instant and whose `seq` is at most `through`, claimed ones too. Raises QueueNotFound.

        Young messages are looked at once and left alone. One that changes its place meanwhile, because its claim ends
        or its turn has come in a line, may be missed.
        """

    def last_seq(self) -> int:
        """The highest sequence number given out so far: the `through` of a purge or move that starts now.

        Numbers of a lost unit may be lost with it.
        """


class Moves(Protocol):
    """Messages on their way from one queue to another: within one unit, or in steps that the store remembers. In the
    same steps they can be deleted or released instead: see `MoveAction`."""

    def move(
        self,
        source: str,
        target: str,
        now: int,
        limit: int,
        through: int,
        claimed: bool = False,
        as_new: bool = False,
    ) -> int:
        """Move up to `limit` messages whose `seq` is at most `through`, those that are claimed only with `claimed`.

        In the order of `peek`; but those of a queue with `Groups.FIFO` that are delayed or claimed first, and all
        others by age, so that a line keeps its order. They keep their id, age, delay and dedup key (a target that asks
        for keys gives one to those that have none), and arrive unclaimed with `receives` 0; in the source's ledger they
        have moved. Where the target already holds the same dedup key, the message finishes and the one there stays; but
        a target with `Dedup.CLAIM` takes both. Where the target has `Groups.FIFO`, those with a group stand in line
        there, by their sequence numbers, and have no delay of their own any more. Returns how many left the source:
        none when source and target are one queue. Raises QueueNotFound.

        With `as_new` they get new sequence numbers, and so new ids, and the age of a message sent now. They are as if
        they had been sent to the target without a delay of their own, and their claims count from 0.
        """

    def move_named(
        self, queue: str, message_ids: Sequence[str], target: str | None, now: int, as_new: bool = False
    ) -> Sequence[Dealing]:
        """Move messages as `move` does, in any state but in a shipment, and say what became of each. Without a target,
        each dead letter goes to the queue it came from. One whose way would end in its own queue is HOMELESS, and stays
        as it is. Raises QueueNotFound."""

    def start(
        self,
        move_id: str,
        source: str,
        target: str | None,
        now: int,
        claimed: bool = False,
        terms: MoveTerms = WHOLE,
        by: Actor | None = None,
    ) -> Move:
        """Remember that what is now in `source` is to move to `target`, as `terms` say; where that is None, each dead
        letter to the queue it came from. The queues need not exist yet. `by` is who
        wants it, for those who read the move.

        What is claimed stays, unless `claimed` is set or the selection asks for claimed messages. With
        `MoveAction.DELETE` messages finish as purged instead; with `MoveAction.RELEASE` the claims end that are held
        now, and their messages are ready. Neither has a target. What is in a shipment is never touched.

        Raises MoveConflict as `policy.refuse_conflict` does.
        """

    def step(self, move_id: str, now: int, limit: int) -> Move:
        """Look at up to `limit` messages further, move, delete or release those that are meant, and say how far it is.

        It is complete when a step finds nothing left, or the source is gone, or as many have moved as its limit says;
        it ends in error when the target is gone, and what has not moved by then stays where it is. A step before its
        pace allows it does nothing. Raises MoveNotFound.
        """

    def cancel(self, move_id: str, now: int) -> Move:
        """Move nothing further. One that has ended stays as it is. Raises MoveNotFound."""

    def hold(self, move_id: str, now: int) -> Move:
        """As it is, and as it stays until this unit ends but for what this unit does. Raises MoveNotFound."""

    def find(self, move_id: str, now: int) -> Move | None:
        """None for one that never was, or is not remembered any more: every verb takes it for one that never was. What
        has ended is remembered for `move_kept_ms`, whether or not a sweep has come by since."""

    def list(self, limit: int, now: int) -> Sequence[Move]:
        """Those that are remembered, the latest first."""

    def unfinished(self) -> Sequence[str]:
        """The ids of those that have not ended, in the order of their start."""


class Shipments(Protocol):
    """Messages for one named consumer, which it reads as often as it likes until they end together.

    What has ended is remembered for `shipment_remembered_ms`, and the latest of each consumer forever. One whose time
    has run out is as a claim whose time has: late is fine until somebody else gets its messages. So it can be read,
    settled, released and prolonged until a sweep has declared it lost, which ends it for all.

    Only their shipment, a purge and the deletion of the queue touch them: their `ready_at` is `limits.SHIPPED`, and no
    receipt matches. Every verb raises QueueNotFound for the queue it names.
    """

    def claim(
        self,
        ref: ShipmentRef,
        limit: int,
        now: int,
        hold_ms: int,
        step: int | None = None,
        max_bytes: int | None = None,
    ) -> Shipment | None:
        """Claim ready messages, as `Unit.claim` does, for this shipment: at most `step` a call, or `claim_rows`, up to
        `limit` in all. While the answer is GATHERING, the caller calls again. OPEN is complete: claiming the same
        number again returns the same messages, and only prolongs it. None: nothing was ready, and nothing was made.

        With `max_bytes`, it is complete as soon as their bodies come to that many, or would come to more with the next
        message, which then stays where it is. The first one is taken however long it is.

        It lasts until now + `hold_ms`. Raises ShipmentEnded for a number that has ended, and ShipmentConflict for one
        that is neither the open one nor, where none is open, the one after the last.
        """

    def find(self, ref: ShipmentRef, now: int) -> Shipment | None:
        """None for one that never was, or is not remembered any more: every verb takes it for one that never was."""

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, now: int, after_consumer: str = ""
    ) -> Sequence[Shipment]:
        """By consumer, then by number; of every consumer, of those after `after_consumer`, or of one; those with
        numbers above `after`."""

    def list_open(self, queue: str, limit: int) -> Sequence[Shipment]:
        """Those of a queue that have not ended, by consumer."""

    def count_open(self, limit: int) -> int:
        """How many of all queues have not ended; at most `limit` are counted."""

    def read(self, ref: ShipmentRef, start: int, limit: int, now: int) -> Sequence[Message]:
        """The messages from position `start` (the first is 0) on, by sequence number, changing nothing. It stops early,
        but never before the first message, when their bodies come to `page_bytes`; none past the end.

        Raises ShipmentNotFound, ShipmentConflict while it is gathering, and ShipmentEnded when it is no longer open, or
        messages at these positions have left by a purge. One that was settled with `keep` can be read until the
        consumer's next one is settled, or `shipment_kept_ms` have passed since; whether or not a sweep has freed it.
        """

    def settle(self, ref: ShipmentRef, now: int, limit: int, keep: bool = False, stored_in: str | None = None) -> int:
        """Finish its messages as processed, at most `limit` a call, and say how many: 0 when all is done. The first
        call decides: from then on the shipment is settled, and `sweep` finishes what no further call finishes. Where
        the consumer has stored the messages is remembered with it, if the first call says so.

        Settling a settled one changes nothing. Raises ShipmentNotFound, ShipmentConflict while it is gathering, and
        ShipmentEnded for one that ended otherwise.
        """

    def release(self, ref: ShipmentRef, now: int, limit: int) -> int:
        """The same, but its messages are ready again. A released or lost one stays as it is; ShipmentEnded is raised
        for a settled one. One that is gathering may be released."""

    def beat(self, ref: ShipmentRef, now: int, hold_ms: int) -> Shipment:
        """A heartbeat: it lasts until now + `hold_ms`, also one whose time had passed unnoticed. Raises
        ShipmentNotFound and ShipmentEnded."""


class Leases(Protocol):
    """One at a time: what a name stands for in a queue is done by the one who holds the lease of this name, and by no
    other until that one gives it up, or its time has run out. Then it is as if there had been none, whether or not a
    sweep has come by since. Leases go with their queue.
    """

    def take(self, queue: str, name: str, holder: str, now: int, hold_ms: int) -> Lease:
        """The lease is this holder's until now + `hold_ms`, if it is free or this holder's already. Of several who take
        a free one at once, one gets it. Raises QueueNotFound, and LeaseHeld where another one has it."""

    def find(self, queue: str, name: str, now: int) -> Lease | None:
        """None where no one has it. Raises QueueNotFound."""

    def drop(self, queue: str, name: str, holder: str, now: int) -> bool:
        """Free it, if it is this holder's; False where it is not, or the queue does not exist."""


class Figures(Protocol):
    """How often things have happened in queues, and what was in them: totals, and a history in buckets. They are added
    now and then by those who hold the store, and are those of all of them; a store that cannot keep them has those of
    this process. Queues are named by their numbers: one that is gone leaves none to another of its name."""

    def add(self, happened: Mapping[int, Sequence[int]], now: int) -> None:
        """Add what has happened, as `Unit.happened` tells it, to the totals and to the buckets of this instant. What
        has happened in a queue that is forgotten altogether is passed over, or it would be kept forever."""

    def sample(self, depths: Mapping[int, Depths], now: int) -> None:
        """Note in the buckets of this instant what is in queues now."""

    def totals(self, queues: Sequence[int]) -> dict[int, Totals]:
        """All that has ever happened in these queues; those in which nothing has may be left out."""

    def active(self, since: int, after: tuple[int, int], limit: int) -> list[Bucket]:
        """The buckets of a minute of all queues that begin at this instant or later, by their beginning and the number
        of the queue; the first after such a pair."""

    def history(self, queue: int, span: Span, since: int) -> list[Bucket]:
        """Those of one queue, of a minute or of ten, in their order."""

    def sizes(self) -> Sizes:
        """How much the store takes, as far as that can be told quickly."""


class Ledger(Protocol):
    """What became of messages."""

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        """In the order the messages finished, after row number `after`; all, or those wanted.

        It stops early as `peek` does. Rows by time are found on the understanding that they stand by time, to within
        `ledger_disorder_ms`: where a clock was set back by more, some from around then may be passed over.
        """

    def latest(
        self,
        below: int | None,
        limit: int,
        rows: int,
        wanted: LedgerFilter,
        outcomes: Collection[Outcome] | None = None,
    ) -> LedgerScan:
        """The latest first: up to `limit` of those wanted, and of them those with one of these outcomes, among the next
        `rows` below a row number. Rows of other queues than the wanted one are not looked at. It stops early, and finds
        rows by time, as `rows` does."""

    def measure(self, limit: int) -> int:
        """Count up to `limit` rows that `size` does not count yet, and say how many. Several servers share the work,
        and count no row twice."""

    def size(self) -> LedgerSize:
        """Of the rows that were counted: of each its body, if that is kept, and `policy.LEDGER_ROW_BYTES`. What a sweep
        has deleted does not count any more."""

    def tally(self, queue: str) -> Tally:
        """How many messages ever arrived in the queue and how many have left it. Raises QueueNotFound."""


class Exports(Protocol):
    """Rows of the ledger for one named consumer, numbered as shipments are, and remembered as long."""

    def claim(
        self, ref: ExportRef, limit: int, now: int, counted: Counted | None = None, step: int | None = None
    ) -> Export | Counted | None:
        """The next up to `limit` rows of the ledger after those of the consumer's earlier exports. Claiming the open
        number again returns the same. None: there are no rows yet. Raises as `Shipments.claim`.

        A call counts at most `step`, or `export_count_rows`. While the answer is how far it is, nothing has been
        claimed, and the caller calls again with it.
        """

    def list(self, consumer: str | None, after: int, limit: int, now: int) -> Sequence[Export]:
        """By consumer, then by number; of every consumer or of one; those with numbers above `after`."""

    def read(self, ref: ExportRef, after: int, limit: int, now: int, ledger_before: int = 0) -> Sequence[LedgerRow]:
        """Its rows whose number is above `after`, in their order. It stops early as `Shipments.read` does. Raises
        ShipmentNotFound, and ShipmentEnded when it is settled or when rows of it have been swept, or its first one
        finished before `ledger_before` and would be."""

    def settle(self, ref: ExportRef, now: int) -> Export:
        """The consumer has these rows for good. Settling it again changes nothing. Raises ShipmentNotFound."""


class Consumers(Protocol):
    """Consumers that are known to the store (gq): their claims last as long as they give signs of life.

    A sign of life counts for the consumer's `dead_after_ms`, whichever way the clock jumps meanwhile. What a consumer
    holds is recorded with the consumer, not with the messages: a claim is told from a later one by its number, so a
    consumer that was wrongly believed dead cannot touch what has gone to another.
    """

    # Messages that get their numbers first and are stored later, so that their ids are known before they are.

    def reserve(self, count: int) -> Reservation:
        """Sequence numbers that no other message gets, ascending. Those that are never used leave a harmless gap."""

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        """Store messages under the numbers they have, in a line by them as well. Raises QueueNotFound, and
        InvalidRequest as `policy.refuse_own_delay` does.

        `again` says that an earlier attempt may have succeeded: what is there or was there is then not stored twice. A
        queue that keeps no ledger does not know what was there. Where the queue has `Dedup.SEND` or `Dedup.WINDOW`,
        twins are left out.
        """

    # Being alive

    def register(self, consumer: Registration, now: int) -> None:
        """The consumer is alive, holds nothing, and is the youngest of its queue. Raises QueueNotFound.

        What it held under an earlier registration is forgotten, not given back.
        """

    def attend(self, consumer_id: str) -> set[Held] | None:
        """What the consumer holds; None when it is not registered, or its queue was deleted. It cannot be declared dead
        from here to the end of the unit."""

    def report(self, consumer: Registration, endings: Sequence[Ending], now: int) -> Attendance:
        """`attend`, and `end_claims` for each of the endings. A consumer says all it has to say at once, so that a
        database over a network is asked once."""

    def hold(self, consumer_id: str, held: Iterable[Held], now: int) -> None:
        """A sign of life, and all that the consumer holds from now on. Nothing happens where it is not registered."""

    def list(self, queue: str, limit: int) -> Sequence[ConsumerReport]:
        """Those that are registered with a queue, in the order of their registration, the dead too until they are
        cleared away. Raises QueueNotFound."""

    def leave(self, consumer_id: str) -> None:
        """The consumer is gone, and has ended the claims it held."""

    def reap(self, now: int) -> int:
        """Clear away consumers that have given no sign of life, at most `reap_consumers` of them, and say how many.
        What they held is ready again, or has failed where messages are delivered at most once."""

    # Their messages

    def claim(self, consumer: Registration, limit: int, now: int, living: Sequence[str] | None = None) -> Claimed:
        """Claim for a consumer, as `Unit.claim` does, until its messages' deadlines or, where those are missing or have
        passed, until it is dead (`limits.NEVER`). What it holds is recorded by `hold`. Raises QueueNotFound.

        Its own share of the queue comes first: the living consumers, in the order of their registration, divide the
        sequence numbers among themselves. Who is living is looked up, unless an `Attendance` has told it. The share is
        looked for among the first `share_rows` or so; where it is too small, the oldest other messages fill it up.
        Where messages are delivered at least once, a deadline ends a claim, and does not fail the message.
        """

    def end_claims(
        self, queue: str, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        """Finish messages with an outcome; where that is None, make them ready, now or after `delay_ms`. Returns those
        that were still held by these very claims: nothing happens to the others, nor to any where the queue is gone.

        One whose claim was released with a delay meanwhile is still held by that claim, and stays delayed."""

    def first_due(self, queue: str) -> int | None:
        """When the first message of the queue that is not claimed for good becomes ready; 0 if one is ready. None where
        there is none, the queue is paused, or it does not exist."""

    def trace(self, message_id: str, now: int) -> Trace | None:
        """Where a message is, or how it ended; None for one that is not remembered. One that was in a deleted queue has
        been purged."""


class Keys(Protocol):
    """API keys."""

    def create(self, key: Key) -> None:
        """Raises KeyExists for a name that was ever used: a revoked name must not come back to life. Raises TooLarge
        past `keys`, revoked ones included."""

    def revoke(self, name: str, now: int) -> bool:
        """The key is refused from now on. False where it was revoked before: then nothing changes. Raises
        KeyNotFound."""

    def update(self, name: str, expires_at: int | None) -> Key:
        """The key is refused from an instant on, or from none, also where it has expired. Raises KeyNotFound, and
        KeyRevoked."""

    def rotate(self, name: str, digest: bytes, old_until: int | None, now: int) -> Key:
        """The key has another secret from now on. The one that it had is good until an instant as well, or, where that
        is None, until it is retired. Raises KeyNotFound, KeyRevoked, and KeyHasTwoSecrets where the secret before is
        still good. Of two at once, one has its way."""

    def retire(self, name: str) -> Key:
        """The old secret of the key is refused from now on. Where it has none, nothing changes. Raises KeyNotFound, and
        KeyRevoked."""

    def note_uses(self, uses: Sequence[KeyUse]) -> None:
        """When secrets of keys were last used; the latest counts. A secret that its key no longer has is passed
        over."""

    def end_session(self, name: str, session: str, until: int, now: int) -> None:
        """Remember that a session of this key was signed out of, at least until the instant at which it would have
        ended by itself. Several at once are all remembered. Raises KeyNotFound."""

    def list(self) -> Sequence[Key]:
        """All keys, revoked ones too, in the order of their creation."""


class Actions(Protocol):
    """What was done to the store by those who look after it: an entry for each, which never changes."""

    def record(
        self,
        by: Actor,
        what: ActionKind,
        now: int,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> None:
        """One entry more, under the next number. The queue is named, and need not exist any more."""

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Sequence[Action]:
        """The latest first, by number: those below number `before`, or all; those wanted, or all.

        Numbers are never used again, and those of several processes stand in one order; but one may be missing, and
        that of a unit which ends later may be the lower one. A filter by time relies on the order of instants as that
        of the ledger does (`ledger_disorder_ms`).
        """


class Store(Protocol):
    """Opened once per process. At most `lanes` threads use it at a time."""

    url: str
    # A random key, drawn when the store was made: API keys are hashed with it.
    secret: bytes
    limits: Limits
    # Whether a unit is so short that it may run on the event loop's own thread.
    inline: bool
    # How many units may be open at the same time.
    lanes: int
    # How long units that ended well have waited, in all, until what they wrote was on stable media: for the COMMIT of a
    # database, or for the syncs of files.
    sync_seconds: float

    @property
    def ahead_ms(self) -> int:
        """How far the clock that all processes of this store share is ahead of this machine's own, as the latest unit
        has found it. A claim made by one server must not look as if it had run out to another whose clock is fast."""

    def unit(self, write: bool = True) -> AbstractContextManager[Unit]:
        """A unit of durability: when the block ends, everything in it is on stable media.

        When the block raises, nothing of it has happened. When the end of the block raises, nothing of it is
        acknowledged, and nothing is retried on the same descriptors: a store that has seen a failed sync opens its
        files again before the next unit. Raises StoreBusy, StoreFull, StoreUnavailable and StoreCorrupt. With `write`
        False, only verbs that change nothing may be used, and no other process is kept waiting.
        """

    def tidy(self) -> None:
        """Called now and then while nothing is asked of the store, outside of any unit: bring home what is in a log,
        and give back what that takes beyond its usual length. It does not wait for it to be done, and never fails."""

    def has_room(self) -> bool:
        """False while the device is so full that sends should wait, so that claims and acks can go on."""

    def changed_elsewhere(self) -> Container[str]:
        """The queues in which other processes may have made messages ready since this was last asked. Never waits.

        It is a hint: a store that is asked over a network may miss a change.
        """

    def close(self) -> None: ...


class Sending(Protocol):
    """Sends on their way to a store, and no thread that waits for them.

    The one that has begun it watches its descriptor: whenever that can be read from, or written to while `is_writing`,
    `go_on` is due. Once that says so, `end` is, and nothing else any more.
    """

    @property
    def descriptor(self) -> int: ...

    @property
    def is_writing(self) -> bool: ...

    @property
    def happened(self) -> Happened:
        """As of a unit, once the sends have happened."""

    def go_on(self) -> bool:
        """Hand over and take in as much as can be without waiting. True once the store has answered, or never will."""

    def end(self) -> list[list[Sent]] | None:
        """The results of each send, which is on stable media. None where nothing has happened, and the sends want a
        unit: it knows why. Raises StoreUnavailable where it is not known whether they have happened."""


@runtime_checkable
class ExpressStore(Protocol):
    """A store to which sends can also go without a thread: what a thread costs is more than all the rest."""

    def begin_sends(self, sends: Sequence[tuple[str, Sequence[Draft]]], now: int) -> Sending | None:
        """Send to each of these queues, in a unit of its own, with the promises of `Unit.send` and of `Store.unit`.

        None where a unit is needed, because something is not at hand that has to be waited for, or looked up: nothing
        has happened then. It never waits. Called on the thread of the event loop.
        """


@runtime_checkable
class SideStore(Protocol):
    """A store that can also be read by another thread than the one that its units run on."""

    def unit_beside(self) -> AbstractContextManager[Unit]:
        """A unit in which nothing may be changed. It sees one moment, and holds up no one: units that write go on
        meanwhile. Raises StoreBusy, StoreUnavailable and StoreCorrupt, as `Store.unit` does, and its failure has no
        part in what becomes of that. Several threads may have one each."""


class AllBut:
    """The names of all queues there are or may be, but for some."""

    def __init__(self, names: Container[object]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


# What `changed_elsewhere` answers where a store cannot tell.
EVERYWHERE: Container[str] = AllBut(())

Noun = Literal["messages", "moves", "shipments", "leases", "ledger", "exports", "consumers", "keys", "actions"]

# What a store without a noun does not keep, in the words of an error.
NOUNS: dict[Noun, str] = {
    "messages": (
        "settings of a queue, attributes, delays and deadlines of a message, deduplication, dead-letter queues, "
        "receipts that are renewed and released, acks that do not name the queue, peeking, purging"
    ),
    "moves": "moves between queues",
    "shipments": "shipments",
    "leases": "leases",
    "ledger": "the ledger",
    "exports": "exports of the ledger",
    "consumers": "consumers",
    "keys": "API keys",
    "actions": "a log of actions",
}


def needed(noun: T | None, name: Noun) -> T:
    """A noun of a unit that the caller cannot do without. Raises FeatureMissing where the store has none."""
    if noun is None:
        raise FeatureMissing(f"this store does not keep {NOUNS[name]}")
    return noun


def ensure_queue(unit: Unit, name: str, settings: Settings, now: int) -> bool:
    """Create a queue with these settings where there is none of this name. Whether that was so."""
    if unit.find_queue(name) is None:
        with suppress(QueueExists):  # another process has been faster
            unit.create_queue(name, settings, now)
            return True
    return False


def missing_nouns(unit: Unit) -> list[Noun]:
    return [name for name in NOUNS if getattr(unit, name) is None]
