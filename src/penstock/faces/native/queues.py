"""Queues: create, update, pause, resume, delete, list, show."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits, names, policy
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import LARGEST, NumberParam, Op, Param, Tag, answer, body, text
from penstock.faces.native.requests import (
    QUEUE,
    VIA,
    Instant,
    query_flag,
    query_number,
    route,
)
from penstock.faces.native.settings import SettingsChange, SettingsView, change_from, settings_view
from penstock.faces.permission import Permission, Scope, actor_of, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import check_dead_letters
from penstock.limits import Limits
from penstock.model import (
    Count,
    CountedPage,
    Queue,
    QueuePage,
    QueueReport,
    Settings,
    Tally,
)
from penstock.pending import Pending


class QueueView(Struct):
    name: str
    created_at: Instant
    modified_at: Annotated[Instant, Meta(description="when its settings were last changed, in milliseconds since 1970")]
    paused_at: Annotated[Instant | None, Meta(description="since when claims find nothing; null unless it is paused")]
    settings: SettingsView


class QueueListed(QueueView):
    count: Count | UnsetType = UNSET


class QueueShown(QueueView):
    count: Count
    tally: Tally


class QueueList(Struct):
    total: Annotated[int, Meta(ge=0)]
    queues: list[QueueListed]


_read_change = decoder(SettingsChange)

# As many labels as there may be, in characters that take twelve bytes of JSON each.
_BODY = BodyRule(256 * 1024)

_TAG = Tag(
    "native queues",
    "Queues and their settings. Times are whole milliseconds: `…_ms` is a duration, `…_at` an instant. A body is JSON "
    "whatever its `Content-Type` says, no body is `{}`, and unknown keys are refused.",
)
_OFFSET = NumberParam("offset", 0, LARGEST, "How many to skip.", default=0)
_LIMIT = NumberParam("limit", 1, limits.LIST_LIMIT, "At most this many.", default=100)
_COUNT = Param("count", {"type": "boolean"}, "`false` leaves the counts out.", default=True)
_NEW_QUEUE = Param(
    QUEUE.name,
    text(pattern=rf"^({names.DEDUP_SPACE})?(?!\.{{1,2}}$){names.CHARACTERS}{{1,{limits.NAME_LENGTH}}}$"),
    QUEUE.description,
    where="path",
    example=QUEUE.example,
)
_EXAMPLE = {
    "name": "orders",
    "created_at": 1_760_000_000_000,
    "modified_at": 1_760_000_000_000,
    "paused_at": None,
    "settings": {
        "visibility_ms": 30_000,
        "retention_ms": 86_400_000,
        "delay_ms": 0,
        "dedup": "off",
        "redrive": None,
        "ledger": "outcomes",
        "backoff": {"first_ms": 1_000, "most_ms": 300_000},
        "groups": "off",
        "dedup_window_ms": 300_000,
        "dedup_scope": "queue",
        "labels": {"team": "payments"},
    },
}
_COUNT_EXAMPLE = {
    "total": 3,
    "ready": 2,
    "delayed": 0,
    "claimed": 1,
    "exact": True,
    "oldest_sent_at": 1_760_000_000_000,
    "oldest_ready_sent_at": 1_760_000_000_500,
}
_QUEUE = answer("The queue.", QueueView, _EXAMPLE)
_CHANGE = body(SettingsChange, {"visibility_ms": 60_000, "ledger": "bodies"}, required=False)

_LIST = Op(
    id="listQueues",
    tag=_TAG,
    summary="List queues",
    description="In the order of their creation, with what is in each of them now. Where more than "
    f"{Limits().listed_count_rows:,} messages of a queue are delayed or claimed, its parts are not exact.",
    parameters=(_OFFSET, _LIMIT, _COUNT),
    answers={
        200: answer(
            "A part of them, and how many there are in all.",
            QueueList,
            {"total": 1, "queues": [{**_EXAMPLE, "count": _COUNT_EXAMPLE}]},
        )
    },
)
_CREATE = Op(
    id="createQueue",
    tag=_TAG,
    summary="Create a queue",
    description="With the settings given; the others have their defaults.",
    parameters=(_NEW_QUEUE,),
    body=_CHANGE,
    answers={
        201: _QUEUE,
        409: answer("There is a queue of that name.", Error, {"error": "queue 'orders' already exists"}),
    },
)
_UPDATE = Op(
    id="updateQueue",
    tag=_TAG,
    summary="Change settings of a queue",
    description="Those given; the others stay as they are. Messages keep the delay, claim and dedup key they have. "
    "`groups` cannot be changed.",
    parameters=(QUEUE,),
    body=_CHANGE,
    answers={200: _QUEUE, 404: NO_SUCH_QUEUE},
)
_SHOW = Op(
    id="showQueue",
    tag=_TAG,
    summary="Show a queue",
    description="Its settings, what is in it now, and what ever arrived and departed.",
    parameters=(QUEUE,),
    answers={
        200: answer(
            "The queue.",
            QueueShown,
            {**_EXAMPLE, "count": _COUNT_EXAMPLE, "tally": {"arrived": 10, "departed": 7}},
        ),
        404: NO_SUCH_QUEUE,
    },
)
_PAUSE = Op(
    id="pauseQueue",
    tag=_TAG,
    summary="Pause a queue",
    description="Claims of every API find nothing in it until it is resumed; those that may wait do. Everything else "
    "goes on. Pausing a paused queue changes nothing.",
    parameters=(QUEUE,),
    answers={200: answer("The queue.", QueueView, {**_EXAMPLE, "paused_at": 1_760_000_100_000}), 404: NO_SUCH_QUEUE},
)
_RESUME = Op(
    id="resumeQueue",
    tag=_TAG,
    summary="Resume a queue",
    description="Claims find its messages again, also those that wait already. Resuming a queue that is not paused "
    "changes nothing.",
    parameters=(QUEUE,),
    answers={200: _QUEUE, 404: NO_SUCH_QUEUE},
)
_DELETE = Op(
    id="deleteQueue",
    tag=_TAG,
    summary="Delete a queue and its messages",
    description="Answers the queue as it was. Queues that used it for their dead letters have no redrive any more.",
    parameters=(QUEUE,),
    answers={200: _QUEUE, 404: NO_SUCH_QUEUE},
)


def queue_routes(broker: Broker) -> list[Route]:
    face = _Queues(broker)
    admin, status = Permission("admin"), Permission("get_status")
    every = Permission("get_status", Scope.EVERY_QUEUE)
    one = "/v1/queues/{queue}"
    return [
        route("GET", "/v1/queues", face.list, _LIST, every, head=True),
        route("PUT", one, face.create, _CREATE, admin, _BODY),
        route("PATCH", one, face.update, _UPDATE, admin, _BODY),
        route("GET", one, face.show, _SHOW, status, head=True),
        route("DELETE", one, face.delete, _DELETE, admin),
        route("POST", f"{one}/pause", face.pause, _PAUSE, admin),
        route("POST", f"{one}/resume", face.resume, _RESUME, admin),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list(self, request: Request) -> Pending[Response]:
        offset, limit = query_number(request, _OFFSET), query_number(request, _LIMIT)
        if query_flag(request, _COUNT):
            return self._broker.count_queues(offset, limit).map(_counted_page)
        return self._broker.list_queues(offset, limit).map(_page)

    def create(self, request: Request) -> Pending[Response]:
        name = names.check_with_space(request.params[0])
        settings = policy.changed(Settings(), change_from(_read_change(request.body)))
        check_dead_letters(rules_of(request), settings.redrive)
        created = self._broker.create_queue(name, settings, actor_of(request, VIA))
        return created.map(lambda queue: json_response(201, _view(queue)))

    def update(self, request: Request) -> Pending[Response]:
        [name] = request.params
        change = change_from(_read_change(request.body))
        updated = self._broker.update_queue(name, change, rules_of(request), actor_of(request, VIA))
        return updated.map(lambda queue: json_response(200, _view(queue)))

    def show(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.describe_queue(name, tally=True).map(_report)

    def pause(self, request: Request) -> Pending[Response]:
        [name] = request.params
        paused = self._broker.pause_queue(name, actor_of(request, VIA))
        return paused.map(lambda queue: json_response(200, _view(queue)))

    def resume(self, request: Request) -> Pending[Response]:
        [name] = request.params
        resumed = self._broker.resume_queue(name, actor_of(request, VIA))
        return resumed.map(lambda queue: json_response(200, _view(queue)))

    def delete(self, request: Request) -> Pending[Response]:
        [name] = request.params
        deleted = self._broker.delete_queue(name, actor_of(request, VIA))
        return deleted.map(lambda queue: json_response(200, _view(queue)))


def _page(page: QueuePage) -> Response:
    return json_response(200, QueueList(page.total, [QueueListed(*_fields(queue)) for queue in page.queues]))


def _counted_page(counted: CountedPage) -> Response:
    pairs = zip(counted.page.queues, counted.counts, strict=True)
    return json_response(
        200, QueueList(counted.page.total, [QueueListed(*_fields(queue), count) for queue, count in pairs])
    )


def _report(report: QueueReport) -> Response:
    tally: Tally = report.tally  # type: ignore[assignment]  # it was asked for
    return json_response(200, QueueShown(*_fields(report.queue), report.count, tally))


def _view(queue: Queue) -> QueueView:
    return QueueView(*_fields(queue))


def _fields(queue: Queue) -> tuple[str, int, int, int | None, SettingsView]:
    return queue.name, queue.created_at, queue.modified_at, queue.paused_at, settings_view(queue.settings)
