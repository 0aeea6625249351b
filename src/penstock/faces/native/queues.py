"""Queues: create, update, delete, list, show."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock import limits, names
from penstock.broker import AGAIN, Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import QueueNotFound
from penstock.faces.answers import json_response
from penstock.faces.native.requests import answered, decoder, query_flag, query_number, within
from penstock.faces.permission import Permission, Scope, check_dead_letters
from penstock.model import Backoff, Count, Dedup, LedgerMode, Queue, QueuePage, Redrive, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Unit

_BODY = BodyRule(64 * 1024)
_COUNTED_TOGETHER = 20
_DEDUPS = {"off": Dedup.OFF, "send": Dedup.SEND, "claim": Dedup.CLAIM}
_LEDGERS = {"off": LedgerMode.OFF, "outcomes": LedgerMode.OUTCOMES, "bodies": LedgerMode.BODIES}


class RedriveChange(Struct, forbid_unknown_fields=True):
    max_receives: int
    dead_letter_queue: str


class BackoffChange(Struct, forbid_unknown_fields=True):
    first_ms: int
    most_ms: int


class SettingsChange(Struct, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    visibility_ms: int | UnsetType = UNSET
    retention_ms: int | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    dedup: Literal["off", "send", "claim"] | UnsetType = UNSET
    redrive: RedriveChange | UnsetType | None = UNSET
    ledger: Literal["off", "outcomes", "bodies"] | UnsetType = UNSET
    backoff: BackoffChange | UnsetType | None = UNSET


_read_change = decoder(SettingsChange)


def queue_routes(broker: Broker) -> list[Route]:
    face = _Queues(broker)
    every = Permission("get_status", Scope.EVERY_QUEUE)
    return [
        Route("GET", "/v1/queues", answered(face.list, "offset", "limit", "count"), head=True, permission=every),
        Route("PUT", "/v1/queues/{queue}", answered(face.create), _BODY, permission=Permission("admin")),
        Route("PATCH", "/v1/queues/{queue}", answered(face.update), _BODY, permission=Permission("admin")),
        Route("GET", "/v1/queues/{queue}", answered(face.show), head=True, permission=Permission("get_status")),
        Route("DELETE", "/v1/queues/{queue}", answered(face.delete), permission=Permission("admin")),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list(self, request: Request) -> Pending[Response]:
        offset = query_number(request, "offset", 0, 0, 2**62)
        limit = query_number(request, "limit", 100, 1, limits.LIST_LIMIT)
        listing = _Listing(offset, limit, query_flag(request, "count", True))
        return self._broker.work(listing.step, writes=False).map(lambda found: json_response(200, found))

    def create(self, request: Request) -> Pending[Response]:
        name = names.check_with_space(request.params[0])
        settings = _changed(Settings(), _read_change(request.body))
        check_dead_letters(request, settings)
        created = self._broker.work(lambda unit, now: unit.create_queue(name, settings, now))
        return created.map(lambda queue: json_response(201, shown(queue)))

    def update(self, request: Request) -> Pending[Response]:
        [name] = request.params
        change = _read_change(request.body)

        def update(unit: Unit, _now: int) -> Queue:
            settings = _changed(_found(unit, name).settings, change)
            check_dead_letters(request, settings)
            return unit.update_queue(name, settings)

        return self._broker.work(update).map(lambda queue: json_response(200, shown(queue)))

    def show(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def show(unit: Unit, now: int) -> dict[str, object]:
            queue = shown(_found(unit, name))
            return {**queue, "count": unit.count(name, now, limits.COUNT_ROWS), "tally": unit.tally(name)}

        return self._broker.work(show, writes=False).map(lambda found: json_response(200, found))

    def delete(self, request: Request) -> Pending[Response]:
        [name] = request.params
        deleted = self._broker.work(lambda unit, now: unit.delete_queue(name, now))
        return deleted.map(lambda queue: json_response(200, shown(queue)))


class _Listing:
    """A page of queues with their counts: in steps, because each of a thousand queues may hold many claims."""

    def __init__(self, offset: int, limit: int, counted: bool) -> None:
        self._offset = offset
        self._limit = limit
        self._counted = counted
        self._page: QueuePage | None = None
        self._counts: list[Count] = []

    def step(self, unit: Unit, now: int) -> dict[str, object]:
        if self._page is None:
            self._page = unit.list_queues(self._offset, self._limit)
        queues = self._page.queues
        if not self._counted:
            return {"total": self._page.total, "queues": [shown(queue) for queue in queues]}
        until, looked_at = len(self._counts) + limits.LISTED_COUNTS, 0
        while len(self._counts) < min(until, len(queues)) and looked_at < limits.COUNT_ROWS:
            some = queues[len(self._counts) : len(self._counts) + _COUNTED_TOGETHER]
            counts = unit.counts(some, now, limits.LISTED_COUNT_ROWS)
            looked_at += sum(count.delayed + count.claimed for count in counts)
            self._counts += counts
        if len(self._counts) < len(queues):
            return AGAIN  # type: ignore[no-any-return]
        return {
            "total": self._page.total,
            "queues": [{**shown(queue), "count": count} for queue, count in zip(queues, self._counts, strict=True)],
        }


def _found(unit: Unit, name: str) -> Queue:
    queue = unit.find_queue(name)
    if queue is None:
        raise QueueNotFound(name)
    return queue


def _changed(settings: Settings, change: SettingsChange) -> Settings:
    changes: dict[str, object] = {}
    for name, lowest in (("visibility_ms", 0), ("retention_ms", 1), ("delay_ms", 0)):
        value = getattr(change, name)
        if value is not UNSET:
            changes[name] = within(name, value, lowest, limits.DURATION_MS)
    if not isinstance(change.dedup, UnsetType):
        changes["dedup"] = _DEDUPS[change.dedup]
    if not isinstance(change.ledger, UnsetType):
        changes["ledger"] = _LEDGERS[change.ledger]
    if not isinstance(change.redrive, UnsetType):
        changes["redrive"] = asked = change.redrive
        if asked is not None:
            within("redrive.max_receives", asked.max_receives, 1, limits.INT32_MAX)
            changes["redrive"] = Redrive(asked.max_receives, asked.dead_letter_queue)
    if not isinstance(change.backoff, UnsetType):
        changes["backoff"] = change.backoff and _backoff(change.backoff)
    return msgspec.structs.replace(settings, **changes)


def _backoff(asked: BackoffChange) -> Backoff:
    first = within("backoff.first_ms", asked.first_ms, 1, limits.DURATION_MS)
    return Backoff(first, within("backoff.most_ms", asked.most_ms, first, limits.DURATION_MS))


def shown(queue: Queue) -> dict[str, object]:
    settings = queue.settings
    return {
        "name": queue.name,
        "created_at": queue.created_at,
        "settings": {
            "visibility_ms": settings.visibility_ms,
            "retention_ms": settings.retention_ms,
            "delay_ms": settings.delay_ms,
            "dedup": settings.dedup.name.lower(),
            "redrive": settings.redrive,
            "ledger": settings.ledger.name.lower(),
            "backoff": settings.backoff,
        },
    }
