"""Words that are no queue names here, because other APIs own them as the first part of a path on the same port.

The router knows no way back from a first segment that another API has. So a request for a reserved word reaches
MQ-Core's own handlers only where nobody else has that word yet; where somebody has, it ends as one that matches no
route, and `explaining` turns that answer into one that says why. Requests that another API answers never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import unquote

from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import Errors
from penstock.faces.answers import json_response
from penstock.pending import Pending

# The one list. A face that begins its paths with another word adds it here.
RESERVED = frozenset(
    {
        *("queues", "messages", "health"),
        *("queue", "dedupq"),
        *("v1", "metrics", "openapi.json", "docs", "console", "static", "favicon.ico", "robots.txt", ".well-known"),
    }
)

# What the API asks, by the number of segments. A queue with a reserved name never exists, so to ask whether it
# does is answered as for any other that does not: 404.
_QUEUE = frozenset({"PUT", "DELETE"})
_MESSAGES = frozenset({"GET", "POST"})


def refused(word: str) -> Response:
    return json_response(
        400,
        {
            "error": f"{word!r} cannot be a queue here: on this port /{word} belongs to another API. "
            "Choose another name, or serve MQ-Core alone on a port of its own, where no word is reserved"
        },
    )


def unless_reserved(handler: Handler, reserved: frozenset[str]) -> Handler:
    """The handler of a route whose first parameter is a queue, for all other words."""
    if not reserved:
        return handler

    def handle(request: Request) -> Response | Pending[Response]:
        word = request.params[0]
        return refused(word) if word in reserved else handler(request)

    return handle


def explaining(errors: Errors, reserved: frozenset[str]) -> Errors:
    """The same answers, but 400 to what would be an MQ-Core request for a reserved word and matched no route."""

    def not_found(request: Request) -> Response:
        return _explained(request, reserved) or errors.not_found(request)

    def method_not_allowed(request: Request, allowed: tuple[str, ...]) -> Response:
        return _explained(request, reserved) or errors.method_not_allowed(request, allowed)

    answers: dict[str, Callable[..., Response]] = {"not_found": not_found, "method_not_allowed": method_not_allowed}
    return replace(errors, **answers)


def _explained(request: Request, reserved: frozenset[str]) -> Response | None:
    segments = [unquote(segment) for segment in request.path.split("/")[1:]]
    match segments:
        case [word] if request.method in _QUEUE:
            pass
        case [word, "messages"] if request.method in _MESSAGES:
            pass
        case [word, "messages", message_id] if message_id and request.method == "DELETE":
            pass
        case _:
            return None
    return refused(word) if word in reserved else None
