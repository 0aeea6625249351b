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
from penstock.faces.answers import error_response, header_value, json_response, rfc3339
from penstock.faces.media import INERT
from penstock.faces.mqs import multipart, trace
from penstock.faces.mqs.trace import traced
from penstock.faces.permission import Permission, Scope, permits, rules_of
from penstock.keys import EVERY_QUEUE
from penstock.model import Draft, Message, Receipt, Sent
from penstock.pending import Pending

DEFAULT_CONTENT_TYPE = "application/octet-stream"
MAX_MESSAGES = 999
MAX_WAIT_S = 19
MULTIPART_BYTES = 16 * 1024 * 1024

# Attributes of a message that travel as headers of its request and come back as headers of its receive.
_RETURNED = {"content_encoding": b"Content-Encoding", "trace_id": trace.HEADER}
_RETURNED_KEYS = frozenset(header.lower() for header in _RETURNED.values())

_CREATED = Response(201)
_CUT_OFF = (b"X-MQS-MESSAGE-TRUNCATED", b"%d" % limits.BODY_BYTES)
_EXISTED = Response(200)
_NONE = Response(204)
_DELETED = Response(204)
_GONE = json_response(404, {"error": "the message does not exist"})


def message_routes(broker: Broker, cut_oversize: bool) -> list[Route]:
    face = _Messages(broker, cut_oversize)
    one = BodyRule(limits.BODY_BYTES, cut=cut_oversize)
    many = Route(
        "POST", "/messages/{queue}", traced(face.send), BodyRule(MULTIPART_BYTES), permission=Permission("post")
    )
    send = replace(many, body=one, choose=lambda request: many if _is_multipart(request) else send)
    return [
        send,
        Route("GET", "/messages/{queue}", traced(face.claim), permission=Permission("poll")),
        Route("DELETE", "/messages/{id}", traced(face.ack), permission=Permission("poll", Scope.ASKS_ITSELF)),
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
                return self._send_many(queue, multipart.decode(request.body, boundary, MAX_MESSAGES))
            body, cut = self._limited(request.body)
            draft = Draft(body, content_type, _attributes(headers))
        except PenstockError as error:
            return self._refuse(queue, error)
        sent = self._broker.send(queue, (draft,))
        if cut or request.cut:
            return sent.map(_sent_cut_off, error_response)
        return sent.map(_sent, error_response)

    def _send_many(self, queue: str, parts: list[tuple[Mapping[bytes, bytes], bytes]]) -> Pending[Response]:
        if not parts:
            raise InvalidRequest("the multipart body holds no message")
        drafts, any_cut = [], False
        for headers, part in parts:
            body, cut = self._limited(part)
            any_cut = any_cut or cut
            drafts.append(Draft(body, _content_type(headers), _attributes(headers)))
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
            limit = _header_number(headers, b"x-mqs-max-messages", 1, MAX_MESSAGES) or 1
            wait_s = _header_number(headers, b"x-mqs-max-wait-time", 1, MAX_WAIT_S) or 0
        except InvalidRequest as error:
            return self._refuse(queue, error)
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
    attributes = {}
    for name, header in _RETURNED.items():
        value = headers.get(header.lower())
        if value:
            if len(value) > limits.CONTENT_TYPE_BYTES:
                raise InvalidRequest(f"{header.decode()} is at most {limits.CONTENT_TYPE_BYTES} bytes long")
            attributes[name] = value.decode("latin-1")
    return attributes or None


def _header_number(headers: Mapping[bytes, bytes], name: bytes, lowest: int, highest: int) -> int | None:
    value = headers.get(name)
    if value is None:
        return None
    if not value.isdigit() or len(value) > 9 or not lowest <= int(value) <= highest:
        raise InvalidRequest(f"{name.decode().upper()} must be a number from {lowest} to {highest}")
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
        return Response(200, messages[0].body, (*_message_headers(messages[0]), *INERT))
    boundary = uuid4().hex.encode()
    body = multipart.encode(((_message_headers(message), message.body) for message in messages), boundary)
    return Response(200, body, ((b"Content-Type", b"multipart/mixed; boundary=" + boundary), *INERT))


def _message_headers(message: Message) -> multipart.Headers:
    headers: multipart.Headers = (
        (b"Content-Type", header_value(message.content_type or DEFAULT_CONTENT_TYPE)),
        (b"X-MQS-MESSAGE-ID", message.id.encode()),
        (b"X-MQS-MESSAGE-RECEIVES", b"%d" % message.receives),
        (b"X-MQS-MESSAGE-PUBLISHED-AT", rfc3339(message.sent_at)),
        (b"X-MQS-MESSAGE-VISIBLE-AT", rfc3339(message.ready_at)),
    )
    if message.attributes:
        for name, header in _RETURNED.items():
            value = message.attributes.get(name)
            if value:
                headers += ((header, header_value(value)),)
    return headers


def _acked(done: list[bool]) -> Response:
    return _DELETED if done[0] else _GONE
