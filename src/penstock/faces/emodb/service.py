"""What tells the two services apart, and how both of them read requests and put their answers."""

from __future__ import annotations

import re

from msgspec import Struct

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
from penstock.faces.answers import answered_by, encode_json, error_response, json_response
from penstock.faces.numbers import is_number
from penstock.faces.permission import Permission, Refusal, Scope
from penstock.model import Dedup, Settings

SUCCESS = json_response(200, {"success": True})
_TEXT = (b"Content-Type", b"text/plain")


def _thrown(java_class: str) -> tuple[bytes, bytes]:
    """What EmoDB's Java client is to throw. It reads the rest of the exception from the body."""
    return (b"X-BV-Exception", java_class.encode())


NOT_AUTHORIZED = json_response(
    403, {"reason": "not authorized"}, _thrown("com.bazaarvoice.emodb.common.api.UnauthorizedException")
)
_ILLEGAL = _thrown("java.lang.IllegalArgumentException")
_UNKNOWN_MOVE = _thrown("com.bazaarvoice.emodb.queue.api.UnknownMoveException")
_UNAVAILABLE = _thrown("com.bazaarvoice.emodb.common.api.ServiceUnavailableException")

_NAME = re.compile(r"(?!_(?!_))[a-z0-9.:@_-]{1,255}", re.ASCII)


class Service(Struct, frozen=True):
    base: str
    space: str
    settings: Settings

    def queue(self, name: str) -> str:
        """The core's name for a queue of this service."""
        if _NAME.fullmatch(name) is None or name in (".", ".."):
            raise InvalidRequest(
                f"Invalid queue name: 1 to {limits.NAME_LENGTH} of a-z 0-9 - . : @ _, "
                "neither '.' nor '..', and no single leading underscore"
            )
        return self.space + name


QUEUE_SERVICE = Service("/queue/1", "", Settings())
DEDUP_QUEUE_SERVICE = Service("/dedupq/1", names.DEDUP_SPACE, Settings(dedup=Dedup.CLAIM))


def in_emodb(refusal: Refusal, why: str) -> Response:
    """Whatever is wrong with the key, the answer is the same."""
    if refusal is Refusal.FOREIGN:
        return Response(403, encode_json({"reason": why}), NOT_AUTHORIZED.headers)
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
            return json_response(404, {"id": error.move_id, "message": str(error)}, _UNKNOWN_MOVE)
        case MoveConflict():
            return Response(409, str(error).encode(), (_TEXT,))
        case TooLarge():
            return Response(413, str(error).encode(), (_TEXT,))
        case CallerError():
            return Response(400, str(error).encode(), (_TEXT, _ILLEGAL))
        case TryAgain():
            later = error.retry_after_s
            told = {"message": str(error), "retryAfterSeconds": later}
            return json_response(503, told, (b"Retry-After", b"%d" % later), _UNAVAILABLE)
        case _:
            return error_response(error)


answered = answered_by(failure)


def success(_result: object) -> Response:
    return SUCCESS


def number(request: Request, name: str, default: int, lowest: int, highest: int) -> int:
    text = request.query_params().get(name)
    if text is None:
        return default
    if not (is_number(text) and lowest <= int(text) <= highest):
        raise InvalidRequest(f"{name} must be a number from {lowest} to {highest}")
    return int(text)
