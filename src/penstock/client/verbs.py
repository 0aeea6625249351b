"""The verbs of the native API: what each asks, and how its answer reads.

One file because the API is one vocabulary, to be read from end to end. Nothing here talks to a server: `Client` and
`AsyncClient` make their methods of these functions, with the parameters and the documentation written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Unpack

from penstock import limits
from penstock.client.address import Answer
from penstock.client.codec import claimed_from, draft_to, message_from, queue_from, row_from, value_from
from penstock.client.errors import (
    InvalidRequest,
    KeyConflict,
    KeyExists,
    KeyNotFound,
    LeaseHeld,
    MessageNotFound,
    MoveConflict,
    MoveNotFound,
    QueueExists,
    QueueNotFound,
    Refused,
    SendConflict,
    ShipmentConflict,
    ShipmentEnded,
    ShipmentNotFound,
)
from penstock.client.requests import Dialogue, Moot, Page, Pages, Request, encoded, query_of, queue_path, quoted
from penstock.client.values import (
    Action,
    ActionFilter,
    Body,
    ClaimedMessage,
    Dealing,
    Draft,
    Export,
    ExportRef,
    History,
    Key,
    LatestRows,
    Lease,
    LedgerFilter,
    LedgerRow,
    Message,
    MessageFilter,
    Move,
    MoveTerms,
    NewKey,
    OldSecret,
    Overview,
    OverviewRow,
    OverviewSums,
    Peeked,
    Process,
    Queue,
    RegisteredConsumer,
    Resent,
    Sent,
    SentCounts,
    ServerFacts,
    Settings,
    Shipment,
    ShipmentRef,
    Shrunk,
    TaskTerms,
    Totals,
    Workers,
)

T = TypeVar("T")

# A receipt, a message id, a claimed message, or several of them.
Receipts: TypeAlias = str | ClaimedMessage | Iterable[str | ClaimedMessage]

OverviewSort: TypeAlias = Literal[
    "name", "ready", "delayed", "claimed", "total", "oldest", "sends", "acks", "dead_letters", "paused"
]

LINES = "application/x-ndjson"
_NOT_OF_THE_FILTER: tuple[str, ...] = ("limit", "per_second", "dry_run", "as_new", "claimed")
_HOUR_MS = 3_600_000

# What is missing, in the way or gone, where that is not a queue.
_SENDING: Mapping[int, type[Refused]] = {409: SendConflict}
_MESSAGE: Mapping[int, type[Refused]] = {404: MessageNotFound}
_MOVE: Mapping[int, type[Refused]] = {404: MoveNotFound}
_MOVE_START: Mapping[int, type[Refused]] = {409: MoveConflict}
_SHIPMENT_CLAIM: Mapping[int, type[Refused]] = {409: ShipmentConflict, 410: ShipmentEnded}
_SHIPMENT: Mapping[int, type[Refused]] = {404: ShipmentNotFound, 409: ShipmentConflict, 410: ShipmentEnded}
_LEASE: Mapping[int, type[Refused]] = {409: LeaseHeld}
_KEY: Mapping[int, type[Refused]] = {404: KeyNotFound, 409: KeyExists}
_CHANGED_KEY: Mapping[int, type[Refused]] = {404: KeyNotFound, 409: KeyConflict}


# The server


def health() -> Request[Literal["green", "red"]]:
    """`green` when the server can use its store. Asks the health of the mqs API, where the server serves it."""
    return Request(_health, "GET", "/health", repeatable=True)


def processes() -> Request[list[Process]]:
    """What each process of the server does. With API keys, it needs `get_status` on every queue."""
    return Request(_processes, "GET", "/v1/processes", repeatable=True)


def server() -> Request[ServerFacts]:
    """What kind of server it is. With API keys, it needs `get_status` on every queue."""
    return Request(_server, "GET", "/v1/server", repeatable=True)


def overview(
    sort: OverviewSort = "oldest",
    order: Literal["ascending", "descending"] | None = None,
    contains: str = "",
    *,
    dead_letter_queues: bool = False,
    offset: int = 0,
    limit: int = 100,
    sparks: bool = False,
) -> Request[Overview]:
    """A page of all queues, with what is in them and what happens there. Without an `order`, names ascend, and the most
    and the oldest come first. `contains` is a part of the name, in capitals or not; `sparks` adds the sends and acks of
    each of the last 60 minutes. With API keys, it shows those on which this one may `get_status`."""
    query = query_of(
        sort=sort,
        order=order,
        contains=contains or None,
        dead_letter_queues="true" if dead_letter_queues else None,
        offset=offset,
        limit=limit,
        sparks="true" if sparks else None,
    )
    return Request(_overview, "GET", f"/v1/overview{query}", repeatable=True)


# Queues


def create_queue(name: str, **settings: Unpack[Settings]) -> Request[Queue]:
    return Request(_queue, "PUT", queue_path(name), encoded(settings))


def ensure_queue(name: str, **settings: Unpack[Settings]) -> Dialogue[Queue]:
    """The queue, created with these settings if there is none; one that exists stays as it is."""
    try:
        # May be repeated: that it exists already is as good.
        created: Queue = yield replace(create_queue(name, **settings), repeatable=True)
        return created
    except QueueExists:
        found: Queue = yield queue(name)
        return found


def update_queue(name: str, **settings: Unpack[Settings]) -> Request[Queue]:
    return Request(_queue, "PATCH", queue_path(name), encoded(settings), repeatable=True)


def pause_queue(name: str) -> Request[Queue]:
    """Claims find nothing in it until it is resumed, and those that may wait do. Pausing it again changes nothing."""
    return Request(_queue, "POST", f"{queue_path(name)}/pause", repeatable=True)


def resume_queue(name: str) -> Request[Queue]:
    """Claims find its messages again, also those that wait already."""
    return Request(_queue, "POST", f"{queue_path(name)}/resume", repeatable=True)


def delete_queue(name: str) -> Request[Queue]:
    """The queue as it was. Its messages are gone with it."""
    return Request(_queue, "DELETE", queue_path(name))


def queue(name: str) -> Request[Queue]:
    """The queue with its count and its tally."""
    return Request(_queue, "GET", queue_path(name), repeatable=True)


def history(queue: str, span: Literal["hour", "day"] = "hour") -> Request[History]:
    """What was in the queue and what has happened there, by the minute for an hour, or by ten minutes for a day."""
    return Request(_history, "GET", queue_path(queue, "/history", span=span), repeatable=True)


def workers_of(queue: str) -> Request[Workers]:
    """Who works on the queue."""
    return Request(_workers, "GET", queue_path(queue, "/workers"), repeatable=True)


def queues(count: bool = True, per_page: int = 1_000) -> Pages[Queue]:
    """Every queue, fetched page by page while it is read; each with its `count`, unless that is not wanted."""
    return _queues_from(0, count, per_page)


def _queues_from(offset: int, count: bool, per_page: int) -> Request[Page[Queue]]:
    def read(answer: Answer) -> Page[Queue]:
        told = answer.json()
        found = [queue_from(one) for one in told["queues"]]
        behind = offset + len(found)
        return Page(found, _queues_from(behind, count, per_page) if found and behind < told["total"] else None)

    query = query_of(offset=offset, limit=per_page, count=None if count else "false")
    return Request(read, "GET", f"/v1/queues{query}", repeatable=True)


# Messages


def send(
    queue: str,
    body: Body,
    *,
    content_type: str | None = None,
    attributes: Mapping[str, str] | None = None,
    delay_ms: int | None = None,
    group: str | None = None,
    dedup_id: str | None = None,
) -> Request[str]:
    """The id of the message; of its earlier twin, where the queue keeps only one of two."""
    draft = draft_to(Draft(body, content_type, attributes, delay_ms, group, dedup_id))
    return Request(_sent_id, "POST", queue_path(queue, "/messages"), encoded({"messages": [draft]}))


def send_many(queue: str, messages: Iterable[Draft | Body]) -> Request[list[Sent]] | Moot[list[Sent]]:
    """All or nothing, in one request."""
    drafts = _drafts_of(messages, "send_many")
    if not drafts:
        return Moot([])
    return Request(_sent, "POST", queue_path(queue, "/messages"), encoded({"messages": drafts}))


def send_once(queue: str, messages: Iterable[Draft | Body], key: str) -> Request[SentCounts] | Moot[SentCounts]:
    """All or nothing, in one request, and unless a send with this idempotency key was carried out before. It may be
    repeated without storing anything twice; with other messages for the same key it is a SendConflict."""
    drafts = _drafts_of(messages, "send_once")
    if not drafts:
        return Moot(SentCounts(0, 0))
    return bulk_send(queue, encoded({"messages": drafts}), "application/json", key)


def send_lines(
    queue: str, lines: bytes | Iterable[Draft | Body], key: str | None = None
) -> Request[SentCounts] | Moot[SentCounts]:
    """As JSON lines: messages, or bytes that are lines already. With a `key` as `send_once`, and without it each call
    stores them."""
    body = lines if isinstance(lines, bytes) else b"\n".join(map(encoded, _drafts_of(lines, "send_lines")))
    if not body.strip():
        return Moot(SentCounts(0, 0))
    return bulk_send(queue, body, LINES, key)


def bulk_send(queue: str, body: bytes, content_type: str, key: str | None) -> Request[SentCounts]:
    headers = {"Content-Type": content_type} | ({} if key is None else {"Idempotency-Key": _checked_key(key)})
    return Request(_sent_counts, "POST", queue_path(queue, "/messages"), body, key is not None, 0, _SENDING, headers)


def claim(
    queue: str, limit: int = 1, hold_ms: int | None = None, wait_ms: int = 0, attempt: str | None = None
) -> Request[list[ClaimedMessage]]:
    """Up to `limit` messages, held for `hold_ms` or as long as the queue says; none after `wait_ms`. With an `attempt`,
    a name of your own, it may be repeated: within five minutes, and as long as it still holds all of them, the same
    messages come again."""
    asked: dict[str, object] = {"limit": limit, "hold_ms": hold_ms, "wait_ms": wait_ms}
    if attempt is not None:
        asked["attempt"] = attempt
    path, wait_s = queue_path(queue, "/claim"), wait_ms / 1000
    return Request(_claimed, "POST", path, encoded(asked), repeatable=attempt is not None, wait_s=wait_s)


def ack(queue: str, receipts: Receipts) -> Request[list[bool]] | Moot[list[bool]]:
    """Each True is a message that is finished; each False a receipt whose claim has ended."""
    return _of_receipts(queue, "/ack", receipts)


def renew(queue: str, receipts: Receipts, hold_ms: int) -> Request[list[bool]] | Moot[list[bool]]:
    """Hold the messages for `hold_ms` from now."""
    return _of_receipts(queue, "/renew", receipts, repeatable=True, hold_ms=hold_ms)


def release(queue: str, receipts: Receipts, delay_ms: int | None = None) -> Request[list[bool]] | Moot[list[bool]]:
    """Give the messages back: they are ready after `delay_ms`, or as the backoff of their queue says."""
    return _of_receipts(queue, "/release", receipts, delay_ms=delay_ms)


def peek(queue: str, limit: int = 10, after: str | None = None, **wanted: Unpack[MessageFilter]) -> Request[Peeked]:
    """Look without claiming, at all messages or at those that match. `after` goes on where an earlier peek ended; with
    a filter, a page may be empty before the end."""
    given: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    json_equals, attribute = wanted.get("json"), wanted.get("attribute")
    if json_equals is not None:
        del given["json"]
        given |= {"json_path": json_equals["path"], "json_value": json.dumps(json_equals["value"])}
    if attribute is not None:
        given |= {"attribute": attribute["name"], "attribute_value": attribute.get("value")}
    path = queue_path(queue, "/messages", limit=limit, after=after, **given)
    return Request(_peeked, "GET", path, repeatable=True)


def find_message(queue: str, message_id: str) -> Dialogue[Message]:
    """A message in any state, changing nothing. Raises MessageNotFound."""
    path = queue_path(queue, f"/messages/{quoted(message_id, 'id of a message')}")
    missing: MessageNotFound
    try:
        found: Message = yield Request(_message, "GET", path, repeatable=True, refusals=_MESSAGE)
        return found
    except MessageNotFound as error:
        missing = error
    yield peek(queue, 1)  # which tells whether it is the queue that is missing
    raise missing


def delete_messages(queue: str, message_ids: Iterable[str]) -> Request[list[Dealing]]:
    """Delete messages, claimed ones too; what became of each."""
    return _of_ids(queue, "delete", message_ids)


def release_messages(queue: str, message_ids: Iterable[str]) -> Request[list[Dealing]]:
    """End all claims on messages; what became of each."""
    return _of_ids(queue, "release", message_ids)


def move_messages(
    queue: str, message_ids: Iterable[str], target: str | None = None, as_new: bool | None = None
) -> Request[list[Dealing]]:
    """Move messages, claimed ones too, to another queue; without a target, dead letters to where they came from. What
    became of each."""
    return _of_ids(queue, "move", message_ids, target=target, as_new=as_new)


def resend(queue: str, message_id: str, message: Draft | Body, target: str | None = None) -> Request[Resent]:
    """Send another message in the place of one, which is deleted: both, or neither. Without a target it goes to where a
    dead letter came from, else to the same queue."""
    path = queue_path(queue, f"/messages/{quoted(message_id, 'id of a message')}/resend")
    return Request(_resent, "POST", path, encoded({"message": draft_to(message), "target": target}))


def purge(queue: str, older_than_ms: int | None = None) -> Request[int]:
    """Remove every message, claimed or not; or only those that were sent longer ago. How many there were."""
    asked = {} if older_than_ms is None else {"older_than_ms": older_than_ms}
    return Request(_purged, "POST", queue_path(queue, "/purge"), encoded(asked))


# Moves


def move(source: str, target: str, **terms: Unpack[MoveTerms]) -> Request[Move]:
    """Start to move messages from one queue into another. It goes on in the background, also after a restart. They keep
    their id and age, unless they are to arrive `as_new`."""
    return _move_with(source, target, terms)


def redrive(queue: str, **terms: Unpack[MoveTerms]) -> Request[Move]:
    """Start to move dead letters back to the queues they came from. They arrive as if they were sent then, unless
    `as_new` is False: they would be as old as they are, and might have outlived their queue's retention."""
    return _move_with(queue, None, terms)


def delete_matching(queue: str, **terms: Unpack[TaskTerms]) -> Request[Move]:
    """Start to delete the messages of a queue that match, in the background as a move. What is claimed stays, unless
    `claimed` or `state` says otherwise."""
    return _move_with(queue, None, terms, "delete")


def release_matching(queue: str, **terms: Unpack[TaskTerms]) -> Request[Move]:
    """Start to end the claims on the messages of a queue that match, in the background as a move."""
    return _move_with(queue, None, terms, "release")


def find_move(move_id: str) -> Request[Move]:
    """How a move goes, or how it ended, for a day."""
    return Request(_move, "GET", _move_path(move_id), repeatable=True, refusals=_MOVE)


def cancel_move(move_id: str) -> Request[Move]:
    """Move, delete or release nothing further. A move that has ended stays as it is."""
    return Request(_move, "POST", _move_path(move_id, "/cancel"), b"{}", repeatable=True, refusals=_MOVE)


def moves(limit: int = 100, source: str | None = None) -> Request[list[Move]]:
    """Those that are in progress or ended within a day, the latest first; all, or those from one queue."""
    return Request(_moves, "GET", f"/v1/moves{query_of(limit=limit, source=source)}", repeatable=True)


# Shipments. Their numbers make every verb repeatable.


def claim_shipment(
    shipment: ShipmentRef | Shipment, limit: int = 100_000, hold_ms: int = _HOUR_MS, max_bytes: int | None = None
) -> Request[Shipment | None]:
    """The shipment of this number, claimed now or before; None when nothing is ready. With `max_bytes`, it ends before
    the message with which the bodies would be longer together, unless that is the first."""
    asked = {"limit": limit, "hold_ms": hold_ms, **({} if max_bytes is None else {"max_bytes": max_bytes})}
    path = _shipment_path(shipment)
    return Request(_shipment_or_none, "PUT", path, encoded(asked), repeatable=True, refusals=_SHIPMENT_CLAIM)


def shipment(shipment: ShipmentRef | Shipment) -> Dialogue[Shipment]:
    """How it is with a shipment, or how it ended."""
    path = _shipment_path(shipment)
    return _in_queue(shipment, Request(_shipment, "GET", path, repeatable=True, refusals=_SHIPMENT))


def shipments(queue: str, consumer: str | None = None, per_page: int = limits.LIST_LIMIT) -> Pages[Shipment]:
    """Those of a queue, by consumer and number, or of one consumer."""
    if consumer is None:
        return _shipments_of_all(queue, None, per_page)
    return _shipments_of_one(queue, consumer, 0, per_page)


def next_shipment(queue: str, consumer: str) -> Dialogue[ShipmentRef]:
    """The one in progress, else the one after the last: what a consumer claims next."""
    last: Shipment | None = yield from _last_of(shipments(queue, consumer))
    if last is None:
        return ShipmentRef(queue, consumer, 1)
    return replace(last.ref, number=last.number + 1) if last.has_ended else last.ref


def read_shipment(
    shipment: ShipmentRef | Shipment, start: int = 0, stop: int | None = None, per_page: int = limits.BULK_LIMIT
) -> Pages[Message]:
    """The messages at positions `start` up to, not including, `stop`, fetched page by page while they are read. They
    are the same, in the same order, each time."""
    return read_positions(shipment, start, stop, per_page, Form(_messages, len))


def settle_shipment(
    shipment: ShipmentRef | Shipment, keep: bool = False, stored_in: str | None = None
) -> Dialogue[Shipment]:
    """Finish all its messages. `keep` leaves it readable until the consumer's next one is settled. `stored_in` says
    where the messages are now, for those who look at the shipment later; the first call decides."""
    asked = {"keep": keep, **({} if stored_in is None else {"stored_in": stored_in})}
    return _of_shipment(shipment, "/settle", asked)


def release_shipment(shipment: ShipmentRef | Shipment) -> Dialogue[Shipment]:
    """Give all its messages back."""
    return _of_shipment(shipment, "/release", {})


def beat_shipment(shipment: ShipmentRef | Shipment, hold_ms: int = _HOUR_MS) -> Dialogue[Shipment]:
    """A heartbeat: hold it for `hold_ms` from now."""
    return _of_shipment(shipment, "/heartbeat", {"hold_ms": hold_ms})


# Leases


def take_lease(queue: str, name: str, holder: str, hold_ms: int) -> Request[Lease]:
    """The lease for `hold_ms` from now, if it is free or this holder's already. Raises `LeaseHeld` where another one
    has it. A holder is a text that no other one uses."""
    body = encoded({"holder": holder, "hold_ms": hold_ms})
    return Request(_lease, "PUT", _lease_path(queue, name), body, repeatable=True, refusals=_LEASE)


def lease(queue: str, name: str) -> Dialogue[Lease | None]:
    """Who has the lease; None where no one has it."""
    try:
        found: Lease = yield Request(_lease, "GET", _lease_path(queue, name), repeatable=True)
        return found
    except QueueNotFound:
        # Or no one has it, which is a 404 as well: so the queue is asked for, with the same permission.
        yield _shipments_of_all(queue, None, 1)
        return None


def drop_lease(queue: str, name: str, holder: str) -> Request[None]:
    """Free the lease, if it is this holder's. If it is not, nothing happens."""
    return Request(_dropped, "DELETE", _lease_path(queue, name, holder=holder), repeatable=True)


# The ledger


def latest(
    *,
    limit: int = 100,
    below: int | None = None,
    outcomes: Iterable[str] | None = None,
    **wanted: Unpack[LedgerFilter],
) -> Request[LatestRows]:
    """What became of messages, the latest first: rows numbered below `below`, with one of these outcomes."""
    outcome = None if outcomes is None else ",".join(outcomes)
    path = f"/v1/ledger{query_of(order='newest', limit=limit, below=below, outcome=outcome, **wanted)}"
    return Request(_latest_rows, "GET", path, repeatable=True)


def ledger(
    *,
    after: int = 0,
    per_page: int = 1_000,
    **wanted: Unpack[LedgerFilter],
) -> Pages[LedgerRow]:
    """What became of messages: the rows numbered above `after`, fetched page by page while they are read."""
    return read_ledger(after, per_page, wanted, Form(_rows, len, _last_number))


def claim_export(export: ExportRef | Export, limit: int = 1_000_000) -> Request[Export | None]:
    """The export of this number, claimed now or before; None when there are no rows yet."""
    body = encoded({"limit": limit})
    return Request(_export_or_none, "PUT", _export_path(export), body, repeatable=True, refusals=_SHIPMENT_CLAIM)


def export(export: ExportRef | Export) -> Request[Export]:
    return Request(_export, "GET", _export_path(export), repeatable=True, refusals=_SHIPMENT)


def exports(consumer: str | None = None, per_page: int = limits.LIST_LIMIT) -> Pages[Export]:
    """By consumer and number, or those of one consumer. Where a page does not hold those of all consumers, the first of
    them are found: name the others."""
    return _exports_after(consumer, 0, per_page)


def next_export(consumer: str) -> Dialogue[ExportRef]:
    """The one that is not settled, else the one after the last: what a consumer claims next."""
    last: Export | None = yield from _last_of(exports(consumer))
    if last is None:
        return ExportRef(consumer, 1)
    return replace(last.ref, number=last.number + 1) if last.has_ended else last.ref


def read_export(
    export: ExportRef | Export, after: int = 0, through: int | None = None, per_page: int = limits.BULK_LIMIT
) -> Pages[LedgerRow]:
    """Its rows numbered above `after`, up to and including `through`, fetched page by page while they are read."""
    return read_numbers(export, after, through, per_page, Form(_rows, len, _last_number, _rows_through))


def settle_export(export: ExportRef | Export) -> Request[Export]:
    """The consumer has it."""
    return Request(_export, "POST", _export_path(export, "/settle"), b"{}", repeatable=True, refusals=_SHIPMENT)


# API keys


def keys() -> Request[list[Key]]:
    """All of them, revoked ones too, in the order of their creation."""
    return Request(_keys, "GET", "/v1/keys", repeatable=True)


def create_key(name: str, rules: Iterable[str], expires_at: int | None = None) -> Request[NewKey]:
    """The new key with its secrets, which are told this once. From the first key on every request needs one."""
    asked: dict[str, object] = {"name": name, "rules": list(rules)}
    if expires_at is not None:
        asked["expires_at"] = expires_at
    return Request(_new_key, "POST", "/v1/keys", encoded(asked), refusals=_KEY)


def update_key(name: str, expires_at: int | None) -> Request[Key]:
    """Refuse the key from this instant on, or from none. One that has expired may be good again."""
    body = encoded({"expires_at": expires_at})
    return Request(_key, "PATCH", _key_path(name), body, repeatable=True, refusals=_CHANGED_KEY)


def rotate_key(name: str, grace_ms: int | None = None) -> Request[NewKey]:
    """The key with new secrets, which are told this once. The old ones are good as well for `grace_ms`, or until they
    are retired."""
    body = encoded({} if grace_ms is None else {"grace_ms": grace_ms})
    return Request(_new_key, "POST", _key_path(name, "/rotate"), body, refusals=_CHANGED_KEY)


def retire_secret(name: str) -> Request[Key]:
    """Refuse the old secret of a key that was rotated, from now on."""
    return Request(_key, "POST", _key_path(name, "/retire"), b"{}", repeatable=True, refusals=_CHANGED_KEY)


def revoke_key(name: str) -> Request[None]:
    """Refuse the key from now on, for good."""
    return Request(_revoked, "DELETE", _key_path(name), repeatable=True, refusals=_KEY)


def _key_path(name: str, rest: str = "") -> str:
    return f"/v1/keys/{quoted(name, 'name of an API key')}{rest}"


# Actions


def actions(*, before: int | None = None, per_page: int = 1_000, **wanted: Unpack[ActionFilter]) -> Pages[Action]:
    """Who has administered what, the latest first: all, or those numbered below `before`, fetched page by page while
    they are read."""
    return _actions_before(before, per_page, wanted)


# The store


def shrink() -> Request[Shrunk]:
    """Give back to the file system what the store does not use: as much as one request may. While it says that it has,
    there may be more."""
    return Request(_shrunk, "POST", "/v1/store/shrink", repeatable=True)


# What is read page by page, in JSON or in Arrow


def _no_last(_items: Sequence[object]) -> int:
    raise TypeError("these have no numbers")


def _all_of_them(items: Sequence[T], _through: int) -> Sequence[T]:
    return items


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a page of messages or rows comes: its items, how many messages or rows they are, the number of the last row,
    and the items without the rows behind a number."""

    items: Callable[[Answer], Sequence[T]]
    count: Callable[[Sequence[T]], int]
    last: Callable[[Sequence[T]], int] = _no_last
    through: Callable[[Sequence[T], int], Sequence[T]] = _all_of_them
    headers: Mapping[str, str] | None = None


def read_positions(
    shipment: ShipmentRef | Shipment, start: int, stop: int | None, per_page: int, form: Form[T]
) -> Pages[T]:
    def page(start: int) -> Dialogue[Page[T]]:
        def read(answer: Answer) -> Page[T]:
            items = form.items(answer)
            count = form.count(items)
            behind = start + count
            return Page(items, page(behind) if count and (stop is None or behind < stop) else None)

        limit = per_page if stop is None else min(per_page, stop - start)
        path = _shipment_path(shipment, "/messages", start=start, limit=limit)
        request = Request(read, "GET", path, repeatable=True, refusals=_SHIPMENT, headers=form.headers)
        return _in_queue(shipment, request)

    return Moot(Page([])) if stop is not None and start >= stop else page(start)


def read_numbers(export: ExportRef | Export, after: int, through: int | None, per_page: int, form: Form[T]) -> Pages[T]:
    def page(after: int) -> Request[Page[T]]:
        def read(answer: Answer) -> Page[T]:
            items = form.items(answer)
            if not form.count(items):
                return Page([])
            last = form.last(items)
            if through is None or last < through:
                return Page(items, page(last))
            return Page(form.through(items, through))

        path = _export_path(export, "/rows", after=after, limit=per_page)
        return Request(read, "GET", path, repeatable=True, refusals=_SHIPMENT, headers=form.headers)

    return Moot(Page([])) if through is not None and after >= through else page(after)


def read_ledger(after: int, per_page: int, wanted: LedgerFilter, form: Form[T]) -> Request[Page[T]]:
    def read(answer: Answer) -> Page[T]:
        items = form.items(answer)
        return Page(items, read_ledger(form.last(items), per_page, wanted, form) if form.count(items) else None)

    path = f"/v1/ledger{query_of(after=after, limit=per_page, **wanted)}"
    return Request(read, "GET", path, repeatable=True, headers=form.headers)


def _shipments_of_all(queue: str, after_consumer: str | None, per_page: int) -> Request[Page[Shipment]]:
    def read(answer: Answer) -> Page[Shipment]:
        found = _shipments_in(answer)
        if len(found) < per_page:
            return Page(found)
        # Numbers go up only within one consumer's: first the rest of the last one's.
        last = found[-1]
        return Page(found, _shipments_of_one(queue, last.consumer, last.number, per_page, and_others=True))

    path = queue_path(queue, "/shipments", after_consumer=after_consumer, limit=per_page)
    return Request(read, "GET", path, repeatable=True)


def _shipments_of_one(
    queue: str, consumer: str, after: int, per_page: int, and_others: bool = False
) -> Request[Page[Shipment]]:
    def read(answer: Answer) -> Page[Shipment]:
        found = _shipments_in(answer)
        if len(found) == per_page:
            return Page(found, _shipments_of_one(queue, consumer, found[-1].number, per_page, and_others))
        return Page(found, _shipments_of_all(queue, consumer, per_page) if and_others else None)

    path = queue_path(queue, "/shipments", consumer=consumer, after=after, limit=per_page)
    return Request(read, "GET", path, repeatable=True)


def _shipments_in(answer: Answer) -> list[Shipment]:
    return [value_from(Shipment, one) for one in answer.json()["shipments"]]


def _exports_after(consumer: str | None, after: int, per_page: int) -> Request[Page[Export]]:
    def read(answer: Answer) -> Page[Export]:
        found = [value_from(Export, one) for one in answer.json()["exports"]]
        if len(found) < per_page:
            return Page(found)
        return Page(found, _exports_after(found[-1].consumer, found[-1].number, per_page))

    path = f"/v1/ledger/exports{query_of(consumer=consumer, after=after, limit=per_page)}"
    return Request(read, "GET", path, repeatable=True)


def _last_of(pages: Pages[T]) -> Dialogue[T | None]:
    last: T | None = None
    asking: Pages[T] | None = pages
    while asking is not None:
        page: Page[T] = (yield asking) if isinstance(asking, Request | Moot) else (yield from asking)
        last = page.items[-1] if page.items else last
        asking = page.following
    return last


# What goes there


def _drafts_of(messages: Iterable[Draft | Body], verb: str) -> list[dict[str, object]]:
    if isinstance(messages, str | bytes | bytearray | memoryview | Mapping | Draft):
        raise InvalidRequest(f"{verb} takes a list of messages; one message is for send")
    return [draft_to(message) for message in messages]


def _checked_key(key: str) -> str:
    if not (0 < len(key) <= limits.IDEMPOTENCY_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise InvalidRequest(f"an idempotency key is 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return key


def _of_receipts(
    queue: str, rest: str, receipts: Receipts, *, repeatable: bool = False, **more: object
) -> Request[list[bool]] | Moot[list[bool]]:
    if isinstance(receipts, str | ClaimedMessage):
        receipts = [receipts]
    texts = [receipt if isinstance(receipt, str) else receipt.receipt for receipt in receipts]
    if not texts:
        return Moot([])
    return Request(done_from, "POST", queue_path(queue, rest), encoded({"receipts": texts, **more}), repeatable)


def _move_with(source: str, target: str | None, terms: MoveTerms | TaskTerms, action: str = "move") -> Request[Move]:
    given: dict[str, object] = {name: value for name, value in terms.items() if value is not None}
    asked: dict[str, object] = {name: given.pop(name) for name in _NOT_OF_THE_FILTER if name in given}
    if action != "move":
        asked["action"] = action
    body = encoded({"source": source, "target": target, "filter": given, **asked})
    return Request(_move, "POST", "/v1/moves", body, refusals=_MOVE_START)


def _of_shipment(shipment: ShipmentRef | Shipment, rest: str, asked: Mapping[str, object]) -> Dialogue[Shipment]:
    path = _shipment_path(shipment, rest)
    return _in_queue(shipment, Request(_shipment, "POST", path, encoded(asked), repeatable=True, refusals=_SHIPMENT))


def _in_queue(shipment: ShipmentRef | Shipment, request: Request[T]) -> Dialogue[T]:
    """A 404 does not say whether the shipment is missing or the whole queue. So the queue is asked for next, by the one
    look at it that needs no other permission than the request itself."""
    try:
        result: T = yield request
        return result
    except ShipmentNotFound as error:
        missing = error
    yield _shipments_of_one(shipment.queue, shipment.consumer, 0, 1)
    raise missing


def _of_ids(queue: str, verb: str, message_ids: Iterable[str], **more: object) -> Request[list[Dealing]]:
    if isinstance(message_ids, str):
        message_ids = [message_ids]
    return Request(
        _outcomes, "POST", queue_path(queue, f"/messages/{verb}"), encoded({"ids": list(message_ids), **more})
    )


def _move_path(move_id: str, rest: str = "") -> str:
    return f"/v1/moves/{quoted(move_id, 'id of a move')}{rest}"


def _shipment_path(shipment: ShipmentRef | Shipment, rest: str = "", **query: object) -> str:
    consumer = quoted(shipment.consumer, "name of a consumer")
    return queue_path(shipment.queue, f"/shipments/{consumer}/{shipment.number}{rest}", **query)


def _lease_path(queue: str, name: str, **query: object) -> str:
    return queue_path(queue, f"/leases/{quoted(name, 'name of a lease')}", **query)


def _export_path(export: ExportRef | Export, rest: str = "", **query: object) -> str:
    consumer = quoted(export.consumer, "name of a consumer")
    return f"/v1/ledger/exports/{consumer}/{export.number}{rest}{query_of(**query)}"


# What comes back


def _processes(answer: Answer) -> list[Process]:
    return [value_from(Process, process) for process in answer.json()["processes"]]


def _server(answer: Answer) -> ServerFacts:
    return value_from(ServerFacts, answer.json())


def _overview(answer: Answer) -> Overview:
    told = answer.json()
    rows = [value_from(OverviewRow, {**row, "totals": value_from(Totals, row["totals"])}) for row in told["rows"]]
    return Overview(told["total"], value_from(OverviewSums, told["sums"]), told["as_of"], rows)


def _history(answer: Answer) -> History:
    return value_from(History, answer.json())


def _workers(answer: Answer) -> Workers:
    told = answer.json()
    return Workers(
        told["waiting_claims"],
        [value_from(RegisteredConsumer, consumer) for consumer in told["consumers"]],
        [value_from(Shipment, shipment) for shipment in told["shipments"]],
    )


def _health(answer: Answer) -> Literal["green", "red"]:
    match answer.body:
        case b"green":
            return "green"
        case b"red":
            return "red"
    raise ValueError("neither green nor red")


def _queue(answer: Answer) -> Queue:
    return queue_from(answer.json())


def _sent(answer: Answer) -> list[Sent]:
    return [Sent(sent["id"], sent["stored"]) for sent in answer.json()["sent"]]


def _sent_id(answer: Answer) -> str:
    [sent] = _sent(answer)
    return sent.id


def _sent_counts(answer: Answer) -> SentCounts:
    return value_from(SentCounts, answer.json())


def _claimed(answer: Answer) -> list[ClaimedMessage]:
    return [claimed_from(message) for message in answer.json()["messages"]]


def _messages(answer: Answer) -> list[Message]:
    return [message_from(message) for message in answer.json()["messages"]]


def _peeked(answer: Answer) -> Peeked:
    told = answer.json()
    return Peeked([message_from(message) for message in told["messages"]], told["after"], told.get("examined"))


def _message(answer: Answer) -> Message:
    return message_from(answer.json())


def _outcomes(answer: Answer) -> list[Dealing]:
    return list(answer.json()["outcomes"])


def _resent(answer: Answer) -> Resent:
    return value_from(Resent, answer.json())


def done_from(answer: Answer) -> list[bool]:
    return list(answer.json()["done"])


def _shrunk(answer: Answer) -> Shrunk:
    return value_from(Shrunk, answer.json())


def _purged(answer: Answer) -> int:
    return int(answer.json()["purged"])


def _move(answer: Answer) -> Move:
    return value_from(Move, answer.json())


def _moves(answer: Answer) -> list[Move]:
    return [value_from(Move, move) for move in answer.json()["moves"]]


def _shipment(answer: Answer) -> Shipment:
    return value_from(Shipment, answer.json())


def _shipment_or_none(answer: Answer) -> Shipment | None:
    return None if answer.status == 204 else _shipment(answer)


def _lease(answer: Answer) -> Lease:
    return value_from(Lease, answer.json())


def _dropped(answer: Answer) -> None:
    if answer.status != 204:
        raise ValueError("neither dropped nor refused")


def _export(answer: Answer) -> Export:
    return value_from(Export, answer.json())


def _export_or_none(answer: Answer) -> Export | None:
    return None if answer.status == 204 else _export(answer)


def _rows(answer: Answer) -> list[LedgerRow]:
    return [row_from(row) for row in answer.json()["rows"]]


def _latest_rows(answer: Answer) -> LatestRows:
    told = answer.json()
    return LatestRows([row_from(row) for row in told["rows"]], told["examined"], told["below"])


def _last_number(rows: Sequence[LedgerRow]) -> int:
    return rows[-1].number


def _rows_through(rows: Sequence[LedgerRow], through: int) -> Sequence[LedgerRow]:
    return [row for row in rows if row.number <= through]


def _actions_before(before: int | None, per_page: int, wanted: ActionFilter) -> Request[Page[Action]]:
    def read(answer: Answer) -> Page[Action]:
        found = [value_from(Action, one) for one in answer.json()["actions"]]
        if len(found) < per_page:
            return Page(found)
        return Page(found, _actions_before(found[-1].number, per_page, wanted))

    path = f"/v1/actions{query_of(before=before, limit=per_page, **wanted)}"
    return Request(read, "GET", path, repeatable=True)


def _keys(answer: Answer) -> list[Key]:
    return [_key_from(key) for key in answer.json()["keys"]]


def _key(answer: Answer) -> Key:
    return _key_from(answer.json())


def _key_from(told: Mapping[str, Any]) -> Key:
    # An older server does not tell the state, and knows no keys that expire.
    state = "in force" if told["revoked_at"] is None else "revoked"
    return value_from(Key, {"state": state, **told, "old_secret": _old_secret(told)})


def _old_secret(told: Mapping[str, Any]) -> OldSecret | None:
    old = told.get("old_secret")
    return None if old is None else value_from(OldSecret, old)


def _new_key(answer: Answer) -> NewKey:
    told = answer.json()
    return value_from(NewKey, {**told, "old_secret": _old_secret(told)})


def _revoked(answer: Answer) -> None:
    answer.json()["revoked"]
