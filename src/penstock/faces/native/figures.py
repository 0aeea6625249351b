"""Figures of queues: all of them at a glance, the history of one, and who works on it."""

from __future__ import annotations

from typing import Final, TypeVar

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import json_response
from penstock.faces.description import LARGEST, NumberParam, Op, Param, Tag, answer, text
from penstock.faces.native.requests import QUEUE, query_flag, query_number, route
from penstock.faces.permission import Permission, Scope, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.model import History, Overview, OverviewQuery, OverviewSort, Span, Workers
from penstock.pending import Pending

S = TypeVar("S", OverviewSort, Span)

_TAG = Tag(
    "native figures",
    "What is in queues, what happens in them, and who works on them. Counts of what has happened are kept in the store "
    "every few seconds, and are those of all servers together.",
)
_ORDERS: Final = {"ascending": False, "descending": True}
_SORT = Param(
    "sort",
    text(enum=[sort.value for sort in OverviewSort]),
    "By what the queues stand; those that are alike, by name.",
    default=OverviewSort.OLDEST.value,
)
_ORDER = Param(
    "order",
    text(enum=[*_ORDERS]),
    "Left out, names ascend and everything else descends: the most and the oldest first.",
)
_CONTAINS = Param(
    "contains",
    text(maxLength=limits.NAME_LENGTH),
    "Only queues with this in their names, in capitals or not.",
)
_DEAD_LETTERS = Param(
    "dead_letter_queues", {"type": "boolean"}, "`true` shows only those that take the dead letters of others.",
    default=False,
)  # fmt: skip
_OFFSET = NumberParam("offset", 0, LARGEST, "How many to skip.", default=0)
_LIMIT = NumberParam("limit", 1, limits.LIST_LIMIT, "At most this many.", default=100)
_SPARKS = Param(
    "sparks", {"type": "boolean"}, "`true` adds the sends and acks of each of the last 60 minutes.", default=False
)
_SPAN = Param(
    "span",
    text(enum=[span.value for span in Span]),
    "An hour by minutes, or a day by tens of minutes.",
    default=Span.HOUR.value,
)

_TOTALS = {
    "sent": 1_200,
    "claimed": 1_210,
    "redelivered": 15,
    "acked": 1_180,
    "expired": 0,
    "dead_lettered": 5,
    "failed": 0,
    "purged": 0,
    "moved": 0,
    "collapsed": 0,
}
_ROW = {
    "name": "orders",
    "ready": 10,
    "delayed": 0,
    "claimed": 5,
    "total": 15,
    "exact": True,
    "oldest_ready_sent_at": 1_760_000_000_000,
    "oldest_ready_ms": 2_500,
    "sends_per_second": 40.5,
    "acks_per_second": 39.0,
    "totals": _TOTALS,
    "takes_dead_letters": False,
    "paused_at": None,
    "sent_by_minute": [],
    "acked_by_minute": [],
}
_SUMS = {
    "ready": 10,
    "delayed": 0,
    "claimed": 5,
    "total": 15,
    "sends_per_second": 40.5,
    "acks_per_second": 39.0,
    "dead_lettered": 5,
    "paused": 0,
}
_COLUMNS = {name: [value] for name, value in _TOTALS.items() if name != "claimed"}
_HISTORY_EXAMPLE = {
    "span": "hour",
    "bucket_ms": 60_000,
    "since": [1_760_000_000_000],
    "ready": [10],
    "delayed": [0],
    "claimed": [5],
    "oldest_ready_ms": [2_500],
    "claims": [1_210],
    **_COLUMNS,
}
_WORKERS_EXAMPLE = {
    "waiting_claims": 2,
    "consumers": [
        {
            "id": "4b0c6a52-3f0e-4c5e-9d5e-0a4b8f1c2d3e",
            "delivery": "at_least_once",
            "beat_at": 1_760_000_000_000,
            "dead_after_ms": 5_000,
            "held": 10,
        }
    ],
    "shipments": [],
}
_OVERVIEW = Op(
    id="overview",
    tag=_TAG,
    summary="All queues at a glance",
    description="What is in each queue, what happens in it in a second and what ever has, in any order, by the page; "
    "and sums over all that were found. An API key sees the queues on which it may `get_status`. Of up to 100 rows, "
    "counts are at most a second old; of more, they may be older where nothing has happened.",
    parameters=(_SORT, _ORDER, _CONTAINS, _DEAD_LETTERS, _OFFSET, _LIMIT, _SPARKS),
    answers={
        200: answer(
            "A page of queues.", Overview, {"total": 1, "sums": _SUMS, "as_of": 1_760_000_000_000, "rows": [_ROW]}
        )
    },
)
_HISTORY = Op(
    id="queueHistory",
    tag=_TAG,
    summary="The last hour or day of a queue",
    description="In columns: one number each for every bucket of time, the oldest first. What was in the queue is null "
    "where no server has looked.",
    parameters=(QUEUE, _SPAN),
    answers={200: answer("Its history.", History, _HISTORY_EXAMPLE), 404: NO_SUCH_QUEUE},
)
_WORKERS = Op(
    id="queueWorkers",
    tag=_TAG,
    summary="Who works on a queue",
    description="Claims that wait for a message, consumers of gq that are registered, and shipments that are open; at "
    "most 1,000 of each of the last two. Waiting claims are those of the process that answers, or of its committer: on "
    "a database, other processes and other servers have their own.",
    parameters=(QUEUE,),
    answers={200: answer("Who does.", Workers, _WORKERS_EXAMPLE), 404: NO_SUCH_QUEUE},
)


def figure_routes(broker: Broker) -> list[Route]:
    face = _Figures(broker)
    status = Permission("get_status")
    any_key = Permission("get_status", Scope.ASKS_ITSELF)
    one = "/v1/queues/{queue}"
    return [
        route("GET", "/v1/overview", face.overview, _OVERVIEW, any_key, head=True),
        route("GET", f"{one}/history", face.history, _HISTORY, status, head=True),
        route("GET", f"{one}/workers", face.workers, _WORKERS, status, head=True),
    ]


class _Figures:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def overview(self, request: Request) -> Pending[Response]:
        found = self._broker.overview(_wanted(request), rules_of(request))
        return found.map(lambda overview: json_response(200, overview))

    def history(self, request: Request) -> Pending[Response]:
        [name] = request.params
        found = self._broker.history(name, _choice(request, _SPAN, Span))
        return found.map(lambda history: json_response(200, history))

    def workers(self, request: Request) -> Pending[Response]:
        [name] = request.params
        return self._broker.workers_of(name).map(lambda workers: json_response(200, workers))


def _wanted(request: Request) -> OverviewQuery:
    asked = request.query_params()
    order = asked.get(_ORDER.name)
    if order is not None and order not in _ORDERS:
        raise InvalidRequest(f"{_ORDER.name} must be one of {', '.join(_ORDERS)}")
    contains = asked.get(_CONTAINS.name, "")
    if len(contains) > limits.NAME_LENGTH:
        raise InvalidRequest(f"{_CONTAINS.name} has at most {limits.NAME_LENGTH} characters")
    return OverviewQuery(
        sort=_choice(request, _SORT, OverviewSort),
        descending=None if order is None else _ORDERS[order],
        contains=contains,
        dead_letter_queues=query_flag(request, _DEAD_LETTERS),
        offset=query_number(request, _OFFSET),
        limit=query_number(request, _LIMIT),
        sparks=query_flag(request, _SPARKS),
    )


def _choice(request: Request, param: Param, kind: type[S]) -> S:
    given = request.query_params().get(param.name, str(param.default))
    try:
        return kind(given)
    except ValueError:
        raise InvalidRequest(f"{param.name} must be one of {', '.join(kind)}") from None
