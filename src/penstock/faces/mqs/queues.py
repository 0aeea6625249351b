"""Creating, updating, deleting, listing and describing queues."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from penstock import limits, names, policy
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import DeadLetterQueueNotFound, InvalidRequest, PenstockError, QueueExists, QueueNotFound
from penstock.faces.answers import error_response, json_response
from penstock.faces.mqs.trace import traced
from penstock.faces.numbers import is_number
from penstock.faces.permission import Permission, Scope, check_dead_letters
from penstock.model import Dedup, Queue, QueueChange, QueueReport, Redrive, Settings
from penstock.pending import Pending

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
        config: QueueConfig | None = None
        try:
            names.check(name)
            config = _read(request.body)
            change = _checked(request, config)
        except PenstockError as error:
            return self._refuse(error, name, config, None if "/" in name else QueueExists(name))
        created = self._broker.create_queue(name, policy.changed(Settings(), change))
        return created.map(lambda queue: json_response(201, _config(queue)), _failure)

    def update(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        config: QueueConfig | None = None
        try:
            config = _read(request.body)
            change = _checked(request, config)
        except PenstockError as error:
            return self._refuse(error, name, config, QueueNotFound(name))
        return self._broker.update_queue(name, change).map(lambda queue: json_response(200, _config(queue)), _failure)

    def _refuse(
        self, error: PenstockError, name: str, config: QueueConfig | None, existence: PenstockError | None
    ) -> Pending[Response]:
        """A bad request; but the document wants to hear first whether the queue exists, then of its dead-letter queue.
        `existence` is what is wrong where the queue is there but should not be, or the other way round."""
        dead = None if config is None or config.redrive_policy is None else config.redrive_policy.dead_letter_queue

        def answer(found: list[Queue | None]) -> Response:
            if existence is not None and (found[0] is None) == isinstance(existence, QueueNotFound):
                return error_response(existence)
            if dead is not None and found[1] is None:
                return _failure(DeadLetterQueueNotFound(dead))
            return error_response(error)

        return self._broker.find_queues((name,) if dead is None else (name, dead)).map(answer, error_response)

    def delete(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        return self._broker.delete_queue(name).map(lambda queue: json_response(200, _config(queue)), error_response)

    def list(self, request: Request) -> Response | Pending[Response]:
        try:
            offset = _number(request, "offset", 0)
            limit = min(_number(request, "limit", limits.LIST_LIMIT), limits.LIST_LIMIT)
        except InvalidRequest as error:
            return error_response(error)
        page = self._broker.list_queues(offset, limit)
        return page.map(
            lambda page: json_response(200, {"total": page.total, "queues": [_config(queue) for queue in page.queues]}),
            error_response,
        )

    def describe(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        return self._broker.describe_queue(name).map(_description, error_response)


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params().get(name)
    if text is None:
        return default
    if not is_number(text):
        raise InvalidRequest(f"{name} must be a number that is not negative")
    return int(text)


def _read(body: bytes) -> QueueConfig:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body does not parse: {error}") from error


def _checked(request: Request, config: QueueConfig) -> QueueChange:
    """Check values in the document's order. What mqs has no word for stays as it is."""
    redrive = None
    if config.redrive_policy is not None:
        redrive = Redrive(config.redrive_policy.max_receives, config.redrive_policy.dead_letter_queue)
        _check("redrive_policy.max_receives", redrive.max_receives, 1)
    delay = config.message_delay or 0
    _check("retention_timeout", config.retention_timeout, 1)
    _check("visibility_timeout", config.visibility_timeout, 0)
    _check("message_delay", delay, 0)
    check_dead_letters(request, redrive)
    return QueueChange(
        retention_ms=config.retention_timeout * 1000,
        visibility_ms=config.visibility_timeout * 1000,
        delay_ms=delay * 1000,
        # mqs knows one kind; a queue that already has another kind keeps it.
        dedup=Dedup.SEND if config.message_deduplication else Dedup.OFF,
        keeps_dedup=True,
        redrive=redrive,
    )


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


def _description(report: QueueReport) -> Response:
    count = report.count
    age_ms = 0 if count.oldest_sent_at is None else max(0, report.counted_at - count.oldest_sent_at)
    status = {
        "messages": count.total,
        "visible_messages": count.ready,
        "oldest_message_age": age_ms // 1000,
    }
    return json_response(200, {**_config(report.queue), "status": status})


def _failure(error: Exception) -> Response:
    if isinstance(error, DeadLetterQueueNotFound):
        error = InvalidRequest(f"redrive_policy.dead_letter_queue {error.name!r} does not exist")
    return error_response(error)
