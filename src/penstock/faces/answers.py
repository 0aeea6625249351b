"""Answers that several faces give alike."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock.edge.http import Handler, Request, Response
from penstock.errors import (
    CallerError,
    FeatureMissing,
    KeyExists,
    KeyHasTwoSecrets,
    KeyNotFound,
    KeyRevoked,
    LeaseHeld,
    MessageNotFound,
    MoveConflict,
    MoveNotFound,
    NotPermitted,
    PenstockError,
    QueueExists,
    QueueNotFound,
    SendConflict,
    ShipmentConflict,
    ShipmentEnded,
    ShipmentNotFound,
    TooLarge,
    TryAgain,
    UnsupportedMediaType,
)
from penstock.pending import Pending

log = logging.getLogger(__name__)

JSON = (b"Content-Type", b"application/json")
encode_json = msgspec.json.Encoder().encode


_ENDS = ("settled", "released", "lost", "purged")


class Error(Struct):
    """Why a request was not served."""

    error: Annotated[str, Meta(description="what is wrong, for people")]


class Conflict(Struct):
    error: str
    expected: Annotated[int, Meta(ge=1, description="the number whose turn it is")]


class Ended(Struct):
    error: str
    how: Annotated[str, Meta(description="what became of it", extra_json_schema={"enum": list(_ENDS)})]


class Taken(Struct):
    error: str
    holder: Annotated[str, Meta(description="who has it")]
    until: Annotated[int, Meta(description="when it is free unless it is taken again before")]


def json_response(status: int, value: object, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, encode_json(value), (JSON, *headers))


def error_response(error: Exception) -> Response:  # noqa: C901 - a table
    """The JSON answer to an error, in the table most faces share."""
    match error:
        case QueueNotFound() | MessageNotFound() | KeyNotFound() | MoveNotFound() | ShipmentNotFound():
            status = 404
        case QueueExists() | KeyExists() | KeyRevoked() | KeyHasTwoSecrets() | MoveConflict() | SendConflict():
            status = 409
        case ShipmentConflict():
            return json_response(409, Conflict(str(error), error.expected))
        case LeaseHeld():
            return json_response(409, Taken(str(error), error.holder, error.until))
        case ShipmentEnded():
            return json_response(410, Ended(str(error), error.how))
        case NotPermitted():
            status = 403
        case TooLarge():
            status = 413
        case UnsupportedMediaType():
            status = 415
        case CallerError():
            status = 400
        case TryAgain():
            retry_after = (b"Retry-After", b"%d" % error.retry_after_s)
            return json_response(503, Error(str(error)), retry_after)
        case FeatureMissing():
            status = 501
        case _:
            log.error("a request failed", exc_info=error)
            return json_response(500, Error("the server hit an unexpected error; its log says more"))
    return json_response(status, Error(str(error)))


def answered_by(
    failure: Callable[[Exception], Response], check_query: Callable[[Request, tuple[str, ...]], None] | None = None
) -> Callable[..., Handler]:
    """Handlers whose errors, raised or still to come, are answered by a face's own table. A face that checks queries
    names the parameters of each handler after it."""

    def wrap(handler: Handler, *parameters: str) -> Handler:
        def handle(request: Request) -> Response | Pending[Response]:
            try:
                if request.query and check_query is not None:
                    check_query(request, parameters)
                answer = handler(request)
            except PenstockError as error:
                return failure(error)
            return answer.map(_unchanged, failure) if isinstance(answer, Pending) else answer

        return handle

    return wrap


def _unchanged(response: Response) -> Response:
    return response


@lru_cache(256)
def rfc3339(instant: int) -> bytes:
    """With milliseconds and Z, the one form that mqs' own client reads. Cached: the messages of one claim share their
    instants."""
    seconds, milliseconds = divmod(instant, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z".encode()


_CONTROL_CHARACTERS = dict.fromkeys([*range(32), 127], " ")


@lru_cache(256)
def header_value(text: str) -> bytes:
    """Text that came in through any face, made safe to stand in a header. Cached: mostly it is a content type."""
    return text.translate(_CONTROL_CHARACTERS).encode("latin-1", "replace")
