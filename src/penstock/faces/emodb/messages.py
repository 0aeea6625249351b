"""Send, poll, ack, renew."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import QueueNotFound
from penstock.faces.answers import JSON
from penstock.faces.description import EXAMPLE_ID, TEXT, NumberParam, Op, answer, body, text
from penstock.faces.emodb import bodies
from penstock.faces.emodb.service import (
    DONE,
    NAME,
    NOT_AUTHORIZED,
    QUEUE,
    Service,
    answered,
    failure,
    needs,
    number,
    success,
)
from penstock.faces.media import require_json
from penstock.faces.permission import Scope, permits
from penstock.faces.traceparent import KEY as TRACE_KEY
from penstock.faces.traceparent import trace_of, traced_drafts
from penstock.model import Dedup, Message, Receipt, Sent
from penstock.pending import Pending, gather

_ONE = BodyRule(1024 * 1024)
_BATCH = BodyRule(16 * 1024 * 1024)

_TTL = NumberParam("ttl", 0, 3_600, "How many seconds the claims last.", default=30)
_LIMIT = NumberParam("limit", 1, 1_000, "At most this many messages.", default=10)

_EMPTY = Response(200, b"[]", (JSON,))


_AnyJson = Annotated[Any, Meta(description="any JSON value, at most 1 MiB and 500 levels deep")]
_Ids = Annotated[
    list[Annotated[str, Meta(description="the id of a message")]],
    Meta(extra_json_schema={"maxItems": limits.ACK_LIMIT}),
]
_IDS = body(_Ids, [EXAMPLE_ID], "The ids of messages.")
_MESSAGES = answer(
    "The messages, perhaps none.", list[bodies.EmoDBMessage], [{"id": EXAMPLE_ID, "payload": {"order": 1}}]
)
_NOT_JSON = answer("The content type is not `application/json`.", text(), media=TEXT)


def message_routes(broker: Broker, service: Service) -> list[Route]:
    face = _Messages(broker, service)
    tag, prefix, queue = service.tag, service.prefix, f"{service.base}/{{queue}}"
    send, poll = needs("post"), needs("poll")
    return [
        Route(
            "POST",
            f"{service.base}/_sendbatch",
            answered(face.send_by_queue),
            _BATCH,
            permission=needs("post", Scope.ASKS_ITSELF),
            describe=Op(
                id=f"{prefix}SendBatchByQueue",
                tag=tag,
                summary="Send to several queues",
                description="All messages are sent, or none: one bad name or one queue without permission refuses "
                "them all.",
                body=body(
                    Annotated[dict[str, list[_AnyJson]], Meta(extra_json_schema={"propertyNames": NAME})],
                    {"orders": [{"order": 1}, {"order": 2}], "mails": ["hello"]},
                    "Messages by queue.",
                ),
                answers={200: DONE, 415: _NOT_JSON},
            ),
        ),
        Route(
            "POST",
            f"{queue}/send",
            answered(face.send),
            _ONE,
            permission=send,
            describe=Op(
                id=f"{prefix}Send",
                tag=tag,
                summary="Send a message",
                description="The body is the message.",
                parameters=(QUEUE,),
                body=body(_AnyJson, {"order": 1}),
                answers={200: DONE, 415: _NOT_JSON},
            ),
        ),
        Route(
            "POST",
            f"{queue}/sendbatch",
            answered(face.send_batch),
            _BATCH,
            permission=send,
            describe=Op(
                id=f"{prefix}SendBatch",
                tag=tag,
                summary="Send messages",
                description=f"At most {limits.SEND_LIMIT:,} messages and 16 MiB. All are sent, or none.",
                parameters=(QUEUE,),
                body=body(
                    Annotated[list[_AnyJson], Meta(extra_json_schema={"maxItems": limits.SEND_LIMIT})],
                    [{"order": 1}, {"order": 2}],
                ),
                answers={200: DONE, 415: _NOT_JSON},
            ),
        ),
        Route(
            "GET",
            f"{queue}/poll",
            answered(face.poll),
            permission=poll,
            describe=Op(
                id=f"{prefix}Poll",
                tag=tag,
                summary="Claim messages",
                description="Hides messages from other polls for `ttl` seconds and answers them, oldest first. With "
                "`ttl=0` it hands them out and claims nothing. What another API has sent and is not JSON comes as a "
                "text, or in base64 where it is not UTF-8 either.",
                parameters=(QUEUE, _TTL, _LIMIT),
                answers={200: _MESSAGES},
            ),
        ),
        Route(
            "POST",
            f"{queue}/ack",
            answered(face.ack),
            _ONE,
            permission=poll,
            describe=Op(
                id=f"{prefix}Ack",
                tag=tag,
                summary="Finish messages",
                description="They are gone for good. An id that is not, or no longer, in this queue is not an error.",
                parameters=(QUEUE,),
                body=_IDS,
                answers={200: DONE, 415: _NOT_JSON},
            ),
        ),
        Route(
            "POST",
            f"{queue}/renew",
            answered(face.renew),
            _ONE,
            permission=poll,
            describe=Op(
                id=f"{prefix}Renew",
                tag=tag,
                summary="Hold messages for longer",
                description="Their claims last at least `ttl` seconds from now. `ttl=0` releases them instead.",
                parameters=(QUEUE, _TTL),
                body=_IDS,
                answers={200: DONE, 415: _NOT_JSON},
            ),
        ),
        Route(
            "GET",
            f"{queue}/peek",
            answered(face.peek),
            head=True,
            permission=poll,
            describe=Op(
                id=f"{prefix}Peek",
                tag=tag,
                summary="Look at messages",
                description="As poll, but it ignores claims and changes nothing.",
                parameters=(QUEUE, _LIMIT),
                answers={200: _MESSAGES},
            ),
        ),
    ]


class _Messages:
    def __init__(self, broker: Broker, service: Service) -> None:
        self._broker = broker
        self._service = service
        self._keyed = service.settings.dedup is not Dedup.OFF

    def send(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        require_json(request)
        return self._send(request, queue, [bodies.read_message(request.body)]).map(success)

    def send_batch(self, request: Request) -> Response | Pending[Response]:
        queue = self._service.queue(request.params[0])
        require_json(request)
        return self._send(request, queue, bodies.read_messages(request.body)).map(success)

    def send_by_queue(self, request: Request) -> Response | Pending[Response]:
        require_json(request)
        by_queue = {
            self._service.queue(name): messages
            for name, messages in bodies.read_messages_by_queue(request.body).items()
        }
        if not all(permits(request, "post", queue) for queue in by_queue):
            return NOT_AUTHORIZED
        return gather([self._send(request, queue, messages) for queue, messages in by_queue.items()]).map(success)

    def _send(self, request: Request, queue: str, messages: list[bytes]) -> Pending[list[Sent]]:
        drafts = bodies.drafts(messages, self._keyed)
        if TRACE_KEY in request.headers:
            drafts = traced_drafts(drafts, trace_of(request.headers))
        return self._broker.send(queue, drafts, create_as=self._service.settings)

    def poll(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        ttl_s = number(request, _TTL)
        limit = number(request, _LIMIT)
        return self._broker.claim(queue, limit, hold_ms=ttl_s * 1000).map(_messages, _empty)

    def peek(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        limit = number(request, _LIMIT)
        return self._broker.peek(queue, limit).map(_messages, _empty)

    def ack(self, request: Request) -> Pending[Response]:
        return self._broker.ack(self._receipts(request)).map(success)

    def renew(self, request: Request) -> Pending[Response]:
        receipts = self._receipts(request)
        ttl_s = number(request, _TTL)
        if ttl_s:
            return self._broker.renew(receipts, ttl_s * 1000).map(success)
        return self._broker.release(receipts, 0).map(success)

    def _receipts(self, request: Request) -> list[Receipt]:
        queue = self._service.queue(request.params[0])
        require_json(request)
        return [Receipt(message_id, queue=queue) for message_id in bodies.read_ids(request.body)]


def _messages(messages: list[Message]) -> Response:
    return Response(200, bodies.encode_messages(messages), (JSON,)) if messages else _EMPTY


def _empty(error: Exception) -> Response:
    return _EMPTY if isinstance(error, QueueNotFound) else failure(error)
