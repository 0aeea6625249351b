"""The routes: the root of the server and the URL of each queue, with POST and with GET.

A request shows by its headers which protocol it speaks, so that it is refused in its own words before its body is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.broker import Broker
from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import BodyRule, Errors, Route
from penstock.faces.answers import Error, json_response
from penstock.faces.description import Op
from penstock.faces.permission import Permission, Scope
from penstock.faces.sqs import description
from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.answers import (
    Failed,
    JsonAnswers,
    RequestIds,
    XmlAnswers,
    by_edge,
    by_guard,
    to_unfinished,
)
from penstock.faces.sqs.operations import caller_identity, operations
from penstock.faces.sqs.protocols import JsonProtocol, QueryProtocol

# A message of 1 MiB as JSON or as a form, whose escapes may take three bytes for one.
_BODY: Final = BodyRule(4 * 1024 * 1024)
_ACTIONS: Final = "post, poll, get_status or admin"
_JSON_MEDIA: Final = b"application/x-amz-json"


def sqs_routes(broker: Broker, place: AwsPlace) -> list[Route]:
    ids, table = RequestIds(), operations(broker, place)
    in_json, in_xml = JsonAnswers(ids), XmlAnswers(ids)
    by_json = JsonProtocol(table, in_json).serve
    by_query = QueryProtocol(table, caller_identity(place), in_xml).serve

    def post(pattern: str, describe: Op) -> Route:
        json_route = _route("POST", pattern, by_json, in_json.failed, describe)
        query_route = replace(_route("POST", pattern, by_query, in_xml.failed, describe), traffic=json_route.traffic)
        return replace(json_route, choose=lambda request: json_route if _is_json(request) else query_route)

    def get(pattern: str, describe: Op) -> Route:
        return _route("GET", pattern, by_query, in_xml.failed, describe)

    # The account that this server names is a word of its own, so that a queue may be called like a part of another
    # API's path. Any other account leads to the same queues.
    own, any_account = f"/{place.account}/{{name}}", "/{account}/{name}"
    return [
        post("/", description.POST),
        get("/", description.GET),
        post(own, description.POST_QUEUE),
        get(own, description.GET_QUEUE),
        _of_digits(post(any_account, description.POST_ANY_ACCOUNT)),
        _of_digits(get(any_account, description.GET_ANY_ACCOUNT)),
    ]


def explaining(errors: Errors) -> Errors:
    """The same answers, but what the edge refuses of this API in the words of this API."""
    ids = RequestIds()
    in_json, in_xml = JsonAnswers(ids), XmlAnswers(ids)

    def refused(request: Request | None, status: int, reason: str) -> Response:
        if request is None or not _is_ours(request):
            return errors.refused(request, status, reason)
        return by_edge((in_json if _is_json(request) else in_xml).failed, status, reason)

    return replace(errors, refused=refused)


def _route(method: str, pattern: str, handler: Handler, failed: Failed, describe: Op) -> Route:
    return Route(
        method,
        pattern,
        handler,
        _BODY,
        unreadable=to_unfinished(failed),
        permission=Permission(_ACTIONS, Scope.ASKS_ITSELF, by_guard(failed), signed=True),
        describe=describe,
    )


def _is_json(request: Request) -> bool:
    headers = request.headers
    return b"x-amz-target" in headers or headers.get(b"content-type", b"").startswith(_JSON_MEDIA)


def _is_ours(request: Request) -> bool:
    """Whether a request that no route has answered would be one of this API."""
    account, slash, name = request.path[1:].partition("/")
    return (
        b"x-amz-target" in request.headers
        or (not account and request.method == "POST")
        or (account.isdecimal() and bool(slash) and "/" not in name)
    )


_NOT_FOUND: Final = Route("", "", lambda _request: json_response(404, Error("not found")), refuses=True)


def _of_digits(route: Route) -> Route:
    """The same, for accounts alone: two words in a path are otherwise nothing that any API knows."""
    choose = route.choose

    def of_digits(request: Request) -> Route:
        if not request.params[0].isdecimal():
            return _NOT_FOUND
        return route if choose is None else choose(request)

    return replace(route, choose=of_digits)


def root_of(sqs: Route, page: Route) -> Route:
    """One route for both that want to answer GET at the root: a request with an action is one of this API."""

    def choose(request: Request) -> Route:
        return sqs if request.method == "GET" and request.query and "Action" in request.query_params() else page

    return replace(page, choose=choose)
