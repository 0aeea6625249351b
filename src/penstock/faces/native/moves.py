"""Moves between queues, and what else is done to messages in the background: start, count first, watch, cancel."""

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
from penstock.faces.native.filters import MoveFilter, ages_of, selection_of
from penstock.faces.native.requests import SMALL, VIA, Instant, query_number, route
from penstock.faces.permission import Permission, Scope, actor_of, permits, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Move, MoveAction, MoveStatus, MoveTerms, Selection
from penstock.pending import Pending

_STATUS_WORDS = {status: status.name.lower().replace("_", "-") for status in MoveStatus}
_Counted = Annotated[int, Meta(ge=1)]


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
    action: Annotated[
        MoveAction,
        Meta(
            description="`delete` removes the messages instead, and `release` ends the claims on them: neither has a "
            "`target`"
        ),
    ] = MoveAction.MOVE
    claimed: Annotated[
        bool,
        Meta(description="claimed messages go along; without it they stay, unless the filter has `state: claimed`"),
    ] = False
    dry_run: Annotated[bool, Meta(description="count what is meant, and do nothing to it")] = False
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
    action: Annotated[MoveAction, Meta(description="what becomes of the messages")]
    claimed: Annotated[bool, Meta(description="claimed messages go along")]
    filter: Selection
    limit: _Counted | None
    per_second: _Counted | None
    dry_run: Annotated[bool, Meta(description="it only counts")]
    as_new: Annotated[bool, Meta(description="messages arrive with a new id and a new age")]
    status: Annotated[str, Meta(extra_json_schema={"enum": list(_STATUS_WORDS.values())})]
    total: Annotated[int, Meta(ge=0, description="messages in the source when it started")]
    examined: Annotated[int, Meta(ge=0, description="messages looked at")]
    matched: Annotated[int, Meta(ge=0, description="those that match")]
    moved: Annotated[int, Meta(ge=0, description="those that have been dealt with: moved, deleted or released")]
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
    "Messages from one queue into another, or dead letters back to where they came from; or messages of a queue "
    "deleted, or released: in the background, in steps, also after a restart.",
)
_ID = "7e1c1f5c-2b50-4f0e-9d0c-1a35a4b8c6f1"
_EXAMPLE = {
    "id": _ID,
    "source": "orders-dead",
    "target": "orders",
    "action": "move",
    "claimed": False,
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
    summary="Move, delete or release messages in the background",
    description="Starts the move and answers at once. What is sent to the source later stays there. What is claimed "
    "stays, unless it is asked for; what is in a shipment stays. Moved messages "
    "have never been received in their new queue. Those that go back arrive as new, since the time that they spent as "
    "dead letters would count for their retention; those that go to a target keep their id and their age. `as_new` "
    "says otherwise.",
    body=body(
        MoveRequest,
        {"source": "orders-dead", "target": "orders", "filter": {"older_than_ms": 0, "text": "timeout"}},
        home={"source": "orders-dead", "per_second": 100},
        count={"source": "orders-dead", "dry_run": True, "filter": {"json": {"path": "$.order", "value": 1}}},
        delete={"source": "orders", "action": "delete", "filter": {"attribute": {"name": "kind", "value": "test"}}},
        release={"source": "orders", "action": "release"},
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
    description="What was dealt with stays so. One that has ended stays as it is. A body is ignored.",
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
        """A caller who may take from a queue may delete and release there; one who may put into the other as well may
        move. Where a dead letter came from is not known before it moves: then it takes a key that may send to every
        queue."""
        asked = _read_move(request.body)
        is_move = asked.action is MoveAction.MOVE
        if asked.source == asked.target:
            raise InvalidRequest("a queue cannot be moved into itself")
        if not is_move and (asked.target is not None or asked.as_new is not None):
            raise InvalidRequest(f"{asked.action.value} has neither a target nor as_new")
        needs = [("poll", asked.source)]
        if is_move:
            needs.append(("post", EVERY_QUEUE if asked.target is None else asked.target))
        for action, queue in needs:
            if not permits(request, action, queue):
                raise NotPermitted(needed_rule(action, queue))
        conditions = asked.filter or MoveFilter()
        return self._broker.moves.start(
            asked.source,
            asked.target,
            MoveTerms(
                selection_of(conditions),
                asked.limit,
                asked.per_second,
                asked.dry_run,
                is_move and asked.target is None if asked.as_new is None else asked.as_new,
                asked.action,
            ),
            ages_of(conditions),
            claimed=asked.claimed,
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


def _view(move: Move) -> MoveView:
    terms = move.terms
    return MoveView(
        move.id,
        move.source,
        move.target,
        terms.action,
        move.claimed,
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
