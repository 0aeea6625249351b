"""Moves between queues: start, count first, watch, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MoveNotFound, NotPermitted
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import NumberParam, Op, Param, Tag, answer, body, text
from penstock.faces.native.requests import SMALL, VIA, Duration, Instant, query_number, route
from penstock.faces.permission import Permission, Scope, actor_of, permits, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Ages, JsonValue, Move, MoveStatus, MoveTerms, Selection
from penstock.pending import Pending
from penstock.selection import PATH_PATTERN, parse_path

_STATUS_WORDS = {status: status.name.lower().replace("_", "-") for status in MoveStatus}
_Receives = Annotated[int, Meta(ge=0, le=limits.INT32_MAX)]
_Counted = Annotated[int, Meta(ge=1)]


class FilterJson(Struct, forbid_unknown_fields=True):
    # Checked by `parse_path`, which says where a path goes wrong.
    path: Annotated[
        str,
        Meta(
            description=f'such as `$.order.lines[0]["unit price"]`, of at most {limits.PATH_STEPS} steps',
            extra_json_schema={"pattern": PATH_PATTERN, "maxLength": limits.PATH_LENGTH},
        ),
    ]
    value: Annotated[
        str | int | float | bool | None, Meta(description="what stands there: text, a number, a boolean or null")
    ]


class MoveFilter(Struct, forbid_unknown_fields=True):
    older_than_ms: Annotated[Duration | None, Meta(description="sent at least this long ago")] = None
    newer_than_ms: Annotated[Duration | None, Meta(description="sent more recently than this")] = None
    min_receives: _Receives | None = None
    max_receives: _Receives | None = None
    content_type: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.CONTENT_TYPE_BYTES)] | None,
        Meta(description="without regard to case and parameters"),
    ] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.FILTER_TEXT_LENGTH)] | None,
        Meta(description="a part of the body, in UTF-8"),
    ] = None
    json: Annotated[FilterJson | None, Meta(description="the body is JSON, and a value of it is this")] = None


class MoveRequest(Struct, forbid_unknown_fields=True):
    source: str
    target: Annotated[
        str | None, Meta(description="left out, each dead letter goes back to the queue it came from")
    ] = None
    filter: Annotated[MoveFilter | None, Meta(description="only messages for which all of it holds")] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=limits.DURATION_MS)] | None, Meta(description="at most this many messages")
    ] = None
    per_second: Annotated[
        Annotated[int, Meta(ge=1, le=limits.MOVES_PER_SECOND)] | None, Meta(description="no faster than this")
    ] = None
    dry_run: Annotated[bool, Meta(description="count what would move, and move nothing")] = False
    as_new: Annotated[
        bool | None,
        Meta(
            description="whether they arrive as if they were sent then, with a new id and a new age; by default those "
            "that go back do, and those that go to a `target` do not"
        ),
    ] = None


class MoveView(Struct):
    id: str
    source: str
    target: Annotated[str | None, Meta(description="null: each dead letter goes back to the queue it came from")]
    filter: Selection
    limit: _Counted | None
    per_second: _Counted | None
    dry_run: Annotated[bool, Meta(description="it only counts")]
    as_new: Annotated[bool, Meta(description="messages arrive with a new id and a new age")]
    status: Annotated[str, Meta(extra_json_schema={"enum": list(_STATUS_WORDS.values())})]
    total: Annotated[int, Meta(ge=0, description="messages in the source when it started")]
    examined: Annotated[int, Meta(ge=0, description="messages looked at")]
    matched: Annotated[int, Meta(ge=0, description="those that match")]
    moved: Annotated[int, Meta(ge=0, description="those that have left the source")]
    homeless: Annotated[
        int, Meta(ge=0, description="those that match but stay, because the queue they came from does not exist")
    ]
    started_at: Instant
    finished_at: Instant | None
    error: str | None


class MoveList(Struct):
    moves: list[MoveView]


_read_move = decoder(MoveRequest)

_TAG = Tag(
    "native moves",
    "Messages from one queue into another, or dead letters back to where they came from: in the background, in steps, "
    "also after a restart. What is claimed stays where it is.",
)
_ID = "7e1c1f5c-2b50-4f0e-9d0c-1a35a4b8c6f1"
_EXAMPLE = {
    "id": _ID,
    "source": "orders-dead",
    "target": "orders",
    "filter": {"sent_until": 1_760_000_000_000, "text": "timeout"},
    "limit": None,
    "per_second": 100,
    "dry_run": False,
    "as_new": False,
    "status": "in-progress",
    "total": 5_000,
    "examined": 2_000,
    "matched": 120,
    "moved": 120,
    "homeless": 0,
    "started_at": 1_760_000_000_000,
    "finished_at": None,
    "error": None,
}
_MOVE = Param("move", text(minLength=1), "The id of the move.", where="path", example=_ID)
_LIMIT = NumberParam("limit", 1, limits.LIST_LIMIT, "At most this many.", default=100)
_SOURCE = Param("source", text(), f"Only moves from this queue, of the latest {limits.LIST_LIMIT:,}.", example="orders")
_NO_MOVE = answer("There is no such move.", Error, {"error": f"there is no move '{_ID}'"})

_START = Op(
    id="move",
    tag=_TAG,
    summary="Move messages to another queue, or dead letters home",
    description="Starts the move and answers at once. What is sent to the source later stays there. Messages "
    "have never been received in their new queue. Those that go back arrive as new, since the time that they spent as "
    "dead letters would count for their retention; those that go to a target keep their id and their age. `as_new` "
    "says otherwise.",
    body=body(
        MoveRequest,
        {"source": "orders-dead", "target": "orders", "filter": {"older_than_ms": 0, "text": "timeout"}},
        home={"source": "orders-dead", "per_second": 100},
        count={"source": "orders-dead", "dry_run": True, "filter": {"json": {"path": "$.order", "value": 1}}},
    ),
    answers={
        201: answer("The move has started.", MoveView, _EXAMPLE),
        404: NO_SUCH_QUEUE,
        409: answer(
            "One of the two queues is part of another move.",
            Error,
            {"error": "'orders-dead' or 'orders' is part of another move that is still in progress"},
        ),
    },
)
_LIST = Op(
    id="listMoves",
    tag=_TAG,
    summary="List moves",
    description="The latest first: those in progress, and those that ended within a day.",
    parameters=(_LIMIT, _SOURCE),
    answers={200: answer("The moves.", MoveList, {"moves": [_EXAMPLE]})},
)
_SHOW = Op(
    id="showMove",
    tag=_TAG,
    summary="Ask how a move goes",
    description="For a day after its end.",
    parameters=(_MOVE,),
    answers={200: answer("The move.", MoveView, _EXAMPLE), 404: _NO_MOVE},
)
_CANCEL = Op(
    id="cancelMove",
    tag=_TAG,
    summary="Cancel a move",
    description="What has moved stays moved. One that has ended stays as it is. A body is ignored.",
    parameters=(_MOVE,),
    answers={200: answer("The move.", MoveView, {**_EXAMPLE, "status": "cancelled"}), 404: _NO_MOVE},
)


def move_routes(broker: Broker) -> list[Route]:
    face = _Moves(broker)
    every = Permission("get_status", Scope.EVERY_QUEUE)
    poll, status = Permission("poll", Scope.ASKS_ITSELF), Permission("get_status", Scope.ASKS_ITSELF)
    return [
        route("POST", "/v1/moves", face.start, _START, poll, SMALL),
        route("GET", "/v1/moves", face.list, _LIST, every, head=True),
        route("GET", "/v1/moves/{move}", face.show, _SHOW, status, head=True),
        route("POST", "/v1/moves/{move}/cancel", face.cancel, _CANCEL, poll, SMALL),
    ]


class _Moves:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, request: Request) -> Pending[Response]:
        """A caller who may take from one queue and put into the other may move. Where a dead letter came from is not
        known before it moves: then it takes a key that may send to every queue."""
        asked = _read_move(request.body)
        if asked.source == asked.target:
            raise InvalidRequest("a queue cannot be moved into itself")
        target = EVERY_QUEUE if asked.target is None else asked.target
        for action, queue in (("poll", asked.source), ("post", target)):
            if not permits(request, action, queue):
                raise NotPermitted(needed_rule(action, queue))
        conditions = asked.filter or MoveFilter()
        if conditions.json is not None:
            _check_json(conditions.json)
        return self._broker.moves.start(
            asked.source,
            asked.target,
            MoveTerms(
                _selection(conditions),
                asked.limit,
                asked.per_second,
                asked.dry_run,
                asked.target is None if asked.as_new is None else asked.as_new,
            ),
            Ages(conditions.older_than_ms, conditions.newer_than_ms),
            by=actor_of(request, VIA),
        ).map(lambda move: json_response(201, _view(move)))

    def list(self, request: Request) -> Pending[Response]:
        limit, source = query_number(request, _LIMIT), request.query_params().get(_SOURCE.name)

        def listed(moves: Sequence[Move]) -> Response:
            meant = [move for move in moves if source in (None, move.source)]
            return json_response(200, MoveList([_view(move) for move in meant[:limit]]))

        return self._broker.moves.list(limit if source is None else limits.LIST_LIMIT).map(listed)

    def show(self, request: Request) -> Pending[Response]:
        [move_id] = request.params

        def found(move: Move | None) -> Response:
            if move is None:
                raise MoveNotFound(move_id)
            if not (permits(request, "get_status", move.source) or permits(request, "poll", move.source)):
                raise NotPermitted(needed_rule("get_status", move.source))
            return json_response(200, _view(move))

        return self._broker.moves.find(move_id).map(found)

    def cancel(self, request: Request) -> Pending[Response]:
        [move_id] = request.params
        cancelled = self._broker.moves.cancel(move_id, rules_of(request), actor_of(request, VIA))
        return cancelled.map(lambda move: json_response(200, _view(move)))


def _check_json(asked: FilterJson) -> None:
    try:
        parse_path(asked.path)
    except ValueError as error:
        raise InvalidRequest(f"filter.json.path: {error}") from error
    if isinstance(asked.value, str) and len(asked.value) > limits.FILTER_TEXT_LENGTH:
        raise InvalidRequest(f"filter.json.value has at most {limits.FILTER_TEXT_LENGTH} characters")
    if isinstance(asked.value, int) and abs(asked.value) >= 2**63:
        raise InvalidRequest("filter.json.value is not a number of 64 bits")


def _selection(asked: MoveFilter) -> Selection:
    return Selection(
        min_receives=asked.min_receives,
        max_receives=asked.max_receives,
        content_type=asked.content_type,
        text=asked.text,
        json=None if asked.json is None else JsonValue(asked.json.path, asked.json.value),
    )


def _view(move: Move) -> MoveView:
    terms = move.terms
    return MoveView(
        move.id,
        move.source,
        move.target,
        terms.selection,
        terms.limit,
        terms.per_second,
        terms.dry_run,
        terms.as_new,
        _STATUS_WORDS[move.status],
        move.total,
        move.examined,
        move.matched,
        move.moved,
        move.homeless,
        move.started_at,
        move.finished_at,
        move.error,
    )
