"""What tells the two services apart, and how both of them read requests and put their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct

from penstock import limits, names
from penstock.edge.http import Request, Response
from penstock.errors import (
    CallerError,
    InvalidRequest,
    MoveConflict,
    MoveNotFound,
    NotPermitted,
    TooLarge,
    TryAgain,
    UnsupportedMediaType,
)
from penstock.faces.answers import Error, answered_by, encode_json, error_response, json_response
from penstock.faces.description import (
    JSON,
    TEXT,
    NumberParam,
    Param,
    Part,
    Shared,
    Tag,
    answer,
    header,
    is_number,
    text,
)
from penstock.faces.permission import Permission, Refusal, Scope, in_json
from penstock.faces.refusals import BAD_REQUEST, FOREIGN, RETRY_AFTER, TOO_LARGE, TRY_AGAIN
from penstock.model import Dedup, Settings


class EmoDBSuccess(Struct):
    success: bool


class EmoDBNotAuthorized(Struct):
    reason: str


class EmoDBNotNow(Struct):
    message: str
    retryAfterSeconds: Annotated[int, Meta(ge=0)]  # noqa: N815 - as EmoDB spells it


class EmoDBUnknownMove(Struct):
    id: str
    message: str


# What the log of actions calls these APIs.
VIA: Final = "emodb"

SUCCESS = json_response(200, EmoDBSuccess(True))
_TEXT = (b"Content-Type", b"text/plain")


def _thrown(java_class: str) -> tuple[bytes, bytes]:
    """What EmoDB's Java client is to throw. It reads the rest of the exception from the body."""
    return (b"X-BV-Exception", java_class.encode())


NOT_AUTHORIZED = json_response(
    403, EmoDBNotAuthorized("not authorized"), _thrown("com.bazaarvoice.emodb.common.api.UnauthorizedException")
)
_ILLEGAL = _thrown("java.lang.IllegalArgumentException")
_UNKNOWN_MOVE = _thrown("com.bazaarvoice.emodb.queue.api.UnknownMoveException")
_UNAVAILABLE = _thrown("com.bazaarvoice.emodb.common.api.ServiceUnavailableException")

# What follows it, how many there may be, is about the characters alone, not about the underscore in front.
_CHARACTERS: Final = r"(?!_(?!_))[a-z0-9.:@_-]"
_NAME = re.compile(rf"{_CHARACTERS}{{1,{limits.NAME_LENGTH}}}", re.ASCII)


class Service(Struct, frozen=True):
    """`prefix` begins the names of its operations in the document."""

    base: str
    space: str
    settings: Settings
    prefix: str
    tag: Tag

    def queue(self, name: str) -> str:
        """The core's name for a queue of this service."""
        if _NAME.fullmatch(name) is None or name in (".", ".."):
            raise InvalidRequest(
                f"Invalid queue name: 1 to {limits.NAME_LENGTH} of a-z 0-9 - . : @ _, "
                "neither '.' nor '..', and no single leading underscore"
            )
        return self.space + name


# How both services are described. A bad key is always 403 here, and most reasons are plain text; what the edge refuses
# before the face sees it is JSON all the same, and without the header.
THROWN: Final = {"X-BV-Exception": header(text(), "the class that EmoDB's Java client throws")}


def _or_text(name: str, made: Part, headers: Mapping[str, Part | Shared] | None = None) -> Shared:
    content = {TEXT: {"schema": text("the reason")}, JSON: made["content"][JSON]}
    return Shared("responses", name, {**made, **({"headers": dict(headers)} if headers else {}), "content": content})


_OWN: Final[Mapping[int, Shared]] = {
    400: _or_text("EmoDBBadRequest", BAD_REQUEST.part, THROWN),
    403: Shared(
        "responses",
        "EmoDBNotAuthorized",
        answer(
            f"The API key is missing, unknown or too weak. {FOREIGN}",
            EmoDBNotAuthorized,
            {"reason": "not authorized"},
            headers=THROWN,
        ),
    ),
    413: _or_text("EmoDBTooLarge", TOO_LARGE.part),
    503: Shared(
        "responses",
        "EmoDBTryAgain",
        answer(
            TRY_AGAIN.part["description"],
            (EmoDBNotNow, Error),
            {"message": "the store is busy", "retryAfterSeconds": 1},
            headers={"Retry-After": RETRY_AFTER, **THROWN},
        ),
    ),
}
NAME: Final = text(minLength=1, maxLength=limits.NAME_LENGTH, pattern=rf"^(?!\.{{1,2}}$){_CHARACTERS}+$")
NAME_RULE: Final = (
    f"1 to {limits.NAME_LENGTH} of `a-z 0-9 - . : @ _`, neither `.` nor `..`, and no single underscore in front"
)
QUEUE: Final = Param("queue", NAME, f"The name of the queue: {NAME_RULE}.", where="path", example="orders")
DONE: Final = answer("Done.", EmoDBSuccess, {"success": True})

QUEUE_SERVICE = Service(
    "/queue/1",
    "",
    Settings(),
    "queue",
    Tag(
        "EmoDB queue",
        "The QueueService. A message is any JSON value. Queues come into being with their first message, and one that "
        "does not exist is an empty one. The parameter `partitioned` of EmoDB's own clients is accepted and ignored.",
        _OWN,
        frozenset({401}),
    ),
)
DEDUP_QUEUE_SERVICE = Service(
    "/dedupq/1",
    names.DEDUP_SPACE,
    Settings(dedup=Dedup.CLAIM),
    "dedupQueue",
    Tag(
        "EmoDB dedup queue",
        "The DedupQueueService: the same, but equal messages become one when they are polled. Its queues are a name "
        "space of their own.",
        _OWN,
        frozenset({401}),
    ),
)


def in_emodb(refusal: Refusal, why: str) -> Response:
    """Whatever is wrong with the key, the answer is the same."""
    if refusal is Refusal.SLOW_DOWN:
        return in_json(refusal, why)
    if refusal is Refusal.FOREIGN:
        return Response(403, encode_json(EmoDBNotAuthorized(why)), NOT_AUTHORIZED.headers)
    return NOT_AUTHORIZED


def needs(action: str, scope: Scope = Scope.QUEUE) -> Permission:
    return Permission(action, scope, in_emodb)


def failure(error: Exception) -> Response:
    match error:
        case NotPermitted():
            return NOT_AUTHORIZED
        case UnsupportedMediaType():
            return Response(415, str(error).encode(), (_TEXT,))
        case MoveNotFound():
            return json_response(404, EmoDBUnknownMove(error.move_id, str(error)), _UNKNOWN_MOVE)
        case MoveConflict():
            return Response(409, str(error).encode(), (_TEXT,))
        case TooLarge():
            return Response(413, str(error).encode(), (_TEXT,))
        case CallerError():
            return Response(400, str(error).encode(), (_TEXT, _ILLEGAL))
        case TryAgain():
            later = error.retry_after_s
            return json_response(503, EmoDBNotNow(str(error), later), (b"Retry-After", b"%d" % later), _UNAVAILABLE)
        case _:
            return error_response(error)


answered = answered_by(failure)


def success(_result: object) -> Response:
    return SUCCESS


def number(request: Request, param: NumberParam) -> int:
    """A query parameter; without a default, 0 where it is left out."""
    given = request.query_params().get(param.name)
    if given is None:
        return param.default or 0
    if not (is_number(given) and param.lowest <= int(given) <= param.highest):
        raise InvalidRequest(f"{param.name} must be a number from {param.lowest} to {param.highest}")
    return int(given)
