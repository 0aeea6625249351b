"""Queues: create, update, delete, list, show."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from penstock import limits, names, policy
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.faces.answers import json_response
from penstock.faces.native.requests import answered, decoder, query_flag, query_number, within
from penstock.faces.permission import Permission, Scope, check_dead_letters, rules_of
from penstock.model import (
    Backoff,
    CountedPage,
    Dedup,
    LedgerMode,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Redrive,
    Settings,
)
from penstock.pending import Pending

_BODY = BodyRule(64 * 1024)
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
        if query_flag(request, "count", True):
            return self._broker.count_queues(offset, limit).map(_counted_page)
        return self._broker.list_queues(offset, limit).map(_page)

    def create(self, request: Request) -> Pending[Response]:
        name = names.check_with_space(request.params[0])
        settings = policy.changed(Settings(), _change(_read_change(request.body)))
        check_dead_letters(request, settings.redrive)
        return self._broker.create_queue(name, settings).map(lambda queue: json_response(201, shown(queue)))

    def update(self, request: Request) -> Pending[Response]:
        [name] = request.params
        change = _change(_read_change(request.body))
        updated = self._broker.update_queue(name, change, rules_of(request))
        return updated.map(lambda queue: json_response(200, shown(queue)))

    def show(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.describe_queue(name, tally=True).map(_report)

    def delete(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.delete_queue(name).map(lambda queue: json_response(200, shown(queue)))


def _page(page: QueuePage) -> Response:
    return json_response(200, {"total": page.total, "queues": [shown(queue) for queue in page.queues]})


def _counted_page(counted: CountedPage) -> Response:
    pairs = zip(counted.page.queues, counted.counts, strict=True)
    queues = [{**shown(queue), "count": count} for queue, count in pairs]
    return json_response(200, {"total": counted.page.total, "queues": queues})


def _report(report: QueueReport) -> Response:
    return json_response(200, {**shown(report.queue), "count": report.count, "tally": report.tally})


def _change(asked: SettingsChange) -> QueueChange:
    for name, lowest in (("visibility_ms", 0), ("retention_ms", 1), ("delay_ms", 0)):
        value = getattr(asked, name)
        if value is not UNSET:
            within(name, value, lowest, limits.DURATION_MS)
    return QueueChange(
        visibility_ms=asked.visibility_ms,
        retention_ms=asked.retention_ms,
        delay_ms=asked.delay_ms,
        dedup=UNSET if isinstance(asked.dedup, UnsetType) else _DEDUPS[asked.dedup],
        redrive=_redrive(asked.redrive) if isinstance(asked.redrive, RedriveChange) else asked.redrive,
        ledger=UNSET if isinstance(asked.ledger, UnsetType) else _LEDGERS[asked.ledger],
        backoff=_backoff(asked.backoff) if isinstance(asked.backoff, BackoffChange) else asked.backoff,
    )


def _redrive(asked: RedriveChange) -> Redrive:
    within("redrive.max_receives", asked.max_receives, 1, limits.INT32_MAX)
    return Redrive(asked.max_receives, asked.dead_letter_queue)


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
