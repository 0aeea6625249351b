"""The contract of a broker: what the faces may ask for, in plain values.

Every verb answers with a `Pending`: it is resolved after the unit of durability that served it has ended well, so a
result means that everything is on stable media; or it is rejected with an error of `penstock.errors`, and then nothing
of the request has happened. StoreUnavailable alone leaves that open: the answer may have been lost. Long work is done
in steps, with others in between: what earlier steps did stays done.

Arguments and results are values (`penstock.model`), never functions: a broker may live in another process. Only a
`Form` is made of functions, and stays on the side of its caller. Verbs of queues and messages are the broker's own;
other nouns (`moves`, `shipments`, `leases`, `ledger`, `exports`, `keys`, `actions`) are attributes. A verb that the
store has no means for is rejected with FeatureMissing.

`rules` are those of the caller's API key, as in `penstock.keys`; None permits everything. They are asked for only where
the queues that they must permit are not known before the store has been read.

`by` is who asks for something that administers: the unit that does it writes it into the log of actions, where the
store keeps one. None has nothing written down, nor has what fails or leaves everything as it was. Long work is written
down once, at its end.

A broker lives on the thread of an event loop and is used only from it.

One file because it is read as one: those who write a face find every verb here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from penstock.model import (
    ALL_QUEUES,
    ANY_AGE,
    WHOLE,
    Action,
    ActionFilter,
    ActionKind,
    Actor,
    Ages,
    ClaimedExport,
    ClaimedShipment,
    Count,
    CountedPage,
    CreatedKey,
    Dealing,
    Draft,
    Export,
    ExportRef,
    Found,
    History,
    Key,
    KeyUse,
    Lease,
    LedgerFilter,
    LedgerRow,
    LedgerScan,
    Message,
    Move,
    MoveTerms,
    Outcome,
    Overview,
    OverviewQuery,
    PeekAfter,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Receipt,
    Resent,
    Scan,
    Selection,
    Sent,
    SentOnce,
    Settings,
    Shipment,
    ShipmentRef,
    Shrunk,
    Span,
    StoreFigures,
    Workers,
)
from penstock.pending import Pending

V = TypeVar("V")
T = TypeVar("T")


@dataclass(frozen=True)
class Form(Generic[V, T]):
    """What a caller makes of a long result: at once where that keeps no one waiting, in any thread; or on the event
    loop, in turns with others."""

    at_once: Callable[[V], T]
    in_turns: Callable[[V], Pending[T]]


class Broker(Protocol):
    @property
    def moves(self) -> Moves: ...

    @property
    def shipments(self) -> Shipments: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def exports(self) -> Exports: ...

    @property
    def keys(self) -> Keys: ...

    @property
    def actions(self) -> Actions: ...

    # Queues

    def create_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[Queue]:
        """Raises QueueExists and DeadLetterQueueNotFound."""

    def ensure_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[None]:
        """Create a queue unless it exists, whatever its settings."""

    def update_queue(
        self, name: str, change: QueueChange, rules: Sequence[str] | None = None, by: Actor | None = None
    ) -> Pending[Queue]:
        """Change settings. Raises QueueNotFound, DeadLetterQueueNotFound, and NotPermitted where the queue has a
        dead-letter queue afterwards to which the caller may not send."""

    def pause_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        """Claims find nothing in it from now on, and those that may wait do. Pausing it again changes nothing. Raises
        QueueNotFound, and FeatureMissing where the store cannot keep it."""

    def resume_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        """The end of a pause, if it is paused: claims that wait look again. Raises as `pause_queue`."""

    def delete_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        """The queue and its messages; its settings as they were. Raises QueueNotFound."""

    def find_queues(self, names: Sequence[str]) -> Pending[list[Queue | None]]:
        """Each of these queues, None where it does not exist."""

    def describe_queue(self, name: str, tally: bool = False) -> Pending[QueueReport]:
        """A queue and how many messages it has, with `tally` also how many have come and gone. Raises
        QueueNotFound."""

    def list_queues(self, offset: int, limit: int) -> Pending[QueuePage]:
        """In creation order, with the number of all queues."""

    def page_queues(self, prefix: str, after: str, limit: int) -> Pending[list[Queue]]:
        """Those whose names begin so, by name; the first after a name."""

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> Pending[list[Queue]]:
        """In the same order, the queues whose dead letters go to this one. Raises QueueNotFound."""

    def count_queues(self, offset: int, limit: int) -> Pending[CountedPage]:
        """The same, with the count of each."""

    # Messages

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None = None) -> Pending[list[Sent]]:
        """Append messages in the order given; one result each. A queue that does not exist is created with
        `create_as`, else QueueNotFound is raised."""

    def send_once(self, queue: str, drafts: Sequence[Draft], key: str, digest: bytes) -> Pending[SentOnce]:
        """The same, unless a send to this queue with the same key is remembered. Raises QueueNotFound, and SendConflict
        where that one had another digest."""

    def claim(
        self, queue: str, limit: int, hold_ms: int | None = None, wait_ms: int = 0, attempt: str | None = None
    ) -> Pending[list[Message]]:
        """Take up to `limit` messages for `hold_ms`, or for the queue's visibility time; none only when `wait_ms` have
        passed and there was none. Raises QueueNotFound.

        With an `attempt`, a claim that is repeated gets the same messages again, as long as it still holds all of them:
        an answer that was lost costs nothing.

        A caller who has gone cancels the pending result; then nothing is claimed for it any more. What was claimed
        already is given back, unless it has an `attempt`: then it stays held for the one who asks again.
        """

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        """Finish messages as processed; True for each that was there."""

    def ack_permitted(self, receipts: Sequence[Receipt], rules: Sequence[str]) -> Pending[list[bool]]:
        """The same, for receipts that do not name their queue. Raises NotPermitted, and finishes none, where the rules
        do not permit to poll the queue of one of them."""

    def renew(self, receipts: Sequence[Receipt], hold_ms: int, shorten: bool = False) -> Pending[list[bool]]:
        """Hold messages for `hold_ms` from now on; True for each that was there. A later end stays unless `shorten` is
        set."""

    def release(self, receipts: Sequence[Receipt], delay_ms: int | None = None) -> Pending[list[bool]]:
        """End the claims on these messages: they are ready after `delay_ms`, or as the backoff of their queue says."""

    def locate(self, receipts: Sequence[Receipt]) -> Pending[list[str | None]]:
        """The queue each message is in, for those that are there; without a claim in the receipt, whichever holds
        it."""

    def release_all(self, queue: str, by: Actor | None = None) -> Pending[int]:
        """End all claims of a queue, and say how many there were. Raises QueueNotFound."""

    def purge(self, queue: str, by: Actor | None = None) -> Pending[int]:
        """Finish every message that is in the queue now, and say how many there were. The dedup keys of a window are
        forgotten. Raises QueueNotFound."""

    def purge_older(self, queue: str, older_than_ms: int, by: Actor | None = None) -> Pending[int]:
        """Finish every message that is older than that now, and say how many there were. Raises QueueNotFound."""

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> Pending[list[Message]]:
        """Messages in any state, changing nothing: ready ones by age, then the others by `ready_at`. Raises
        QueueNotFound."""

    def scan(
        self, queue: str, selection: Selection, limit: int, ages: Ages = ANY_AGE, after: PeekAfter | None = None
    ) -> Pending[Scan]:
        """A peek that shows only what is selected. `ages` count from now, and replace the instants of the selection. It
        ends at `limit` messages, and wherever it has looked at `scan_rows` or read `scan_bytes` of bodies: the answer
        says where to go on. Raises QueueNotFound."""

    # Messages by their ids, in a queue that is named as well: for those who look after it. At most
    # `limits.NAMED_LIMIT` at once.

    def find_message(self, queue: str, message_id: str) -> Pending[Found | None]:
        """A message in any state, changing nothing; None where it is not in this queue. Raises QueueNotFound."""

    def delete_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        """Finish messages as purged, claimed ones too, but none that is in a shipment; what became of each. Raises
        QueueNotFound."""

    def release_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        """End all claims on messages: they are ready now. Delayed ones stay delayed; one in a
        shipment counts as missing. What became of each. Raises QueueNotFound."""

    def move_messages(
        self,
        queue: str,
        message_ids: Sequence[str],
        target: str | None = None,
        as_new: bool = False,
        by: Actor | None = None,
    ) -> Pending[list[Dealing]]:
        """Move messages to another queue, or home where none is named, claimed ones too, but none that is in a
        shipment; what became of each. With `as_new`, they arrive as if they were sent now. Raises QueueNotFound."""

    def resend(
        self,
        queue: str,
        message_id: str,
        draft: Draft,
        target: str | None = None,
        rules: Sequence[str] | None = None,
        by: Actor | None = None,
    ) -> Pending[Resent]:
        """Send a draft in the place of a message, which is deleted: both happen, or neither. It goes to `target`; where
        none is named, to the queue that a dead letter came from, or to the one that the message is in. Where it is not
        stored, because it is the twin of another message, the message stays. Raises QueueNotFound, and NotPermitted
        where the rules do not permit to send there."""

    def count(self, queue: str) -> Pending[Count]:
        """How many messages there are, by state. Raises QueueNotFound."""

    # Figures of queues

    def overview(self, query: OverviewQuery = ALL_QUEUES, rules: Sequence[str] | None = None) -> Pending[Overview]:
        """A page of all queues in any order, with what is in them and what happens there. Only queues whose status the
        rules permit to see are shown and counted. Rows are a few seconds old; those of a page of at most 100 are
        not."""

    def history(self, queue: str, span: Span) -> Pending[History]:
        """A queue over the last hour or day. Raises QueueNotFound."""

    def workers_of(self, queue: str) -> Pending[Workers]:
        """Who works on a queue. Raises QueueNotFound."""

    def figures(self) -> Pending[StoreFigures]:
        """How the store does, and what this process has asked of it."""

    def shrink(self, by: Actor | None = None) -> Pending[Shrunk]:
        """Give back to the file system what the store does not use, as much as one request may: at once, and without
        looking whether it is worth it. Until nothing is left, a caller asks again."""

    # The broker itself

    def check(self) -> Pending[None]:
        """Rejected while the store cannot be used."""

    def check_room(self) -> Pending[bool]:
        """The same, and whether it has room for sends."""


class Moves(Protocol):
    """Messages on their way from one queue into another, in the background and across restarts. In the same way they
    can be deleted or released: see `MoveAction`."""

    def start(
        self,
        source: str,
        target: str | None,
        terms: MoveTerms = WHOLE,
        ages: Ages = ANY_AGE,
        create_as: Settings | None = None,
        claimed: bool = False,
        by: Actor | None = None,
    ) -> Pending[Move]:
        """Start to move what is in a queue now, as `terms` say, into another, or home where none is named. `ages` count
        from the start of the move, and replace the instants of the terms' selection. A target that does not exist is
        created with `create_as`; without that, both must exist. What is claimed stays, or with `claimed`, or where the
        selection asks for claimed messages, goes along and arrives unclaimed.

        Where the terms have another action, there is no target: with DELETE what is meant is deleted, and with RELEASE
        the claims on it end.

        Raises QueueNotFound, InvalidRequest where such an action is given a target, and MoveConflict while another move
        has to do with one of the queues.
        """

    def cancel(self, move_id: str, rules: Sequence[str] | None = None, by: Actor | None = None) -> Pending[Move]:
        """Move nothing further. One that has ended stays as it is. Raises MoveNotFound, and NotPermitted where the
        rules do not permit to poll its source."""

    def find(self, move_id: str) -> Pending[Move | None]: ...

    def list(self, limit: int) -> Pending[Sequence[Move]]:
        """Those that are remembered, the latest first."""


class Shipments(Protocol):
    """Messages for one named consumer, which it reads as often as it likes until they end together.

    Every verb raises QueueNotFound, and all but `claim` and `list` ShipmentNotFound.
    """

    def claim(
        self, ref: ShipmentRef, limit: int, hold_ms: int, max_bytes: int | None = None
    ) -> Pending[ClaimedShipment]:
        """Up to `limit` ready messages, and no more than `max_bytes` of their bodies if there are two of them, for
        `hold_ms` unless a heartbeat prolongs it. Claimed again, an open shipment is the same. Raises ShipmentConflict
        for a number whose turn it is not, and ShipmentEnded."""

    def find(self, ref: ShipmentRef) -> Pending[Shipment]: ...

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, after_consumer: str = ""
    ) -> Pending[Sequence[Shipment]]:
        """By consumer, then by number; of every consumer, of those after `after_consumer`, or of one; those with
        numbers above `after`."""

    def read(self, ref: ShipmentRef, start: int, limit: int) -> Pending[Sequence[Message]]:
        """The messages from position `start` on. Raises ShipmentConflict while it is gathering, and ShipmentEnded."""

    def read_as(self, ref: ShipmentRef, start: int, limit: int, form: Form[Sequence[Message], T]) -> Pending[T]:
        """The same in a form that the caller gives it. Raises as `read`, and what the form raises."""

    def settle(self, ref: ShipmentRef, keep: bool = False, stored_in: str | None = None) -> Pending[Shipment]:
        """Finish its messages as processed; with `keep`, they can be read for a while longer. `stored_in` is where the
        consumer has stored them, if it says so. Settling it again changes nothing. Raises ShipmentConflict while it is
        gathering, and ShipmentEnded."""

    def release(self, ref: ShipmentRef) -> Pending[Shipment]:
        """Make its messages ready again. A released or lost one stays as it is. Raises ShipmentEnded for a settled
        one."""

    def beat(self, ref: ShipmentRef, hold_ms: int) -> Pending[Shipment]:
        """A heartbeat: it lasts for `hold_ms` from now on. Raises ShipmentEnded."""


class Leases(Protocol):
    """One at a time: what a name stands for in a queue is done by the one who holds the lease of this name."""

    def take(self, queue: str, name: str, holder: str, hold_ms: int) -> Pending[Lease]:
        """For `hold_ms` from now on, if it is free or this holder's already. Raises QueueNotFound and LeaseHeld."""

    def find(self, queue: str, name: str) -> Pending[Lease | None]:
        """None where no one has it. Raises QueueNotFound."""

    def drop(self, queue: str, name: str, holder: str) -> Pending[bool]:
        """Free it, if it is this holder's."""


class Ledger(Protocol):
    """What became of messages."""

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> Pending[list[LedgerRow]]:
        """In the order the messages finished, after row number `after`; all, or those wanted."""

    def latest(
        self,
        limit: int,
        wanted: LedgerFilter,
        outcomes: Sequence[Outcome] | None = None,
        below: int | None = None,
    ) -> Pending[LedgerScan]:
        """The latest first, below row number `below`: up to `limit` of those wanted, with one of these outcomes. It
        ends wherever it has looked at `scan_rows`: the answer says where to go on."""


class Exports(Protocol):
    """Rows of the ledger for one named consumer, numbered as shipments are.

    `find`, `read` and `settle` raise ShipmentNotFound.
    """

    def claim(self, ref: ExportRef, limit: int) -> Pending[ClaimedExport]:
        """Up to `limit` rows. Claimed again, an export is the same. Raises ShipmentConflict for a number whose turn it
        is not."""

    def find(self, ref: ExportRef) -> Pending[Export]: ...

    def list(self, consumer: str | None, after: int, limit: int) -> Pending[Sequence[Export]]:
        """By consumer, then by number; of every consumer or of one; those with numbers above `after`."""

    def read(self, ref: ExportRef, after: int, limit: int) -> Pending[Sequence[LedgerRow]]:
        """Its rows whose number is above `after`. Raises ShipmentEnded when it is settled or rows of it are gone."""

    def settle(self, ref: ExportRef) -> Pending[Export]:
        """The consumer has these rows for good. Settling it again changes nothing."""


class Keys(Protocol):
    """API keys, as the store keeps them."""

    def create(
        self,
        name: str,
        digest: bytes,
        rules: Sequence[str],
        expires_at: int | None = None,
        by: Actor | None = None,
    ) -> Pending[CreatedKey]:
        """`digest` stands for the secret, which the store never sees. From `expires_at` on it is refused. Raises
        KeyExists for a name that was ever used, TooLarge for one key too many, and InvalidRequest for an instant that
        has passed."""

    def update(self, name: str, expires_at: int | None, by: Actor | None = None) -> Pending[Key]:
        """The key is refused from an instant on, or from none, also where it has expired. Raises KeyNotFound,
        KeyRevoked, and InvalidRequest for an instant that has passed."""

    def rotate(self, name: str, digest: bytes, grace_ms: int | None = None, by: Actor | None = None) -> Pending[Key]:
        """The key has another secret from now on. The one before is good as well for `grace_ms`, or, where that is
        None, until it is retired. Raises KeyNotFound, KeyRevoked, and KeyHasTwoSecrets."""

    def retire(self, name: str, by: Actor | None = None) -> Pending[Key]:
        """The old secret of the key is refused from now on. Where it has none, nothing changes. Raises KeyNotFound, and
        KeyRevoked."""

    def note_uses(self, uses: Sequence[KeyUse]) -> Pending[None]:
        """When secrets of keys were last used, for as long as it takes a store that does not answer."""

    def revoke(self, name: str, by: Actor | None = None) -> Pending[None]:
        """The key is refused from now on. Revoking it again changes nothing. Raises KeyNotFound."""

    def end_session(self, name: str, session: str, until: int, by: Actor | None = None) -> Pending[None]:
        """A session of the console with this key was signed out of: it is refused from now on, and remembered `until`
        it would have ended by itself. Raises KeyNotFound."""

    def list(self, patient: bool = False) -> Pending[Sequence[Key]]:
        """All keys, revoked ones too, in the order of their creation. A `patient` caller waits for a store that does
        not answer, however long it takes."""


class Actions(Protocol):
    """What was done by those who look after the store."""

    def record(
        self,
        by: Actor,
        what: ActionKind,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> Pending[None]:
        """What no other verb writes down. Nothing happens where the store keeps no such log."""

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Pending[Sequence[Action]]:
        """The latest first: those below number `before`, or all; those wanted, or all."""
