"""The console under `/console`: pages on which people see what is in their queues, and act on it.

Pages are made here, by templates, and are whole without a script. Scripts keep their live parts up to date by asking
for them again. A module for each page has a function that returns its routes; `console.py` holds what all of them
share. Like any face it knows the broker's verbs and no store; other than an API it is for people alone, and may change
from version to version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from penstock.edge.http import Request, Response
from penstock.edge.router import Errors, Route
from penstock.faces.console.acting import acting_routes
from penstock.faces.console.actions import action_log_routes
from penstock.faces.console.assets import assets
from penstock.faces.console.console import Console
from penstock.faces.console.entrance import entrance_routes
from penstock.faces.console.gate import ANYBODY, HOME
from penstock.faces.console.keys import key_routes
from penstock.faces.console.ledger import ledger_page_routes
from penstock.faces.console.messages import message_routes
from penstock.faces.console.overview import overview_routes
from penstock.faces.console.queue import queue_routes
from penstock.faces.console.queue_settings import settings_routes
from penstock.faces.console.sending import sending_routes
from penstock.faces.console.sessions import SessionTerms
from penstock.faces.console.tasks import task_routes
from penstock.faces.permission import Gated

__all__ = ["WORD", "Console", "SessionTerms", "console_routes", "explaining"]

# What every path of the console begins with, and what no queue of MQ-Core can be called beside it.
WORD: Final = "console"


def console_routes(console: Console) -> list[Route]:
    routes = [
        *entrance_routes(console),
        *overview_routes(console),
        *settings_routes(console),
        *queue_routes(console),
        *message_routes(console),
        *ledger_page_routes(console),
        *action_log_routes(console),
        *acting_routes(console),
        *task_routes(console),
        *sending_routes(console),
        *key_routes(console),
        *_asset_routes(console),
    ]
    console.paths = frozenset(route.pattern for route in routes if route.method == "GET")
    return routes


def _asset_routes(console: Console) -> list[Route]:
    def serve(request: Request) -> Response:
        return assets().answer(request) or console.not_found(request)

    def home(_request: Request) -> Response:
        return Response(308, b"", ((b"Location", HOME.encode()),))

    admit = Gated(partial(console.gate.admit, ANYBODY))
    return [
        Route("GET", "/console/static/{version}/{name}", serve, head=True, permission=admit),
        Route("GET", "/console/", home, head=True, permission=admit),
    ]


def explaining(errors: Errors, console: Console) -> Errors:
    """The same answers, but pages for people whose requests to the console match no route, or are refused by the
    edge."""

    def is_ours(request: Request) -> bool:
        return request.path == HOME or request.path.startswith(HOME + "/")

    def not_found(request: Request) -> Response:
        return console.not_found(request) if is_ours(request) else errors.not_found(request)

    def method_not_allowed(request: Request, allowed: tuple[str, ...]) -> Response:
        if not is_ours(request):
            return errors.method_not_allowed(request, allowed)
        page = console.refuse(request, 405, "this page cannot be asked for in this way")
        return Response(405, page.body, [*page.headers, (b"Allow", ", ".join(allowed).encode())])

    def refused(request: Request | None, status: int, reason: str) -> Response:
        if request is None or not is_ours(request):
            return errors.refused(request, status, reason)
        return console.refuse(request, status, reason)

    answers: dict[str, Callable[..., Response]] = {
        "not_found": not_found,
        "method_not_allowed": method_not_allowed,
        "refused": refused,
    }
    return replace(errors, **answers)
