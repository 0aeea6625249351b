"""Creating, updating, deleting, listing and describing queues."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from penstock import limits, names, policy
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import DeadLetterQueueNotFound, InvalidRequest, PenstockError, QueueExists, QueueNotFound
from penstock.faces.answers import Error, error_response, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import (
    LARGEST,
    NAME_RULE,
    NumberParam,
    Op,
    Param,
    answer,
    body,
    is_number,
    name_text,
    text,
)
from penstock.faces.mqs.trace import TAG, TRACE, TRACED, traced
from penstock.faces.permission import Permission, Scope, actor_of, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import check_dead_letters
from penstock.limits import Limits
from penstock.model import Dedup, Queue, QueueChange, QueueReport, Redrive, Settings
from penstock.pending import Pending

# What the log of actions calls this API.
VIA: Final = "mqs"

_BODY = BodyRule(64 * 1024)


_Seconds = Annotated[int, Meta(ge=0, le=limits.INT32_MAX)]
_REDRIVE = Meta(description="how many receives a message may have, and where it goes then")
_Retention = Annotated[
    int, Meta(ge=1, le=limits.INT32_MAX, description="seconds after its send in which a message is handed out")
]
_Visibility = Annotated[_Seconds, Meta(description="seconds for which a received message is hidden")]
_Deduplication = Annotated[bool, Meta(description="whether a message equal to one in the queue is not stored again")]


class MqsRedrive(Struct):
    max_receives: Annotated[int, Meta(ge=1, le=limits.INT32_MAX)]
    dead_letter_queue: Annotated[str, Meta(description="a queue that exists")]


class MqsSettings(Struct):
    """Unknown keys are ignored."""

    retention_timeout: _Retention
    visibility_timeout: _Visibility
    message_deduplication: _Deduplication
    redrive_policy: Annotated[MqsRedrive | None, _REDRIVE] = None
    message_delay: Annotated[_Seconds | None, Meta(description="seconds before a new message is visible")] = None


class MqsQueue(Struct):
    name: str
    redrive_policy: Annotated[MqsRedrive | None, _REDRIVE]
    retention_timeout: _Retention
    visibility_timeout: _Visibility
    message_delay: _Seconds
    message_deduplication: _Deduplication


class MqsStatus(Struct):
    messages: Annotated[int, Meta(ge=0, description="ready, delayed and claimed ones")]
    visible_messages: Annotated[int, Meta(ge=0, description="those that a receive could return now")]
    oldest_message_age: Annotated[int, Meta(ge=0, description="seconds; 0 in an empty queue")]


class MqsQueueStatus(MqsQueue):
    status: MqsStatus


class MqsQueuePage(Struct):
    total: Annotated[int, Meta(ge=0)]
    queues: list[MqsQueue]


_read_settings = decoder(MqsSettings, empty=b"")

_OFFSET = NumberParam("offset", 0, LARGEST, "How many to skip.", default=0)
_LIMIT = NumberParam(
    "limit",
    0,
    LARGEST,
    f"At most this many, and never over {limits.LIST_LIMIT:,}.",
    default=limits.LIST_LIMIT,
)
_NAME = Param("name", text(minLength=1), f"The name of the queue: {NAME_RULE}.", where="path", example="orders")
_NEW_NAME = Param("name", name_text(), _NAME.description, where="path", example="orders")
_SETTINGS_EXAMPLE = {
    "redrive_policy": None,
    "retention_timeout": 86400,
    "visibility_timeout": 30,
    "message_delay": 0,
    "message_deduplication": False,
}
_EXAMPLE = {"name": "orders", **_SETTINGS_EXAMPLE}
_SETTINGS = body(MqsSettings, _SETTINGS_EXAMPLE, "All settings: what may be left out gets its default.")
_QUEUE = answer("The queue.", MqsQueue, _EXAMPLE, headers=TRACED)

_LIST = Op(
    id="mqsListQueues",
    tag=TAG,
    summary="List queues",
    description="In the order of their creation.",
    parameters=(_OFFSET, _LIMIT, TRACE),
    answers={
        200: answer(
            "A part of them, and how many there are in all.",
            MqsQueuePage,
            {"total": 1, "queues": [_EXAMPLE]},
            headers=TRACED,
        )
    },
)
_CREATE = Op(
    id="mqsCreateQueue",
    tag=TAG,
    summary="Create a queue",
    description="That a queue of that name exists is found first, whatever the body says.",
    parameters=(_NEW_NAME, TRACE),
    body=_SETTINGS,
    answers={
        201: _QUEUE,
        409: answer(
            "There is a queue of that name.", Error, {"error": "queue 'orders' already exists"}, headers=TRACED
        ),
    },
)
_UPDATE = Op(
    id="mqsUpdateQueue",
    tag=TAG,
    summary="Replace the settings of a queue",
    description="What is left out gets its default; it does not stay as it was. Messages keep the delay they have.",
    parameters=(_NAME, TRACE),
    body=_SETTINGS,
    answers={200: _QUEUE, 404: NO_SUCH_QUEUE},
)
_DELETE = Op(
    id="mqsDeleteQueue",
    tag=TAG,
    summary="Delete a queue and its messages",
    description="Answers the settings it had. Queues that used it for their dead letters have no redrive any more.",
    parameters=(_NAME, TRACE),
    answers={200: _QUEUE, 404: NO_SUCH_QUEUE},
)
_DESCRIBE = Op(
    id="mqsDescribeQueue",
    tag=TAG,
    summary="Show a queue",
    description=f"Past {Limits().count_rows:,} delayed and claimed messages, `visible_messages` is an upper bound.",
    parameters=(_NAME, TRACE),
    answers={
        200: answer(
            "Its settings, and what is in it.",
            MqsQueueStatus,
            {**_EXAMPLE, "status": {"messages": 3, "visible_messages": 2, "oldest_message_age": 61}},
            headers=TRACED,
        ),
        404: NO_SUCH_QUEUE,
    },
)


def queue_routes(broker: Broker) -> list[Route]:
    face = _Queues(broker)
    admin, status = Permission("admin"), Permission("get_status")
    every = Permission("get_status", Scope.EVERY_QUEUE)
    one = "/queues/{name}"
    return [
        Route("GET", "/queues", traced(face.list), head=True, permission=every, describe=_LIST),
        Route("PUT", one, traced(face.create), _BODY, permission=admin, describe=_CREATE),
        Route("POST", one, traced(face.update), _BODY, permission=admin, describe=_UPDATE),
        Route("DELETE", one, traced(face.delete), permission=admin, describe=_DELETE),
        Route("GET", one, traced(face.describe), head=True, permission=status, describe=_DESCRIBE),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def create(self, request: Request) -> Pending[Response]:
        [name] = request.params
        config: MqsSettings | None = None
        try:
            names.check(name)
            config = _read_settings(request.body)
            change = _change(request, config)
        except PenstockError as error:
            return self._refuse(error, name, config, None if "/" in name else QueueExists(name))
        created = self._broker.create_queue(name, policy.changed(Settings(), change), actor_of(request, VIA))
        return created.map(lambda queue: json_response(201, _shown(queue)), _failure)

    def update(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        config: MqsSettings | None = None
        try:
            config = _read_settings(request.body)
            change = _change(request, config)
        except PenstockError as error:
            return self._refuse(error, name, config, QueueNotFound(name))
        updated = self._broker.update_queue(name, change, by=actor_of(request, VIA))
        return updated.map(lambda queue: json_response(200, _shown(queue)), _failure)

    def _refuse(
        self, error: PenstockError, name: str, config: MqsSettings | None, existence: PenstockError | None
    ) -> Pending[Response]:
        """A bad request; but the document wants to hear first whether the queue exists, then of its dead-letter queue.
        `existence` is what is wrong where the queue is there but should not be, or the other way round."""
        dead = None if config is None or config.redrive_policy is None else config.redrive_policy.dead_letter_queue

        def answered(found: list[Queue | None]) -> Response:
            if existence is not None and (found[0] is None) == isinstance(existence, QueueNotFound):
                return error_response(existence)
            if dead is not None and found[1] is None:
                return _failure(DeadLetterQueueNotFound(dead))
            return error_response(error)

        return self._broker.find_queues((name,) if dead is None else (name, dead)).map(answered, error_response)

    def delete(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        deleted = self._broker.delete_queue(name, actor_of(request, VIA))
        return deleted.map(lambda queue: json_response(200, _shown(queue)), error_response)

    def list(self, request: Request) -> Response | Pending[Response]:
        try:
            offset = _number(request, _OFFSET)
            limit = min(_number(request, _LIMIT), limits.LIST_LIMIT)
        except InvalidRequest as error:
            return error_response(error)
        page = self._broker.list_queues(offset, limit)
        return page.map(
            lambda page: json_response(200, MqsQueuePage(page.total, [_shown(queue) for queue in page.queues])),
            error_response,
        )

    def describe(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if "/" in name:
            return error_response(QueueNotFound(name))
        return self._broker.describe_queue(name).map(_description, error_response)


def _number(request: Request, param: NumberParam) -> int:
    given = request.query_params().get(param.name)
    if given is None:
        return param.default or 0
    if not is_number(given):
        raise InvalidRequest(f"{param.name} must be a number that is not negative")
    return int(given)


def _change(request: Request, asked: MqsSettings) -> QueueChange:
    """What mqs has no word for stays as it is."""
    wanted = asked.redrive_policy
    redrive = None if wanted is None else Redrive(wanted.max_receives, wanted.dead_letter_queue)
    check_dead_letters(rules_of(request), redrive)
    return QueueChange(
        retention_ms=asked.retention_timeout * 1000,
        visibility_ms=asked.visibility_timeout * 1000,
        delay_ms=(asked.message_delay or 0) * 1000,
        # mqs knows one kind; a queue that already has another kind keeps it.
        dedup=Dedup.SEND if asked.message_deduplication else Dedup.OFF,
        keeps_dedup=True,
        redrive=redrive,
    )


def _shown(queue: Queue) -> MqsQueue:
    return MqsQueue(*_fields(queue))


def _fields(queue: Queue) -> tuple[str, MqsRedrive | None, int, int, int, bool]:
    settings, redrive = queue.settings, queue.settings.redrive
    return (
        queue.name,
        None if redrive is None else MqsRedrive(redrive.max_receives, redrive.dead_letter_queue),
        settings.retention_ms // 1000,
        settings.visibility_ms // 1000,
        settings.delay_ms // 1000,
        settings.dedup is not Dedup.OFF,
    )


def _description(report: QueueReport) -> Response:
    count = report.count
    age_ms = 0 if count.oldest_sent_at is None else max(0, report.counted_at - count.oldest_sent_at)
    status = MqsStatus(count.total, count.ready, age_ms // 1000)
    return json_response(200, MqsQueueStatus(*_fields(report.queue), status))


def _failure(error: Exception) -> Response:
    if isinstance(error, DeadLetterQueueNotFound):
        error = InvalidRequest(f"redrive_policy.dead_letter_queue {error.name!r} does not exist")
    return error_response(error)
