"""Sending, receiving and deleting messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from uuid import uuid4

from penstock import ids, limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, PenstockError, QueueNotFound, TooLarge
from penstock.faces.answers import Error, error_response, header_value, json_response, rfc3339
from penstock.faces.description import (
    EXAMPLE_ID,
    NumberParam,
    Op,
    Param,
    answer,
    body,
    header,
    number,
    of_any_type,
    text,
)
from penstock.faces.media import INERT
from penstock.faces.mqs import multipart, trace
from penstock.faces.mqs.trace import TAG, TRACE, TRACED, traced
from penstock.faces.permission import Permission, Scope, permits, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.faces.traceparent import TRACE_PARAMS, TRACEPARENT, TRACESTATE, trace_of, with_trace
from penstock.keys import EVERY_QUEUE
from penstock.model import Draft, Message, Receipt, Sent
from penstock.pending import Pending

DEFAULT_CONTENT_TYPE = "application/octet-stream"
MAX_MESSAGES = 999
MULTIPART_BYTES = 16 * 1024 * 1024

# Attributes of a message that travel as headers of its request and come back as headers of its receive.
_RETURNED = {"content_encoding": b"Content-Encoding", "trace_id": trace.HEADER}
_ALL_RETURNED = {**_RETURNED, TRACEPARENT: TRACEPARENT.encode(), TRACESTATE: TRACESTATE.encode()}
_RETURNED_KEYS = frozenset(header.lower() for header in _ALL_RETURNED.values())

_CREATED = Response(201)
_CUT_OFF = (b"X-MQS-MESSAGE-TRUNCATED", b"%d" % limits.BODY_BYTES)
_EXISTED = Response(200)
_NONE = Response(204)
_DELETED = Response(204)
_GONE = json_response(404, Error("the message does not exist"))


# Queues and messages share a path here, so that the document has one name for both.
_QUEUE = Param("queue_or_id", text(minLength=1), "The name of the queue.", where="path", example="orders")
_MESSAGE = Param("queue_or_id", text(format="uuid"), "The id of the message.", where="path", example=EXAMPLE_ID)
_LIMIT = NumberParam("X-MQS-MAX-MESSAGES", 1, MAX_MESSAGES, "At most this many messages.", where="header", default=1)
_WAIT_S = NumberParam("X-MQS-MAX-WAIT-TIME", 1, 19, "Seconds to wait for a message; without it, none.", where="header")
_ENCODING = Param(
    "Content-Encoding", text(maxLength=limits.CONTENT_TYPE_BYTES), "Kept, and never undone.", where="header"
)
_STORED = {
    "X-MQS-MESSAGE-TRUNCATED": header(
        text(const=str(limits.BODY_BYTES)),
        "the message was longer than this and has been cut off, as the server is set to",
    ),
    **TRACED,
}
_RECEIVED = {
    "X-MQS-MESSAGE-ID": header(text(format="uuid"), "for the delete"),
    "X-MQS-MESSAGE-RECEIVES": header(number(1), "how often it has been received, this time included"),
    "X-MQS-MESSAGE-PUBLISHED-AT": header(text(format="date-time"), "when it was sent"),
    "X-MQS-MESSAGE-VISIBLE-AT": header(text(format="date-time"), "when it becomes visible again"),
    "Content-Encoding": header(text(), "as it was sent"),
    "traceparent": header(text(), "as it was sent"),
    "tracestate": header(text(), "as it was sent"),
    **TRACED,
}
_SEND = Op(
    id="mqsSend",
    tag=TAG,
    summary="Send a message",
    description="The body is the message: any bytes, up to 1 MiB, with their `Content-Type` and `Content-Encoding`. A "
    f"body of `multipart/mixed` sends each of its 1 to {MAX_MESSAGES} parts as a message, all of them or none.",
    parameters=(_QUEUE, _ENCODING, TRACE, *TRACE_PARAMS),
    body=of_any_type(body({}, "hello", required=False)),
    answers={
        201: answer("Stored; of several, at least one.", headers=_STORED),
        200: answer("The queue deduplicates and holds an equal message; nothing was stored.", headers=_STORED),
        404: NO_SUCH_QUEUE,
    },
)
_RECEIVE = Op(
    id="mqsReceive",
    tag=TAG,
    summary="Receive a message",
    description="Takes the oldest visible message and hides it for the queue's visibility timeout. With "
    "`X-MQS-MAX-MESSAGES` over 1, two or more come as `multipart/mixed`, each part with the headers of one message.",
    parameters=(_QUEUE, _LIMIT, _WAIT_S, TRACE),
    answers={
        200: of_any_type(answer("The message, with the `Content-Type` it was sent with.", {}, headers=_RECEIVED)),
        204: answer("No message is visible.", headers=TRACED),
        404: NO_SUCH_QUEUE,
    },
)
_DELETE = Op(
    id="mqsDelete",
    tag=TAG,
    summary="Delete a message",
    description="Whether or not it has been received, and by any caller: mqs has no receipts.",
    parameters=(_MESSAGE, TRACE),
    answers={
        204: answer("It is deleted.", headers=TRACED),
        404: answer("There is no such message.", Error, {"error": "the message does not exist"}, headers=TRACED),
    },
)


def message_routes(broker: Broker, cut_oversize: bool) -> list[Route]:
    face = _Messages(broker, cut_oversize)
    one, several = BodyRule(limits.BODY_BYTES, cut=cut_oversize), BodyRule(MULTIPART_BYTES)
    post, poll, itself = Permission("post"), Permission("poll"), Permission("poll", Scope.ASKS_ITSELF)
    many = Route("POST", "/messages/{queue}", traced(face.send), several, permission=post, describe=_SEND)
    with_trace = replace(many, body=one)

    def choose(request: Request) -> Route:
        if _is_multipart(request):
            return many
        return with_trace if trace.KEY in request.headers else send

    send = replace(with_trace, handler=face.send, choose=choose)
    return [
        send,
        Route("GET", "/messages/{queue}", traced(face.claim), permission=poll, describe=_RECEIVE),
        Route("DELETE", "/messages/{id}", traced(face.ack), permission=itself, describe=_DELETE),
    ]


class _Messages:
    def __init__(self, broker: Broker, cut_oversize: bool) -> None:
        self._broker = broker
        self._cut = cut_oversize

    def send(self, request: Request) -> Response | Pending[Response]:
        [queue] = request.params
        if "/" in queue:
            return error_response(QueueNotFound(queue))
        headers = request.headers
        try:
            content_type = _content_type(headers)
            boundary = multipart.boundary_of(content_type) if content_type[:1] in "mM" else None
            if boundary is not None:
                return self._send_many(queue, multipart.decode(request.body, boundary, MAX_MESSAGES), headers)
            body, cut = self._limited(request.body)
            draft = Draft(body, content_type, _attributes(headers))
        except PenstockError as error:
            return self._refuse(queue, error)
        sent = self._broker.send(queue, (draft,))
        if cut or request.cut:
            return sent.map(_sent_cut_off, error_response)
        return sent.map(_sent, error_response)

    def _send_many(
        self, queue: str, parts: list[tuple[Mapping[bytes, bytes], bytes]], whole: Mapping[bytes, bytes]
    ) -> Pending[Response]:
        if not parts:
            raise InvalidRequest("the multipart body holds no message")
        drafts, any_cut = [], False
        of_all = trace_of(whole)
        for headers, part in parts:
            body, cut = self._limited(part)
            any_cut = any_cut or cut
            drafts.append(Draft(body, _content_type(headers), with_trace(_attributes(headers), of_all)))
        return self._broker.send(queue, drafts).map(_sent_cut_off if any_cut else _sent, error_response)

    def _limited(self, body: bytes) -> tuple[bytes, bool]:
        if len(body) <= limits.BODY_BYTES:
            return body, False
        if not self._cut:
            raise TooLarge(f"a message is at most {limits.BODY_BYTES} bytes long")
        return body[: limits.BODY_BYTES], True

    def _refuse(self, queue: str, error: PenstockError) -> Pending[Response]:
        """A bad request; but first of all, whether the queue exists."""
        found = self._broker.find_queues((queue,))
        return found.map(
            lambda found: error_response(QueueNotFound(queue) if found[0] is None else error), error_response
        )

    def claim(self, request: Request) -> Response | Pending[Response]:
        [queue] = request.params
        if "/" in queue:
            return error_response(QueueNotFound(queue))
        headers = request.headers
        try:
            limit = _header_number(headers, _LIMIT)
            wait_s = _header_number(headers, _WAIT_S)
        except InvalidRequest as error:
            return self._refuse(queue, error)
        request.waits = wait_s > 0
        return self._broker.claim(queue, limit, wait_ms=wait_s * 1000).map(_received, error_response)

    def ack(self, request: Request) -> Response | Pending[Response]:
        [text] = request.params
        try:
            message_id = ids.canonical(text)
        except ValueError:
            return error_response(InvalidRequest("a message id is a UUID"))
        receipts = (Receipt(message_id),)
        if permits(request, "poll", EVERY_QUEUE):
            return self._broker.ack(receipts).map(_acked, error_response)
        return self._broker.ack_permitted(receipts, rules_of(request) or ()).map(_acked, error_response)


def _is_multipart(request: Request) -> bool:
    return request.headers.get(b"content-type", b"")[:15].lower() == b"multipart/mixed"


def _content_type(headers: Mapping[bytes, bytes]) -> str:
    value = headers.get(b"content-type")
    if not value:
        return DEFAULT_CONTENT_TYPE
    if len(value) > limits.CONTENT_TYPE_BYTES:
        raise InvalidRequest(f"a content type is at most {limits.CONTENT_TYPE_BYTES} bytes long")
    return _latin_1(value)


@lru_cache(256)
def _latin_1(value: bytes) -> str:
    """Senders use few content types, again and again."""
    return value.decode("latin-1")


def _attributes(headers: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """What else is handed back with the message on receive."""
    if _RETURNED_KEYS.isdisjoint(headers):
        return None
    attributes: dict[str, str] = trace_of(headers) or {}
    for name, returned in _RETURNED.items():
        value = headers.get(returned.lower())
        if value:
            if len(value) > limits.CONTENT_TYPE_BYTES:
                raise InvalidRequest(f"{returned.decode()} is at most {limits.CONTENT_TYPE_BYTES} bytes long")
            attributes[name] = value.decode("latin-1")
    return attributes or None


def _header_number(headers: Mapping[bytes, bytes], param: NumberParam) -> int:
    """Without a default, 0 where it is left out."""
    value = headers.get(param.key)
    if value is None:
        return param.default or 0
    if not value.isdigit() or len(value) > 9 or not param.lowest <= int(value) <= param.highest:
        raise InvalidRequest(f"{param.name} must be a number from {param.lowest} to {param.highest}")
    return int(value)


def _sent(sent: list[Sent]) -> Response:
    if sent[0].stored or any(one.stored for one in sent):
        return _CREATED
    return _EXISTED


def _sent_cut_off(sent: list[Sent]) -> Response:
    return Response(_sent(sent).status, headers=(_CUT_OFF,))


def _received(messages: list[Message]) -> Response:
    if not messages:
        return _NONE
    if len(messages) == 1:
        return Response(200, messages[0].body, [*_message_headers(messages[0]), *INERT])
    boundary = uuid4().hex.encode()
    body = multipart.encode(((_message_headers(message), message.body) for message in messages), boundary)
    return Response(200, body, [(b"Content-Type", b"multipart/mixed; boundary=" + boundary), *INERT])


def _message_headers(message: Message) -> multipart.Headers:
    headers: multipart.Headers = (
        (b"Content-Type", header_value(message.content_type or DEFAULT_CONTENT_TYPE)),
        (b"X-MQS-MESSAGE-ID", message.id.encode()),
        (b"X-MQS-MESSAGE-RECEIVES", b"%d" % message.receives),
        (b"X-MQS-MESSAGE-PUBLISHED-AT", rfc3339(message.sent_at)),
        (b"X-MQS-MESSAGE-VISIBLE-AT", rfc3339(message.ready_at)),
    )
    if message.attributes:
        for name, returned in _ALL_RETURNED.items():
            value = message.attributes.get(name)
            if value:
                headers += ((returned, header_value(value)),)
    return headers


def _acked(done: list[bool]) -> Response:
    return _DELETED if done[0] else _GONE
