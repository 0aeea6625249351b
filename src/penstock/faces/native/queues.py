"""Queues: create, update, delete, list, show."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits, names, policy
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder, within
from penstock.faces.description import LARGEST, NumberParam, Op, Param, Tag, answer, body, text
from penstock.faces.native.requests import (
    QUEUE,
    SMALL,
    Duration,
    Instant,
    query_flag,
    query_number,
    route,
)
from penstock.faces.permission import Permission, Scope, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import check_dead_letters
from penstock.limits import Limits
from penstock.model import (
    Backoff,
    Count,
    CountedPage,
    Dedup,
    LedgerMode,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Redrive,
    Settings,
    Tally,
)
from penstock.pending import Pending

_DedupWord = Literal["off", "send", "claim"]
_LedgerWord = Literal["off", "outcomes", "bodies"]
_DEDUPS: dict[_DedupWord, Dedup] = {"off": Dedup.OFF, "send": Dedup.SEND, "claim": Dedup.CLAIM}
_LEDGERS: dict[_LedgerWord, LedgerMode] = {
    "off": LedgerMode.OFF,
    "outcomes": LedgerMode.OUTCOMES,
    "bodies": LedgerMode.BODIES,
}
_DEDUP_WORDS = {dedup: word for word, dedup in _DEDUPS.items()}
_LEDGER_WORDS = {mode: word for word, mode in _LEDGERS.items()}
_Lasting = Annotated[int, Meta(ge=1, le=limits.DURATION_MS)]
_VISIBILITY = Meta(description="how long a claim holds a message that does not say otherwise")
_RETENTION = Meta(description="how long after its send a message is handed out")
_DELAY = Meta(description="how long a new message waits before it is ready")
_DEDUP = Meta(description="what becomes of equal messages: `send` stores one, `claim` hands out one")
_REDRIVE = Meta(description="how many receives a message may have, and where it goes then")
_LEDGER = Meta(description="what is remembered of a finished message")
_BACKOFF = Meta(description="how long a message waits after a claim that has run out or was released")


class RedriveChange(Struct, forbid_unknown_fields=True):
    max_receives: Annotated[int, Meta(ge=1, le=limits.INT32_MAX)]
    dead_letter_queue: str


class BackoffChange(Struct, forbid_unknown_fields=True):
    first_ms: Annotated[_Lasting, Meta(description="after its first receive")]
    most_ms: Annotated[
        _Lasting, Meta(description="it doubles with each receive until it is this long; not shorter than `first_ms`")
    ]


class SettingsChange(Struct, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    visibility_ms: Annotated[Duration | UnsetType, _VISIBILITY] = UNSET
    retention_ms: Annotated[_Lasting | UnsetType, _RETENTION] = UNSET
    delay_ms: Annotated[Duration | UnsetType, _DELAY] = UNSET
    dedup: Annotated[_DedupWord | UnsetType, _DEDUP] = UNSET
    redrive: Annotated[RedriveChange | UnsetType | None, _REDRIVE] = UNSET
    ledger: Annotated[_LedgerWord | UnsetType, _LEDGER] = UNSET
    backoff: Annotated[BackoffChange | UnsetType | None, _BACKOFF] = UNSET


class SettingsView(Struct):
    visibility_ms: Annotated[Duration, _VISIBILITY]
    retention_ms: Annotated[_Lasting, _RETENTION]
    delay_ms: Annotated[Duration, _DELAY]
    dedup: Annotated[_DedupWord, _DEDUP]
    redrive: Annotated[RedriveChange | None, _REDRIVE]
    ledger: Annotated[_LedgerWord, _LEDGER]
    backoff: Annotated[BackoffChange | None, _BACKOFF]


class QueueView(Struct):
    name: str
    created_at: Instant
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
    "settings": {
        "visibility_ms": 30_000,
        "retention_ms": 86_400_000,
        "delay_ms": 0,
        "dedup": "off",
        "redrive": None,
        "ledger": "outcomes",
        "backoff": {"first_ms": 1_000, "most_ms": 300_000},
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
    description="Those given; the others stay as they are. Messages keep the delay, claim and dedup key they have.",
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
        route("PUT", one, face.create, _CREATE, admin, SMALL),
        route("PATCH", one, face.update, _UPDATE, admin, SMALL),
        route("GET", one, face.show, _SHOW, status, head=True),
        route("DELETE", one, face.delete, _DELETE, admin),
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
        settings = policy.changed(Settings(), _change(_read_change(request.body)))
        check_dead_letters(rules_of(request), settings.redrive)
        return self._broker.create_queue(name, settings).map(lambda queue: json_response(201, _view(queue)))

    def update(self, request: Request) -> Pending[Response]:
        [name] = request.params
        change = _change(_read_change(request.body))
        updated = self._broker.update_queue(name, change, rules_of(request))
        return updated.map(lambda queue: json_response(200, _view(queue)))

    def show(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.describe_queue(name, tally=True).map(_report)

    def delete(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.delete_queue(name).map(lambda queue: json_response(200, _view(queue)))


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


def _change(asked: SettingsChange) -> QueueChange:
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
    return Redrive(asked.max_receives, asked.dead_letter_queue)


def _backoff(asked: BackoffChange) -> Backoff:
    most_ms = within("backoff.most_ms", asked.most_ms, asked.first_ms, limits.DURATION_MS)
    return Backoff(asked.first_ms, most_ms)


def _view(queue: Queue) -> QueueView:
    return QueueView(*_fields(queue))


def _fields(queue: Queue) -> tuple[str, int, SettingsView]:
    settings = queue.settings
    redrive, backoff = settings.redrive, settings.backoff
    view = SettingsView(
        settings.visibility_ms,
        settings.retention_ms,
        settings.delay_ms,
        _DEDUP_WORDS[settings.dedup],
        None if redrive is None else RedriveChange(redrive.max_receives, redrive.dead_letter_queue),
        _LEDGER_WORDS[settings.ledger],
        None if backoff is None else BackoffChange(backoff.first_ms, backoff.most_ms),
    )
    return queue.name, queue.created_at, view
