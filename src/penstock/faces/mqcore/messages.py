"""Adding, fetching and deleting messages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, QueueNotFound
from penstock.faces.answers import error_response, header_value
from penstock.faces.description import EXAMPLE_ID, Op, Param, answer, body, header, of_any_type, text
from penstock.faces.media import INERT
from penstock.faces.mqcore.answers import failure, not_stored
from penstock.faces.mqcore.queues import QUEUE, TAG, is_name
from penstock.faces.mqcore.reserved import unless_reserved
from penstock.faces.permission import Permission
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.model import Draft, Message, Receipt, Sent
from penstock.pending import Pending

DEFAULT_CONTENT_TYPE = b"application/octet-stream"
_ID = b"X-Message-Id"
# All that a segment of a path may hold as it is.
_SAFE_IN_URLS = "!$&'()*+,;=:@"

_NONE = Response(204)
_DELETED = Response(202)


_MESSAGE_ID = {"X-Message-Id": header(text(format="uuid"), "the id of the message", required=True)}
_SEND = Op(
    id="mqcoreSend",
    tag=TAG,
    summary="Send a message",
    description="The body is the message: any bytes, up to 1 MiB. Its `Content-Type` comes back with it.",
    parameters=(QUEUE,),
    body=of_any_type(body({}, "hello", required=False)),
    answers={201: answer("The message is on stable media.", headers=_MESSAGE_ID), 404: NO_SUCH_QUEUE},
)
_FETCH = Op(
    id="mqcoreFetch",
    tag=TAG,
    summary="Fetch the oldest message",
    description="No other caller gets the message for a while, 10 seconds unless the server is set otherwise. Then it "
    "is back in its old place, unless it was deleted meanwhile.",
    parameters=(QUEUE,),
    answers={
        200: of_any_type(answer("The message, with the `Content-Type` it was sent with.", {}, headers=_MESSAGE_ID)),
        204: answer("There is no message to fetch, or no such queue."),
    },
)
_DELETE = Op(
    id="mqcoreDeleteMessage",
    tag=TAG,
    summary="Delete a message",
    description="Fetched or not. Anyone who knows the id can delete the message.",
    parameters=(QUEUE, Param("id", text(minLength=1), "The id of the message.", where="path", example=EXAMPLE_ID)),
    answers={202: answer("The message is gone, or has been before.")},
)


def message_routes(broker: Broker, redelivery_ms: int, reserved: frozenset[str]) -> list[Route]:
    face = _Messages(broker, redelivery_ms)
    poll = Permission("poll")
    claim, ack = unless_reserved(face.claim, reserved), unless_reserved(face.ack, reserved)
    return [
        Route(
            "POST",
            "/{queue}/messages",
            unless_reserved(face.send, reserved),
            BodyRule(limits.BODY_BYTES),
            unreadable=lambda reason: error_response(InvalidRequest(reason)),
            permission=Permission("post"),
            describe=_SEND,
        ),
        Route("GET", "/{queue}/messages", claim, permission=poll, describe=_FETCH),
        Route("DELETE", "/{queue}/messages/{id}", ack, permission=poll, describe=_DELETE),
    ]


class _Messages:
    def __init__(self, broker: Broker, redelivery_ms: int) -> None:
        self._broker = broker
        self._redelivery_ms = redelivery_ms

    def send(self, request: Request) -> Response | Pending[Response]:
        [queue] = request.params
        if not is_name(queue):
            return error_response(QueueNotFound(queue))
        try:
            draft = Draft(request.body, _content_type(request.headers))
        except InvalidRequest as error:
            return error_response(error)
        return self._broker.send(queue, (draft,)).map(_sent, not_stored)

    def claim(self, request: Request) -> Response | Pending[Response]:
        [queue] = request.params
        if not is_name(queue):
            return _NONE
        return self._broker.claim(queue, 1, self._redelivery_ms).map(_claimed, _nothing_claimed)

    def ack(self, request: Request) -> Response | Pending[Response]:
        queue, text = request.params
        if not is_name(queue):
            return _DELETED
        receipt = Receipt(text, queue=queue)
        # A redelivery makes a second delete of the same message normal: that it has gone is not an error.
        return self._broker.ack((receipt,)).map(lambda _done: _DELETED, failure)


def _content_type(headers: Mapping[bytes, bytes]) -> str | None:
    value = headers.get(b"content-type")
    if not value or value == DEFAULT_CONTENT_TYPE:
        return None  # what comes back all the same need not be kept
    if len(value) > limits.CONTENT_TYPE_BYTES:
        raise InvalidRequest(f"a content type is at most {limits.CONTENT_TYPE_BYTES} bytes long")
    return value.decode("latin-1")


def _sent(sent: list[Sent]) -> Response:
    return Response(201, headers=[(_ID, sent[0].id.encode())])


def _claimed(messages: list[Message]) -> Response:
    if not messages:
        return _NONE
    [message] = messages
    content_type = header_value(message.content_type) if message.content_type else DEFAULT_CONTENT_TYPE
    return Response(200, message.body, [(b"Content-Type", content_type), (_ID, _url_form(message.id)), *INERT])


def _url_form(message_id: str) -> bytes:
    """An id as it stands in the address that deletes its message. A UUID looks the same there; in a store of folders
    an id may be any file name."""
    return quote(message_id, safe=_SAFE_IN_URLS).encode()


def _nothing_claimed(error: Exception) -> Response:
    return _NONE if isinstance(error, QueueNotFound) else failure(error)
