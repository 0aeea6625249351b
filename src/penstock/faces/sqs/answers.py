"""How both protocols answer: results and errors as JSON or as XML, each answer with an id of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from penstock.edge.http import Request, Response
from penstock.faces.permission import Refusal, RefusalAnswer
from penstock.faces.signatures import verify
from penstock.faces.sqs.errors import (
    BAD_SIGNATURE,
    DENIED,
    NO_QUEUE,
    NO_QUEUE_TEXT_IN_XML,
    NO_TOKEN,
    SIGNATURE,
    THROTTLED,
    TOO_LARGE,
    TOO_SLOW,
    UNKNOWN_TOKEN,
    Fault,
    Rejection,
    told,
)
from penstock.faces.sqs.xml_text import NAMESPACE, answer_text, error_text

JSON_MEDIA: Final = "application/x-amz-json-1.0"
XML_MEDIA: Final = "text/xml"
_JSON: Final = (b"Content-Type", JSON_MEDIA.encode())
_XML: Final = (b"Content-Type", XML_MEDIA.encode())
_REQUEST_ID: Final = b"x-amzn-RequestId"
_QUERY_ERROR: Final = b"x-amzn-query-error"
_EMPTY: Final = b"{}"
# For a look at a queue's URL, as with a browser, that asks for nothing.
_NOTHING_ASKED: Final = b"<UnknownOperationException/>"

_OF_GUARD: Final[Mapping[Refusal, Fault]] = {
    Refusal.NO_KEY: NO_TOKEN,
    Refusal.UNKNOWN_KEY: UNKNOWN_TOKEN,
    Refusal.NOT_PERMITTED: DENIED,
    Refusal.FOREIGN: DENIED,
    Refusal.SLOW_DOWN: THROTTLED,
    Refusal.MALFORMED_SIGNATURE: BAD_SIGNATURE,
    Refusal.WRONG_SIGNATURE: SIGNATURE,
}
_OF_EDGE: Final[Mapping[int, Fault]] = {fault.status: fault for fault in (TOO_SLOW, TOO_LARGE)}

# How a protocol answers an error.
Failed: TypeAlias = Callable[[Exception], Response]

_encode = msgspec.json.Encoder().encode


class RequestIds:
    """A random beginning for this process, and a number."""

    def __init__(self) -> None:
        self._before = str(uuid4())[:24].encode()
        self._numbers = count(1)

    def next(self) -> bytes:
        return b"%b%012x" % (self._before, next(self._numbers))


class _JsonError(Struct):
    type: str = msgspec.field(name="__type")
    message: str


class JsonAnswers:
    """The code of an error is in a header: SDKs look for it there, and for its class in the body."""

    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids

    def done(self, result: Struct | None) -> Response:
        body = _EMPTY if result is None else _encode(result)
        return Response(200, body, [_JSON, (_REQUEST_ID, self._ids.next())])

    def failed(self, error: Exception) -> Response:
        refused = told(error)
        fault = refused.fault
        # What it quotes may hold halves of characters, which no JSON can.
        body = _encode(_JsonError(fault.shape, refused.text.encode("utf-8", "replace").decode()))
        code = (_QUERY_ERROR, f"{fault.code};{fault.whose}".encode())
        return Response(fault.status, body, [_JSON, (_REQUEST_ID, self._ids.next()), code, *_later(refused)])


class XmlAnswers:
    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids

    def done(self, operation: str, result: Struct | None, namespace: str = NAMESPACE) -> Response:
        request_id = self._ids.next()
        text = answer_text(operation, result, request_id.decode(), namespace)
        return Response(200, text.encode(), [_XML, (_REQUEST_ID, request_id)])

    def failed(self, error: Exception) -> Response:
        refused = told(error)
        fault, request_id = refused.fault, self._ids.next()
        text = NO_QUEUE_TEXT_IN_XML if fault is NO_QUEUE else refused.text
        body = error_text(fault.code, text, fault.whose, request_id.decode()).encode()
        return Response(fault.status, body, [_XML, (_REQUEST_ID, request_id), *_later(refused)])

    def nothing_asked(self) -> Response:
        return Response(404, _NOTHING_ASKED, [_XML, (_REQUEST_ID, self._ids.next())])


def _later(refused: Rejection) -> list[tuple[bytes, bytes]]:
    return [] if refused.retry_after_s is None else [(b"Retry-After", b"%d" % refused.retry_after_s)]


# What is refused before an operation is reached.


def by_guard(failed: Failed) -> RefusalAnswer:
    return lambda refusal, why: failed(_rejection(refusal, why))


def by_signature(request: Request) -> Rejection | None:
    """Why a signed request must not be served, once it is there as a whole."""
    wrong = verify(request)
    return None if wrong is None else _rejection(wrong.refusal, wrong.why)


def _rejection(refusal: Refusal, why: str) -> Rejection:
    return Rejection(_OF_GUARD[refusal], why, 1 if refusal is Refusal.SLOW_DOWN else None)


def by_edge(failed: Failed, status: int, reason: str) -> Response:
    name = "ServiceUnavailable" if status >= 500 else "InvalidRequest"
    fault = _OF_EDGE.get(status) or Fault(name, f"{name}Exception", status, is_ours=status >= 500, of_sqs=False)
    return failed(Rejection(fault, reason))


def to_unfinished(failed: Failed) -> Callable[[str], Response]:
    """For a body that did not arrive as a whole."""
    return lambda reason: failed(Rejection(TOO_SLOW, reason))
