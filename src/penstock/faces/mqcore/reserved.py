"""Words that cannot be queue names here, because other APIs own them as the first part of a path on the same port.

The router knows no way back from a first segment that another API has. So a request for a reserved word reaches
MQ-Core's own handlers only where no other API has that word yet; where one has, it ends as one that matches no
route, and `explaining` turns that answer into one that says why. Requests that another API answers never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import unquote

from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import Errors, Route
from penstock.faces.answers import Error, json_response
from penstock.pending import Pending

# No API has these yet. The documentation names them from the beginning, because a queue that is called so could not be
# reached any more once one of them is served: what is to come, and what browsers and crawlers ask for.
FORESEEN = frozenset({"static", "robots.txt", ".well-known"})

# What the API asks, by the number of segments. A queue with a reserved name never exists, so to ask whether it
# does is answered as for any other that does not: 404.
_QUEUE = frozenset({"PUT", "DELETE"})
_MESSAGES = frozenset({"GET", "POST"})


def reserved_words(others: Iterable[Route]) -> frozenset[str]:
    """Those that the routes of other APIs begin with, and those foreseen."""
    words = {route.pattern.split("/")[1] for route in others}
    return FORESEEN | {word for word in words if word and not word.startswith("{")}


def refused(word: str) -> Response:
    return json_response(
        400,
        Error(
            f"{word!r} cannot be a queue here: on this port /{word} belongs to another API. "
            "Choose another name, or serve MQ-Core alone on a port of its own, where no word is reserved"
        ),
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
