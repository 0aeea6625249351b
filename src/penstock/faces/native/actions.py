"""The log of actions: who has administered what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import json_response
from penstock.faces.description import LARGEST, NumberParam, Op, Param, Tag, answer, text
from penstock.faces.native.requests import Instant, checked_word, query_number, route
from penstock.faces.permission import Permission, Scope
from penstock.model import Action, ActionFilter, ActionKind
from penstock.pending import Pending

# Longer than the name of any queue or key.
LONGEST_NAME = 300
_KINDS = [kind.value for kind in ActionKind]


class ActionView(Struct):
    number: Annotated[int, Meta(ge=1, description="counts up without end; some may be missing")]
    at: Instant
    key: Annotated[str | None, Meta(description="the name of the API key; null where there were none")]
    via: Annotated[str, Meta(description="the API, or `command line`")]
    what: Annotated[str, Meta(extra_json_schema={"enum": _KINDS})]
    queue: str | None
    count: Annotated[int, Meta(ge=0)] | None
    detail: Annotated[str | None, Meta(description="a short text, mostly JSON; neither a secret nor a body")]


class ActionPage(Struct):
    actions: list[ActionView]
    before: Annotated[int, Meta(ge=1)] | None


_TAG = Tag("native actions", "Who has administered what: an entry for each action, written by the unit that did it.")
_EXAMPLE = {
    "number": 7,
    "at": 1_760_000_000_000,
    "key": "ops",
    "via": "native",
    "what": "queue.purge",
    "queue": "orders",
    "count": 12,
    "detail": None,
}
_BEFORE = NumberParam("before", 1, LARGEST, "Only actions with a lower number.")
_LIMIT = NumberParam("limit", 1, limits.LIST_LIMIT, "At most this many.", default=100)
_QUEUE = Param("queue", text(minLength=1, maxLength=LONGEST_NAME), "Only actions on queues that had this name.")
_KEY = Param("key", text(minLength=1, maxLength=LONGEST_NAME), "Only actions by the API key of this name.")
_WHAT = Param("what", text(enum=_KINDS), "Only actions of this kind.")
_SINCE = NumberParam("since", 0, LARGEST, "Only what was done at this instant or later.")
_UNTIL = NumberParam("until", 0, LARGEST, "Only what was done before this instant.")

_PAGE = Op(
    id="listActions",
    tag=_TAG,
    summary="List actions",
    description="The latest first. `before` of the answer is where the next page begins; null where this one is empty.",
    parameters=(_BEFORE, _LIMIT, _QUEUE, _KEY, _WHAT, _SINCE, _UNTIL),
    answers={200: answer("A page of actions.", ActionPage, {"actions": [_EXAMPLE], "before": 7})},
)


def action_routes(broker: Broker) -> list[Route]:
    face = _Actions(broker)
    return [
        # It names queues, keys and their rules: what only those may see who may change all of them.
        route("GET", "/v1/actions", face.page, _PAGE, Permission("admin", Scope.EVERY_QUEUE), head=True),
    ]


class _Actions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def page(self, request: Request) -> Pending[Response]:
        before, limit = _number(request, _BEFORE), query_number(request, _LIMIT)
        return self._broker.actions.list(before, limit, _wanted(request)).map(_page)


def _wanted(request: Request) -> ActionFilter:
    asked = request.query_params()
    what = asked.get(_WHAT.name)
    if what is not None and what not in _KINDS:
        raise InvalidRequest(f"{_WHAT.name} must be one of {', '.join(_KINDS)}")
    return ActionFilter(
        _word(request, _QUEUE),
        _word(request, _KEY),
        None if what is None else ActionKind(what),
        _number(request, _SINCE),
        _number(request, _UNTIL),
    )


def _word(request: Request, param: Param) -> str | None:
    given = request.query_params().get(param.name)
    return None if given is None else checked_word(param.name, given, LONGEST_NAME)


def _number(request: Request, param: NumberParam) -> int | None:
    return query_number(request, param) if param.name in request.query_params() else None


def _page(actions: Sequence[Action]) -> Response:
    views = [
        ActionView(one.number, one.at, one.key, one.via, one.what, one.queue, one.count, one.detail) for one in actions
    ]
    return json_response(200, ActionPage(views, views[-1].number if views else None))
