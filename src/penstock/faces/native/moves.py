"""Moves between queues: start, count first, watch, cancel."""

from __future__ import annotations

from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, MoveNotFound, NotPermitted
from penstock.faces.answers import json_response
from penstock.faces.native.outcomes import status_word
from penstock.faces.native.requests import answered, decoder, query_number, within
from penstock.faces.permission import Permission, Scope, permits, rules_of
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Ages, JsonValue, Move, MoveTerms, Selection
from penstock.pending import Pending
from penstock.selection import parse_path

_BODY = BodyRule(64 * 1024)


class FilterJson(Struct, forbid_unknown_fields=True):
    path: str
    value: str | int | float | bool | None


class MoveFilter(Struct, forbid_unknown_fields=True):
    older_than_ms: int | None = None
    newer_than_ms: int | None = None
    min_receives: int | None = None
    max_receives: int | None = None
    content_type: str | None = None
    text: str | None = None
    json: FilterJson | None = None


class MoveRequest(Struct, forbid_unknown_fields=True):
    source: str
    target: str | None = None
    filter: MoveFilter | None = None
    limit: int | None = None
    per_second: int | None = None
    dry_run: bool = False


_read_move = decoder(MoveRequest)


def move_routes(broker: Broker) -> list[Route]:
    face = _Moves(broker)
    every, itself = Scope.EVERY_QUEUE, Scope.ASKS_ITSELF
    return [
        Route("POST", "/v1/moves", answered(face.start), _BODY, permission=Permission("poll", itself)),
        Route("GET", "/v1/moves", answered(face.list, "limit"), head=True, permission=Permission("get_status", every)),
        Route("GET", "/v1/moves/{move}", answered(face.show), head=True, permission=Permission("get_status", itself)),
        Route("POST", "/v1/moves/{move}/cancel", answered(face.cancel), _BODY, permission=Permission("poll", itself)),
    ]


class _Moves:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, request: Request) -> Pending[Response]:
        """Whoever may take from one queue and put into the other may move. Where a dead letter came from is not known
        before it moves: then it takes a key that may send to every queue."""
        asked = _read_move(request.body)
        if asked.source == asked.target:
            raise InvalidRequest("a queue cannot be moved into itself")
        target = EVERY_QUEUE if asked.target is None else asked.target
        for action, queue in (("poll", asked.source), ("post", target)):
            if not permits(request, action, queue):
                raise NotPermitted(needed_rule(action, queue))
        if asked.limit is not None:
            within("limit", asked.limit, 1, limits.DURATION_MS)
        if asked.per_second is not None:
            within("per_second", asked.per_second, 1, limits.MOVES_PER_SECOND)
        conditions = _checked(asked.filter or MoveFilter())
        return self._broker.moves.start(
            asked.source,
            asked.target,
            MoveTerms(_selection(conditions), asked.limit, asked.per_second, asked.dry_run),
            Ages(conditions.older_than_ms, conditions.newer_than_ms),
        ).map(lambda move: json_response(201, shown(move)))

    def list(self, request: Request) -> Pending[Response]:
        limit = query_number(request, "limit", 100, 1, limits.LIST_LIMIT)
        return self._broker.moves.list(limit).map(
            lambda moves: json_response(200, {"moves": [shown(move) for move in moves]})
        )

    def show(self, request: Request) -> Pending[Response]:
        [move_id] = request.params

        def found(move: Move | None) -> Response:
            if move is None:
                raise MoveNotFound(move_id)
            if not (permits(request, "get_status", move.source) or permits(request, "poll", move.source)):
                raise NotPermitted(needed_rule("get_status", move.source))
            return json_response(200, shown(move))

        return self._broker.moves.find(move_id).map(found)

    def cancel(self, request: Request) -> Pending[Response]:
        [move_id] = request.params
        cancelled = self._broker.moves.cancel(move_id, rules_of(request))
        return cancelled.map(lambda move: json_response(200, shown(move)))


def _checked(asked: MoveFilter) -> MoveFilter:
    for name in ("older_than_ms", "newer_than_ms"):
        if getattr(asked, name) is not None:
            within(f"filter.{name}", getattr(asked, name), 0, limits.DURATION_MS)
    for name in ("min_receives", "max_receives"):
        if getattr(asked, name) is not None:
            within(f"filter.{name}", getattr(asked, name), 0, limits.INT32_MAX)
    if asked.content_type is not None and not 0 < len(asked.content_type) <= limits.CONTENT_TYPE_BYTES:
        raise InvalidRequest(f"filter.content_type has 1 to {limits.CONTENT_TYPE_BYTES} characters")
    if asked.text is not None and not 0 < len(asked.text) <= limits.FILTER_TEXT_LENGTH:
        raise InvalidRequest(f"filter.text has 1 to {limits.FILTER_TEXT_LENGTH} characters")
    if asked.json is not None:
        _check_json(asked.json)
    return asked


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


def shown(move: Move) -> dict[str, object]:
    terms = move.terms
    return {
        "id": move.id,
        "source": move.source,
        "target": move.target,
        "filter": terms.selection,
        "limit": terms.limit,
        "per_second": terms.per_second,
        "dry_run": terms.dry_run,
        "status": status_word(move.status),
        "examined": move.examined,
        "matched": move.matched,
        "moved": move.moved,
        "homeless": move.homeless,
        "started_at": move.started_at,
        "finished_at": move.finished_at,
        "error": move.error,
    }
