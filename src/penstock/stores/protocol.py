"""The contract that every store keeps. The conformance suite in `tests/stores/` is this file, executed.

A store holds queues and messages and applies verbs to them. It reads no clock and draws no random number
outside its birth: every instant is a parameter, so that a test of expiry is instant. It blocks; waiting and
wake-ups are the broker's.

The life of a message, as a store sees it:

    send ──► ready (ready_at = 0) ──claim──► claimed (ready_at = until) ──ack──► gone, with a ledger row
               ▲                                │
               └── ready_at has passed, or release

`ready_at` is one field with one meaning: before that instant nobody may claim the message. It is set by a
delay and by a claim. A message is delayed, not claimed, while nobody has received it, or once its claim was
released with a delay. A message whose `ready_at` has passed is ready, whether or not the row says so yet; but
in a queue with a backoff, one whose claim has run out is delayed for `policy.backoff_ms` from then on. A claim
sees to such rows first (at most `limits.PROMOTE_ROWS` of them), then takes the oldest ready ones by sequence
number.

Several processes may hold the same store. Verbs are correct because they run in a transaction, never because
nobody else is there.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from penstock.model import (
    WHOLE,
    Claimed,
    Count,
    Counted,
    Draft,
    Export,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    Move,
    MoveTerms,
    PeekAfter,
    Purged,
    Queue,
    QueuePage,
    Receipt,
    Sent,
    SentOnce,
    Settings,
    Shipment,
    Tally,
)
from penstock.stores.features import Feature


class Unit(Protocol):
    """The verbs, inside one unit of durability.

    A verb either does all it says or raises before it has changed anything, so a caller may catch a
    `CallerError` and go on with the unit. After any other error the unit is lost.
    """

    @property
    def stirred(self) -> set[str]:
        """The queues in which this unit has made messages ready by other means than `send`: by a release, a
        shortened claim, a move or a dead letter; and those it has deleted. Whoever waits for one of them should
        look again. It may name a queue too many, never one too few."""

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        """A new, empty queue, last in creation order.

        Raises QueueExists, and DeadLetterQueueNotFound where the redrive names no queue: a queue that is
        its own dead-letter queue becomes so by an update.
        """

    def update_queue(self, name: str, settings: Settings) -> Queue:
        """Replace all settings. Messages keep the `ready_at` and the dedup key they have.

        A lower retention counts for the messages that are there when they are claimed next: see `sweep`.

        Raises QueueNotFound and DeadLetterQueueNotFound. A queue may be its own dead-letter queue.
        """

    def delete_queue(self, name: str, now: int) -> Queue:
        """The queue and its messages are gone for every verb at once; their rows are freed by `sweep`.

        Queues that used it for their dead letters have no redrive any more. The name may be used again,
        for a queue that shares nothing with this one. Raises QueueNotFound.
        """

    def find_queue(self, name: str) -> Queue | None: ...

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        """In creation order, with the number of all queues."""

    # Messages

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        """Append messages in the order given; one result each. Raises QueueNotFound.

        In a queue with `Dedup.SEND`, a draft whose key belongs to a message that is still in the queue
        (ready, delayed or claimed, but not past its retention) or earlier in this call is not stored, and the
        result names that message, the oldest if there are several. One past its retention loses its key for
        good to the later one. No attributes and empty attributes are the same.
        """

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        """Take up to `limit` ready messages, oldest first, until now + `hold_ms`. Raises QueueNotFound.

        It stops early, but never before the first message, when their bodies come to `limits.CLAIM_BYTES`.
        None holds them for the queue's visibility time; 0 hands them out and leaves them ready (their
        `ready_at` says now). Each delivery
        adds one to `receives`, and one to `claim`, which never goes back. `policy.judge` decides about every
        message seen: expired and failed ones finish, dead letters move to the dead-letter queue as by `move`,
        and the claim goes on to the next; what it has put into its own queue again, it passes over. Dead letters
        remember the queue they came from, until they are there again. In a queue
        with `Dedup.CLAIM`, when a message is handed out for the first time, the ready messages behind it that
        have the same key and were never handed out finish as collapsed: a step of them at once, the others by later
        claims and sweeps. None of them is handed out meanwhile; nor is a delayed one that becomes ready meanwhile.
        """

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        """Finish messages as processed; True for each that was there.

        A receipt with a `claim` matches only while that claim is the message's latest, also after it has run
        out; one with a `queue` only while the message is in it. The case of the letters in an id does not
        matter. A message finishes once, however often this call names it.
        """

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        """Hold messages until `until`; True for each that was there. Matches as `ack` does.

        A later end stays as it is unless `shorten` is set. A claim that has run out comes back to life. A
        message that nobody has received counts as received once from then on, and one that was released with a
        delay is claimed again.
        """

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        """End the claims on these messages: they are ready after `delay_ms`, or now where that is 0. None delays each
        as the backoff of its queue says. Matches as `ack` does.

        A claim that has run out can still be released with a delay. A delayed message has no claim to end: it is
        there, and stays delayed for as long as it was. One that nobody has received stays as it is. A claim that a
        renewal has made, and no claim, counts as the first once it is released with a delay.
        """

    def release_all(self, queue: str, now: int, limit: int) -> int:
        """End up to `limit` claims of a queue, those first that would end first, and say how many.

        Delayed messages stay delayed; claims that have run out have ended already. Raises QueueNotFound.
        """

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        """Move up to `limit` messages whose `seq` is at most `through`, those that are claimed only with `claimed`.

        In the order of `peek`. They keep their id, age, delay and dedup key (a target that asks for keys gives one to
        those that have none), and arrive unclaimed with `receives` 0; in the source's ledger they have moved.
        Where the target already holds the same dedup key, the message finishes and the one there stays; but
        a target with `Dedup.CLAIM` takes both. Returns how many left the source: none when source and target
        are one queue. Raises QueueNotFound.
        """

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        """Finish up to `limit` messages whose `seq` is at most `through`, claimed ones too, in the order of
        `peek`, and say how many. Raises QueueNotFound."""

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        """Look at up to `limit` messages behind `after` in the order of `peek`, and finish those that were sent before
        this instant and whose `seq` is at most `through`, claimed ones too. Raises QueueNotFound.

        Young messages are looked at once and left alone. One that changes its place meanwhile, because its claim ends,
        may be missed.
        """

    def last_seq(self) -> int:
        """The highest sequence number given out so far: the `through` of a purge or move that starts now.

        Numbers of a lost unit may be lost with it.
        """

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        """Messages in any state, changing nothing: ready ones by age, then the others by `ready_at`.

        It stops early, but never before the first message, when their bodies come to `limits.CLAIM_BYTES`.
        Raises QueueNotFound.
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

        None where there is none, or no such queue.
        """

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        """The queue each message is in, for those that are there. Matches as `ack` does."""

    # Moves that take more than one unit

    def start_move(
        self, move_id: str, source: str, target: str | None, now: int, claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        """Remember that what is now in `source` is to move to `target`, as `terms` say; where that is None, each dead
        letter to the queue it came from. No queue need exist yet. With `claimed`, claimed messages go along.

        Raises MoveConflict as `policy.refuse_conflict` does.
        """

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        """Look at up to `limit` messages further, move those that are meant, and say how far it is.

        It is complete when a step finds nothing left, or no source, or as many have moved as its limit says; it ends in
        error when there is no target, and whatever has not moved by then stays where it is. A step before its pace
        allows it does nothing. Raises MoveNotFound.
        """

    def cancel_move(self, move_id: str, now: int) -> Move:
        """Move nothing further. One that has ended stays as it is. Raises MoveNotFound."""

    def list_moves(self, limit: int) -> list[Move]:
        """Those that are remembered, the latest first."""

    def find_move(self, move_id: str) -> Move | None: ...

    def unfinished_moves(self) -> list[str]: ...

    # Shipments: messages for one named consumer, re-readable until they end together. Only their shipment, a purge
    # and the deletion of the queue touch them: `ready_at` is `limits.SHIPPED`, and no receipt matches.

    def claim_shipment(
        self, queue: str, consumer: str, number: int, limit: int, now: int, hold_ms: int
    ) -> Shipment | None:
        """Claim ready messages, as `claim` does, for shipment `number`: at most `limits.CLAIM_ROWS` a call, up to
        `limit` in all. While the answer is GATHERING, the caller calls again. OPEN is complete: claiming the same
        number again returns the same messages, and only prolongs it. None: nothing was ready, and nothing was made.

        It lasts until now + `hold_ms`. Raises QueueNotFound, ShipmentEnded for a number that has ended, and
        ShipmentConflict for one that is neither the open one nor, where none is open, the one after the last.
        """

    def find_shipment(self, queue: str, consumer: str, number: int) -> Shipment | None:
        """None for one that is not remembered any more. Raises QueueNotFound."""

    def list_shipments(self, queue: str, consumer: str | None, after: int, limit: int) -> list[Shipment]:
        """By consumer, then by number; of every consumer or of one; those with numbers above `after`.
        Raises QueueNotFound."""

    def read_shipment(self, queue: str, consumer: str, number: int, start: int, limit: int) -> list[Message]:
        """The messages from position `start` (the first is 0) on, by sequence number, changing nothing. It stops early,
        but never before the first message, when their bodies come to `limits.CLAIM_BYTES`; none past the end.

        Raises QueueNotFound, ShipmentNotFound, ShipmentConflict while it is gathering, and ShipmentEnded when it is
        no longer open, or messages at these positions have left by a purge. One that was settled with `keep` can be
        read until the consumer's next one is settled, or `limits.SHIPMENT_KEPT_MS` have passed.
        """

    def settle_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int, keep: bool = False) -> int:
        """Finish its messages as processed, at most `limit` a call, and say how many: 0 when all is done. The first
        call decides: from then on the shipment is settled, and `sweep` finishes what no further call finishes.

        Settling a settled one changes nothing. Raises QueueNotFound, ShipmentNotFound, ShipmentConflict while it is
        gathering, and ShipmentEnded for one that ended otherwise.
        """

    def release_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int) -> int:
        """The same, but its messages are ready again. A released or lost one stays as it is; ShipmentEnded is raised
        for a settled one. One that is gathering may be released."""

    def beat_shipment(self, queue: str, consumer: str, number: int, now: int, hold_ms: int) -> Shipment:
        """A heartbeat: it lasts until now + `hold_ms`, also one whose time had passed unnoticed. Raises QueueNotFound,
        ShipmentNotFound and ShipmentEnded."""

    # Exports: rows of the ledger for one named consumer, by the same numbers.

    def claim_export(
        self, consumer: str, number: int, limit: int, now: int, counted: Counted | None = None
    ) -> Export | Counted | None:
        """The next up to `limit` rows of the ledger after those of the consumer's earlier exports. Claiming the open
        number again returns the same. None: there are no rows yet. Raises as `claim_shipment`.

        A call counts at most `limits.EXPORT_COUNT_ROWS`. While the answer is how far it is, nothing has been claimed,
        and the caller calls again with it."""

    def list_exports(self, consumer: str | None, after: int, limit: int) -> list[Export]: ...

    def read_export(self, consumer: str, number: int, after: int, limit: int) -> list[LedgerRow]:
        """Its rows whose number is above `after`, in their order. It stops early as `read_shipment` does. Raises
        ShipmentNotFound, and ShipmentEnded when it is settled or when rows of it have been swept."""

    def settle_export(self, consumer: str, number: int, now: int) -> Export:
        """The consumer has these rows for good. Settling it again changes nothing. Raises ShipmentNotFound."""

    # Sends with a key

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        """Like `send`, unless a send to this queue with the same key is remembered: then nothing is stored and its
        result is repeated. `digest` stands for the content. Remembered for `limits.IDEMPOTENCY_MS`.

        Raises QueueNotFound, and SendConflict where the remembered digest is another.
        """

    # API keys

    def create_key(self, key: Key) -> None:
        """Raises KeyExists for a name that was ever used: a revoked name must not come back to life. Raises TooLarge
        past `limits.KEYS`, revoked ones included."""

    def revoke_key(self, name: str, now: int) -> None:
        """The key is refused from now on. Revoking it again changes nothing. Raises KeyNotFound."""

    def list_keys(self) -> list[Key]:
        """All keys, revoked ones too, in the order of their creation."""

    # Housekeeping

    def sweep(self, now: int, limit: int, ledger_before: int) -> int:
        """Free space, at most about `limit` rows of it, and say how many: messages of deleted queues (as
        purged), ready messages past their retention, twins that have collapsed, ledger rows finished before
        `ledger_before`, moves that ended `limits.MOVE_KEPT_MS` ago, ended shipments (but the latest of each consumer)
        and sends with a key that are no longer remembered. Shipments without a heartbeat in time are lost here, and
        those whose end is not finished go on ending.

        Messages that were there when the retention of their queue was lowered stay until a claim meets them, or they
        are past the longest retention it had before. A deleted queue is forgotten altogether once the ledger does not
        name it any more. Never needed for correctness. Done again and again, it frees all that can be freed.
        """

    def ledger(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        """What became of messages, in the order they finished, after row number `after`; all, or those wanted.

        It stops early as `peek` does. Rows by time are found on the understanding that they stand by time, to within
        `limits.LEDGER_DISORDER_MS`: where a clock was set back by more, some from around then may be passed over.
        """

    def tally(self, queue: str) -> Tally:
        """How many messages ever arrived in the queue and how many have left it. Raises QueueNotFound."""

    def prove_writable(self) -> None:
        """Show whether the store can be written to: raises StoreUnavailable, here or at the end of the unit, where it
        cannot. Nothing is changed."""


class Store(Protocol):
    """Opened once per process. At most `lanes` threads use it at a time."""

    url: str
    # A random key, drawn when the store was made: API keys are hashed with it.
    secret: bytes
    # A server refuses at its start to serve an API on a store that lacks what the API needs.
    features: frozenset[Feature]
    # Whether a unit is so short that it may run on the event loop's own thread.
    inline: bool
    # How many units may be open at the same time.
    lanes: int

    @property
    def ahead_ms(self) -> int:
        """How far the clock that all processes of this store share is ahead of this machine's own, as the latest unit
        has found it. A claim made by one server must not look as if it had run out to another whose clock is fast."""

    def unit(self, write: bool = True) -> AbstractContextManager[Unit]:
        """A unit of durability: when the block ends, everything in it is on stable media.

        When the block raises, nothing of it has happened. When the end of the block raises, nothing of it is
        acknowledged, and nothing is retried on the same descriptors: a store that has seen a failed sync opens
        its files anew before the next unit. Raises StoreBusy, StoreFull, StoreUnavailable and StoreCorrupt.
        With `write` False, only verbs that change nothing may be used, and no other process is kept waiting.
        """

    def has_room(self) -> bool:
        """False while the device is so full that sends should wait, so that claims and acks can go on."""

    def changed_elsewhere(self) -> Container[str]:
        """The queues in which other processes may have made messages ready since this was last asked. Never waits.

        It is a hint: a store that is asked over a network may miss a change.
        """

    def close(self) -> None: ...
