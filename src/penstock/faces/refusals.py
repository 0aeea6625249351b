"""What any request may be answered before a handler sees it, or by a table of errors: described once for all faces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.faces.answers import Error
from penstock.faces.description import Part, Shared, answer, header, number, text
from penstock.faces.guard import FOREIGN_PAGE

RETRY_AFTER: Final = Shared("headers", "RetryAfter", header(number(0), "in how many seconds to try again", True))
_AUTHENTICATE: Final = Shared(
    "headers", "Authenticate", header(text(const="Bearer"), "how a key is presented", required=True)
)
_LATER: Final = {"Retry-After": RETRY_AFTER}

FOREIGN: Final = (
    "As long as the store has no key: the request comes from a web page of another origin, or by a name that is not "
    "the server's."
)


def refusal(description: str, example: str, headers: Mapping[str, Part | Shared] | None = None) -> Part:
    """An answer that gives its reason as JSON."""
    return answer(description, Error, {"error": example}, headers=headers)


def _shared(name: str, description: str, example: str, headers: Mapping[str, Part | Shared] | None = None) -> Shared:
    return Shared("responses", name, refusal(description, example, headers))


BAD_REQUEST: Final = _shared(
    "BadRequest",
    "The request is malformed, or a value does not parse or is out of range.",
    "limit must be a number",
)
NO_SUCH_QUEUE: Final = _shared("NoSuchQueue", "There is no such queue.", "queue 'orders' does not exist")
TOO_LARGE: Final = _shared(
    "TooLarge",
    "A message, the request or a count is over its limit; the answer says which.",
    "the body is longer than 1048576 bytes",
)
TRY_AGAIN: Final = _shared(
    "TryAgain",
    "Not now: the store is busy, full or does not answer, or there are too many connections.",
    "the store is busy",
    _LATER,
)

# What a request through any route may be answered before its handler sees it.
OF_EDGE: Final[Mapping[int, Shared]] = {
    400: BAD_REQUEST,
    408: _shared("TooSlow", "The request did not arrive in time.", "too slow"),
    413: TOO_LARGE,
    414: _shared("TargetTooLong", "The path and query together are longer than 8,192 bytes.", "the target is too long"),
    417: _shared("UnknownExpectation", "`Expect` asks for anything but `100-continue`.", "unknown expectation"),
    431: _shared("HeadersTooLong", "More than 100 headers, or more than 32,768 bytes of them.", "too many headers"),
    500: _shared(
        "Failed",
        "The server hit an error that it did not expect; its log says more.",
        "the server hit an unexpected error; its log says more",
    ),
    501: _shared(
        "NotImplemented",
        "A transfer coding other than `chunked`, or a form of the data that this server was installed without.",
        "unknown transfer coding",
    ),
    503: TRY_AGAIN,
}
# The same by the guard, for a route that needs no key and for any other.
OF_OPEN_GUARD: Final[Mapping[int, Shared]] = {403: _shared("ForeignPage", FOREIGN, FOREIGN_PAGE)}
OF_GUARD: Final[Mapping[int, Shared]] = {
    401: _shared(
        "KeyNeeded",
        "An API key is needed, or the one that came is not known.",
        "an API key is needed",
        {"WWW-Authenticate": _AUTHENTICATE},
    ),
    403: _shared(
        "NotPermitted",
        f"The API key does not permit it; the answer says what would. {FOREIGN}",
        "this API key does not permit it: it needs queue|post|orders",
    ),
    429: _shared("TooManyWrongKeys", "Too many requests with wrong API keys.", "too many wrong API keys", _LATER),
}
