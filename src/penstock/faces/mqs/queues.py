"""Creating, updating, deleting, listing and describing queues."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from penstock import limits, names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, QueueExists, QueueNotFound
from penstock.faces.answers import error_response, json_response
from penstock.faces.mqs.trace import traced
from penstock.faces.numbers import is_number
from penstock.faces.permission import Permission, Scope, check_dead_letters
from penstock.model import Count, Dedup, Queue, Redrive, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Unit

_BODY = BodyRule(64 * 1024)


class RedrivePolicy(Struct):
    max_receives: int
    dead_letter_queue: str


class QueueConfig(Struct):
    """The settings as they come and go. What a caller may leave out has a default."""

    retention_timeout: int
    visibility_timeout: int
    message_deduplication: bool
    redrive_policy: RedrivePolicy | None = None
    message_delay: int | None = None


_decode = msgspec.json.Decoder(QueueConfig).decode


def queue_routes(broker: Broker) -> list[Route]:
    face = _Queues(broker)
    return [
        Route("GET", "/queues", traced(face.list), head=True, permission=Permission("get_status", Scope.EVERY_QUEUE)),
        Route("PUT", "/queues/{name}", traced(face.create), _BODY, permission=Permission("admin")),
        Route("POST", "/queues/{name}", traced(face.update), _BODY, permission=Permission("admin")),
        Route("DELETE", "/queues/{name}", traced(face.delete), permission=Permission("admin")),
        Route("GET", "/queues/{name}", traced(face.describe), head=True, permission=Permission("get_status")),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def create(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def create(unit: Unit, now: int) -> Queue:
            if "/" not in name and unit.find_queue(name) is not None:
                raise QueueExists(name)
            settings = _settings(unit, request.body, Settings())
            check_dead_letters(request, settings)
            return unit.create_queue(names.check(name), settings, now)

        return self._broker.work(create).map(lambda queue: json_response(201, _config(queue)), error_response)

    def update(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def update(unit: Unit, _now: int) -> Queue:
            found = unit.find_queue(plain(name))
            if found is None:
                raise QueueNotFound(name)
            settings = _settings(unit, request.body, found.settings)
            check_dead_letters(request, settings)
            return unit.update_queue(name, settings)

        return self._broker.work(update).map(lambda queue: json_response(200, _config(queue)), error_response)

    def delete(self, request: Request) -> Pending[Response]:
        [name] = request.params
        deleted = self._broker.work(lambda unit, now: unit.delete_queue(plain(name), now))
        return deleted.map(lambda queue: json_response(200, _config(queue)), error_response)

    def list(self, request: Request) -> Response | Pending[Response]:
        try:
            offset = _number(request, "offset", 0)
            limit = min(_number(request, "limit", limits.LIST_LIMIT), limits.LIST_LIMIT)
        except InvalidRequest as error:
            return error_response(error)
        page = self._broker.work(lambda unit, _now: unit.list_queues(offset, limit), writes=False)
        return page.map(
            lambda page: json_response(200, {"total": page.total, "queues": [_config(queue) for queue in page.queues]}),
            error_response,
        )

    def describe(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def describe(unit: Unit, now: int) -> tuple[Queue, Count, int]:
            count = unit.count(plain(name), now, limits.COUNT_ROWS)
            queue = unit.find_queue(name)
            if queue is None:
                raise QueueNotFound(name)
            return queue, count, now

        return self._broker.work(describe, writes=False).map(_description, error_response)


def plain(name: str) -> str:
    """The queues of another name space are none of this API's."""
    if "/" in name:
        raise QueueNotFound(name)
    return name


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params().get(name)
    if text is None:
        return default
    if not is_number(text):
        raise InvalidRequest(f"{name} must be a number that is not negative")
    return int(text)


def _settings(unit: Unit, body: bytes, current: Settings) -> Settings:
    """Parse, then check values in the document's order. What mqs has no word for stays as it is."""
    try:
        config = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body does not parse: {error}") from error
    redrive = None
    if config.redrive_policy is not None:
        redrive = Redrive(config.redrive_policy.max_receives, config.redrive_policy.dead_letter_queue)
        if unit.find_queue(redrive.dead_letter_queue) is None:
            raise InvalidRequest(f"redrive_policy.dead_letter_queue {redrive.dead_letter_queue!r} does not exist")
        _check("redrive_policy.max_receives", redrive.max_receives, 1)
    delay = config.message_delay or 0
    _check("retention_timeout", config.retention_timeout, 1)
    _check("visibility_timeout", config.visibility_timeout, 0)
    _check("message_delay", delay, 0)
    return msgspec.structs.replace(
        current,
        retention_ms=config.retention_timeout * 1000,
        visibility_ms=config.visibility_timeout * 1000,
        delay_ms=delay * 1000,
        dedup=_dedup(config.message_deduplication, current.dedup),
        redrive=redrive,
    )


def _dedup(wanted: bool, current: Dedup) -> Dedup:
    """mqs knows one kind; a queue that already has another kind keeps it."""
    if not wanted:
        return Dedup.OFF
    return Dedup.SEND if current is Dedup.OFF else current


def _check(name: str, value: int, lowest: int) -> None:
    if not lowest <= value <= limits.INT32_MAX:
        raise InvalidRequest(f"{name} must be between {lowest} and {limits.INT32_MAX}")


def _config(queue: Queue) -> dict[str, object]:
    settings, redrive = queue.settings, queue.settings.redrive
    return {
        "name": queue.name,
        "redrive_policy": redrive and RedrivePolicy(redrive.max_receives, redrive.dead_letter_queue),
        "retention_timeout": settings.retention_ms // 1000,
        "visibility_timeout": settings.visibility_ms // 1000,
        "message_delay": settings.delay_ms // 1000,
        "message_deduplication": settings.dedup is not Dedup.OFF,
    }


def _description(found: tuple[Queue, Count, int]) -> Response:
    queue, count, now = found
    age_ms = 0 if count.oldest_sent_at is None else max(0, now - count.oldest_sent_at)
    status = {
        "messages": count.total,
        "visible_messages": count.ready,
        "oldest_message_age": age_ms // 1000,
    }
    return json_response(200, {**_config(queue), "status": status})
