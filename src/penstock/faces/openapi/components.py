"""What all faces share: the answers of the edge and of the guard, headers, and how a key is presented."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.faces.openapi.parts import JSON, TEXT, Part, answer, header, number, record, schema, shared_header, text
from penstock.faces.origin import FOREIGN_PAGE

_ERROR = record({"error": text("what is wrong, for people")}, description="Why a request was not served.")

SCHEMAS: Mapping[str, Part] = {"Error": _ERROR}

HEADERS: Mapping[str, Part] = {
    "RetryAfter": header(number(0), "in how many seconds to try again", required=True),
    "Authenticate": header(text(const="Bearer"), "how a key is presented", required=True),
}

SECURITY_SCHEMES: Mapping[str, Part] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, as `Authorization: Bearer psk_…`."},
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-BV-API-Key",
        "description": "An API key in a header of its own. Where both are there, this one counts.",
    },
}

# The empty one comes last: without any key in the store nobody is asked for one.
SECURITY: list[Part] = [{"bearer": []}, {"header": []}, {}]


def _error(description: str, example: str, headers: Mapping[str, Part] | None = None) -> Part:
    return answer(description, schema("Error"), {"error": example}, headers=headers)


def _or_text(made: Part, headers: Mapping[str, Part] | None = None) -> Part:
    """EmoDB gives its reasons as plain text; what the edge refuses before any face sees it is JSON all the same."""
    also = {"headers": dict(headers)} if headers else {}
    return {**made, **also, "content": {TEXT: {"schema": text("the reason")}, JSON: made["content"][JSON]}}


# What the edge answers before any face sees the request is without it.
THROWN = header(text(), "the class that EmoDB's Java client throws")


_FOREIGN = (
    "As long as the store has no key: the request comes from a web page of another origin, or by a name that is not "
    "the server's."
)
_LATER = {"Retry-After": shared_header("RetryAfter")}
_BAD = _error("The request is malformed, or a value does not parse or is out of range.", "limit must be a number")
_TOO_LARGE = _error(
    "A message, the request or a count is over its limit; the answer says which.",
    "the body is longer than 1048576 bytes",
)
_TRY_AGAIN = _error(
    "Not now: the store is busy, full or does not answer, or there are too many connections.",
    "the store is busy",
    _LATER,
)

RESPONSES: Mapping[str, Part] = {
    "BadRequest": _BAD,
    "KeyNeeded": _error(
        "An API key is needed, or the one that came is not known.",
        "an API key is needed",
        {"WWW-Authenticate": shared_header("Authenticate")},
    ),
    "NotPermitted": _error(
        f"The API key does not permit it; the answer says what would. {_FOREIGN}",
        "this API key does not permit it: it needs queue|post|orders",
    ),
    "ForeignPage": _error(_FOREIGN, FOREIGN_PAGE),
    "NoSuchQueue": _error("There is no such queue.", "queue 'orders' does not exist"),
    "TooSlow": _error("The request did not arrive in time.", "too slow"),
    "TooLarge": _TOO_LARGE,
    "TargetTooLong": _error("The path and query together are longer than 8,192 bytes.", "the target is too long"),
    "UnknownExpectation": _error("`Expect` asks for anything but `100-continue`.", "unknown expectation"),
    "TooManyWrongKeys": _error("Too many requests with wrong API keys.", "too many wrong API keys", _LATER),
    "HeadersTooLong": _error("More than 100 headers, or more than 32,768 bytes of them.", "too many headers"),
    "Failed": _error(
        "The server hit an error that it did not expect; its log says more.",
        "the server hit an unexpected error; its log says more",
    ),
    "NotImplemented": _error(
        "A transfer coding other than `chunked`, or a form of the data that this server was installed without.",
        "unknown transfer coding",
    ),
    "TryAgain": _TRY_AGAIN,
    "EmoDBBadRequest": _or_text(_BAD, {"X-BV-Exception": THROWN}),
    "EmoDBTooLarge": _or_text(_TOO_LARGE),
    "EmoDBTryAgain": answer(
        _TRY_AGAIN["description"],
        {"anyOf": [record({"message": text(), "retryAfterSeconds": number(0)}), schema("Error")]},
        {"message": "the store is busy", "retryAfterSeconds": 1},
        headers={**_LATER, "X-BV-Exception": THROWN},
    ),
    "EmoDBNotAuthorized": answer(
        f"The API key is missing, unknown or too weak. {_FOREIGN}",
        record({"reason": text()}),
        {"reason": "not authorized"},
        headers={"X-BV-Exception": THROWN},
    ),
}

# What a request through any route may be answered before a handler sees it.
OF_THE_EDGE: Mapping[int, str] = {
    400: "BadRequest",
    408: "TooSlow",
    413: "TooLarge",
    414: "TargetTooLong",
    417: "UnknownExpectation",
    431: "HeadersTooLong",
    500: "Failed",
    501: "NotImplemented",
    503: "TryAgain",
}
# What a request that needs no key may be answered, and what any other may.
OF_THE_OPEN_GUARD: Mapping[int, str] = {403: "ForeignPage"}
OF_THE_GUARD: Mapping[int, str] = {401: "KeyNeeded", 403: "NotPermitted", 429: "TooManyWrongKeys"}
