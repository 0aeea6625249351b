"""The broker of another process, as the faces of an edge see it: see `broker/protocol.py`.

Without a bridge, because the committer has just died, every call is rejected with StoreUnavailable, and so is what was
under way: whether it has happened is not known. The same holds for a committer that lives and does not answer.

One file because it is one list: every verb of the broker, by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from penstock.bridge.edge_end import EdgeEnd, gone
from penstock.broker.protocol import Form, Keys
from penstock.errors import StoreSilent, StoreUnavailable
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
from penstock.pending import Pending, chained, rejected

T = TypeVar("T")


class RemoteBroker:
    """`bridge` is None while there is no committer. One that does not answer a check within `check_s` is as good as
    none."""

    def __init__(self, check_s: float) -> None:
        self.bridge: EdgeEnd | None = None
        self._check_s = check_s
        # Why there is no bridge, if not because the committer has gone; and the one that is there all the same.
        self._why = ""
        self._silent: EdgeEnd | None = None
        self.moves = RemoteMoves(self)
        self.shipments = RemoteShipments(self)
        self.leases = RemoteLeases(self)
        self.ledger = RemoteLedger(self)
        self.exports = RemoteExports(self)
        self.keys: Keys = RemoteKeys(self)
        self.actions = RemoteActions(self)

    def forget(self, bridge: EdgeEnd) -> None:
        """A bridge that has broken. There may be a new one already."""
        if self.bridge is bridge:
            self.bridge = None
        if self._silent is bridge:
            self._silent = None

    def fall_silent(self, why: str, since: float = 0.0) -> None:
        """The committer does not answer, and until it does, calls are refused. See `EdgeEnd.give_up`."""
        self._why = why
        self._silent, self.bridge = self.bridge, None
        if self._silent is not None:
            self._silent.give_up(why, since)

    def speak_again(self) -> None:
        self._why = ""
        silent, self._silent = self._silent, None
        if silent is not None:
            silent.go_on()
            self.bridge = self.bridge or silent

    def absence(self) -> StoreUnavailable:
        return StoreSilent(self._why) if self._why else gone()

    def call(self, verb: str, *arguments: Any) -> Pending[Any]:
        return rejected(self.absence()) if self.bridge is None else self.bridge.call(verb, arguments)

    def check(self) -> Pending[None]:
        return rejected(self.absence()) if self.bridge is None else self.bridge.call_within("check", (), self._check_s)

    def check_room(self) -> Pending[bool]:
        return (
            rejected(self.absence())
            if self.bridge is None
            else self.bridge.call_within("check_room", (), self._check_s)
        )

    # Messages

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None = None) -> Pending[list[Sent]]:
        return rejected(self.absence()) if self.bridge is None else self.bridge.send(queue, drafts, create_as)

    def send_once(self, queue: str, drafts: Sequence[Draft], key: str, digest: bytes) -> Pending[SentOnce]:
        return self.call("send_once", queue, drafts, key, digest)

    def claim(
        self, queue: str, limit: int, hold_ms: int | None = None, wait_ms: int = 0, attempt: str | None = None
    ) -> Pending[list[Message]]:
        return (
            rejected(self.absence())
            if self.bridge is None
            else self.bridge.claim(queue, limit, hold_ms, wait_ms, attempt)
        )

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        return rejected(self.absence()) if self.bridge is None else self.bridge.ack(receipts)

    def ack_permitted(self, receipts: Sequence[Receipt], rules: Sequence[str]) -> Pending[list[bool]]:
        return self.call("ack_permitted", receipts, rules)

    def renew(self, receipts: Sequence[Receipt], hold_ms: int, shorten: bool = False) -> Pending[list[bool]]:
        return self.call("renew", receipts, hold_ms, shorten)

    def release(self, receipts: Sequence[Receipt], delay_ms: int | None = None) -> Pending[list[bool]]:
        return self.call("release", receipts, delay_ms)

    def locate(self, receipts: Sequence[Receipt]) -> Pending[list[str | None]]:
        return self.call("locate", receipts)

    def release_all(self, queue: str, by: Actor | None = None) -> Pending[int]:
        return self.call("release_all", queue, by)

    def purge(self, queue: str, by: Actor | None = None) -> Pending[int]:
        return self.call("purge", queue, by)

    def purge_older(self, queue: str, older_than_ms: int, by: Actor | None = None) -> Pending[int]:
        return self.call("purge_older", queue, older_than_ms, by)

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> Pending[list[Message]]:
        return self.call("peek", queue, limit, after)

    def scan(
        self, queue: str, selection: Selection, limit: int, ages: Ages = ANY_AGE, after: PeekAfter | None = None
    ) -> Pending[Scan]:
        return self.call("scan", queue, selection, limit, ages, after)

    def find_message(self, queue: str, message_id: str) -> Pending[Found | None]:
        return self.call("find_message", queue, message_id)

    def delete_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        return self.call("delete_messages", queue, message_ids, by)

    def release_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        return self.call("release_messages", queue, message_ids, by)

    def move_messages(
        self,
        queue: str,
        message_ids: Sequence[str],
        target: str | None = None,
        as_new: bool = False,
        by: Actor | None = None,
    ) -> Pending[list[Dealing]]:
        return self.call("move_messages", queue, message_ids, target, as_new, by)

    def resend(
        self,
        queue: str,
        message_id: str,
        draft: Draft,
        target: str | None = None,
        rules: Sequence[str] | None = None,
        by: Actor | None = None,
    ) -> Pending[Resent]:
        return self.call("resend", queue, message_id, draft, target, rules, by)

    def count(self, queue: str) -> Pending[Count]:
        return self.call("count", queue)

    # Queues

    def create_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[Queue]:
        return self.call("create_queue", name, settings, by)

    def ensure_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[None]:
        return self.call("ensure_queue", name, settings, by)

    def update_queue(
        self, name: str, change: QueueChange, rules: Sequence[str] | None = None, by: Actor | None = None
    ) -> Pending[Queue]:
        return self.call("update_queue", name, change, rules, by)

    def pause_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self.call("pause_queue", name, by)

    def resume_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self.call("resume_queue", name, by)

    def delete_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self.call("delete_queue", name, by)

    def find_queues(self, names: Sequence[str]) -> Pending[list[Queue | None]]:
        return self.call("find_queues", names)

    def describe_queue(self, name: str, tally: bool = False) -> Pending[QueueReport]:
        return self.call("describe_queue", name, tally)

    def list_queues(self, offset: int, limit: int) -> Pending[QueuePage]:
        return self.call("list_queues", offset, limit)

    def page_queues(self, prefix: str, after: str, limit: int) -> Pending[list[Queue]]:
        return self.call("page_queues", prefix, after, limit)

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> Pending[list[Queue]]:
        return self.call("dead_letter_sources", queue, after, limit)

    def count_queues(self, offset: int, limit: int) -> Pending[CountedPage]:
        return self.call("count_queues", offset, limit)

    # Figures

    def overview(self, query: OverviewQuery = ALL_QUEUES, rules: Sequence[str] | None = None) -> Pending[Overview]:
        return self.call("overview", query, rules)

    def history(self, queue: str, span: Span) -> Pending[History]:
        return self.call("history", queue, span)

    def workers_of(self, queue: str) -> Pending[Workers]:
        return self.call("workers_of", queue)

    def figures(self) -> Pending[StoreFigures]:
        return self.call("figures")

    def shrink(self, by: Actor | None = None) -> Pending[Shrunk]:
        return self.call("shrink", by)


class RemoteMoves:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

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
        return self._broker.call("moves.start", source, target, terms, ages, create_as, claimed, by)

    def cancel(self, move_id: str, rules: Sequence[str] | None = None, by: Actor | None = None) -> Pending[Move]:
        return self._broker.call("moves.cancel", move_id, rules, by)

    def find(self, move_id: str) -> Pending[Move | None]:
        return self._broker.call("moves.find", move_id)

    def list(self, limit: int) -> Pending[Sequence[Move]]:
        return self._broker.call("moves.list", limit)


class RemoteShipments:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def claim(
        self, ref: ShipmentRef, limit: int, hold_ms: int, max_bytes: int | None = None
    ) -> Pending[ClaimedShipment]:
        return self._broker.call("shipments.claim", ref, limit, hold_ms, max_bytes)

    def find(self, ref: ShipmentRef) -> Pending[Shipment]:
        return self._broker.call("shipments.find", ref)

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, after_consumer: str = ""
    ) -> Pending[Sequence[Shipment]]:
        return self._broker.call("shipments.list", queue, consumer, after, limit, after_consumer)

    def read(self, ref: ShipmentRef, start: int, limit: int) -> Pending[Sequence[Message]]:
        return self._broker.call("shipments.read", ref, start, limit)

    def read_as(self, ref: ShipmentRef, start: int, limit: int, form: Form[Sequence[Message], T]) -> Pending[T]:
        return chained(self.read(ref, start, limit), form.in_turns)

    def settle(self, ref: ShipmentRef, keep: bool = False, stored_in: str | None = None) -> Pending[Shipment]:
        return self._broker.call("shipments.settle", ref, keep, stored_in)

    def release(self, ref: ShipmentRef) -> Pending[Shipment]:
        return self._broker.call("shipments.release", ref)

    def beat(self, ref: ShipmentRef, hold_ms: int) -> Pending[Shipment]:
        return self._broker.call("shipments.beat", ref, hold_ms)


class RemoteLeases:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def take(self, queue: str, name: str, holder: str, hold_ms: int) -> Pending[Lease]:
        return self._broker.call("leases.take", queue, name, holder, hold_ms)

    def find(self, queue: str, name: str) -> Pending[Lease | None]:
        return self._broker.call("leases.find", queue, name)

    def drop(self, queue: str, name: str, holder: str) -> Pending[bool]:
        return self._broker.call("leases.drop", queue, name, holder)


class RemoteLedger:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> Pending[list[LedgerRow]]:
        return self._broker.call("ledger.rows", after, limit, wanted)

    def latest(
        self,
        limit: int,
        wanted: LedgerFilter,
        outcomes: Sequence[Outcome] | None = None,
        below: int | None = None,
    ) -> Pending[LedgerScan]:
        return self._broker.call("ledger.latest", limit, wanted, outcomes, below)


class RemoteExports:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def claim(self, ref: ExportRef, limit: int) -> Pending[ClaimedExport]:
        return self._broker.call("exports.claim", ref, limit)

    def find(self, ref: ExportRef) -> Pending[Export]:
        return self._broker.call("exports.find", ref)

    def list(self, consumer: str | None, after: int, limit: int) -> Pending[Sequence[Export]]:
        return self._broker.call("exports.list", consumer, after, limit)

    def read(self, ref: ExportRef, after: int, limit: int) -> Pending[Sequence[LedgerRow]]:
        return self._broker.call("exports.read", ref, after, limit)

    def settle(self, ref: ExportRef) -> Pending[Export]:
        return self._broker.call("exports.settle", ref)


class RemoteKeys:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def create(
        self,
        name: str,
        digest: bytes,
        rules: Sequence[str],
        expires_at: int | None = None,
        by: Actor | None = None,
    ) -> Pending[CreatedKey]:
        return self._broker.call("keys.create", name, digest, rules, expires_at, by)

    def update(self, name: str, expires_at: int | None, by: Actor | None = None) -> Pending[Key]:
        return self._broker.call("keys.update", name, expires_at, by)

    def rotate(self, name: str, digest: bytes, grace_ms: int | None = None, by: Actor | None = None) -> Pending[Key]:
        return self._broker.call("keys.rotate", name, digest, grace_ms, by)

    def retire(self, name: str, by: Actor | None = None) -> Pending[Key]:
        return self._broker.call("keys.retire", name, by)

    def note_uses(self, uses: Sequence[KeyUse]) -> Pending[None]:
        return self._broker.call("keys.note_uses", uses)

    def revoke(self, name: str, by: Actor | None = None) -> Pending[None]:
        return self._broker.call("keys.revoke", name, by)

    def end_session(self, name: str, session: str, until: int, by: Actor | None = None) -> Pending[None]:
        return self._broker.call("keys.end_session", name, session, until, by)

    def list(self, patient: bool = False) -> Pending[Sequence[Key]]:
        return self._broker.call("keys.list", patient)


class RemoteActions:
    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def record(
        self,
        by: Actor,
        what: ActionKind,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> Pending[None]:
        return self._broker.call("actions.record", by, what, queue, count, detail)

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Pending[Sequence[Action]]:
        return self._broker.call("actions.list", before, limit, wanted)
