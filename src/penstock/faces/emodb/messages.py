"""Send, poll, ack, renew."""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import QueueNotFound
from penstock.faces.answers import JSON
from penstock.faces.emodb import bodies
from penstock.faces.emodb.service import (
    NOT_AUTHORIZED,
    Service,
    answered,
    failure,
    needs,
    number,
    success,
)
from penstock.faces.media import wants_json
from penstock.faces.permission import Scope, permits
from penstock.model import Dedup, Message, Receipt
from penstock.pending import Pending, gather

_ONE = BodyRule(1024 * 1024)
_BATCH = BodyRule(16 * 1024 * 1024)

DEFAULT_TTL_S = 30
LONGEST_TTL_S = 3600
DEFAULT_LIMIT = 10
LARGEST_LIMIT = 1000

_EMPTY = Response(200, b"[]", (JSON,))


def message_routes(broker: Broker, service: Service) -> list[Route]:
    face = _Messages(broker, service)
    queue = f"{service.base}/{{queue}}"
    send, poll = needs("post"), needs("poll")
    by_queue = needs("post", Scope.ASKS_ITSELF)
    return [
        Route("POST", f"{service.base}/_sendbatch", answered(face.send_by_queue), _BATCH, permission=by_queue),
        Route("POST", f"{queue}/send", answered(face.send), _ONE, permission=send),
        Route("POST", f"{queue}/sendbatch", answered(face.send_batch), _BATCH, permission=send),
        Route("GET", f"{queue}/poll", answered(face.poll), permission=poll),
        Route("POST", f"{queue}/ack", answered(face.ack), _ONE, permission=poll),
        Route("POST", f"{queue}/renew", answered(face.renew), _ONE, permission=poll),
        Route("GET", f"{queue}/peek", answered(face.peek), head=True, permission=poll),
    ]


class _Messages:
    def __init__(self, broker: Broker, service: Service) -> None:
        self._broker = broker
        self._service = service
        self._keyed = service.settings.dedup is not Dedup.OFF

    def send(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        wants_json(request)
        return self._send(queue, [bodies.read_message(request.body)]).map(success)

    def send_batch(self, request: Request) -> Response | Pending[Response]:
        queue = self._service.queue(request.params[0])
        wants_json(request)
        return self._send(queue, bodies.read_messages(request.body)).map(success)

    def send_by_queue(self, request: Request) -> Response | Pending[Response]:
        wants_json(request)
        by_queue = {
            self._service.queue(name): messages
            for name, messages in bodies.read_messages_by_queue(request.body).items()
        }
        if not all(permits(request, "post", queue) for queue in by_queue):
            return NOT_AUTHORIZED
        return gather([self._send(queue, messages) for queue, messages in by_queue.items()]).map(success)

    def _send(self, queue: str, messages: list[bytes]) -> Pending[object]:
        drafts = bodies.drafts(messages, self._keyed)
        return self._broker.send(queue, drafts, create_as=self._service.settings).map(lambda sent: sent)

    def poll(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        ttl_s = number(request, "ttl", DEFAULT_TTL_S, 0, LONGEST_TTL_S)
        limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
        return self._broker.claim(queue, limit, hold_ms=ttl_s * 1000).map(_messages, _empty)

    def peek(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
        return self._broker.peek(queue, limit).map(_messages, _empty)

    def ack(self, request: Request) -> Pending[Response]:
        return self._broker.ack(self._receipts(request)).map(success)

    def renew(self, request: Request) -> Pending[Response]:
        receipts = self._receipts(request)
        ttl_s = number(request, "ttl", DEFAULT_TTL_S, 0, LONGEST_TTL_S)
        if ttl_s:
            return self._broker.renew(receipts, ttl_s * 1000).map(success)
        return self._broker.release(receipts, 0).map(success)

    def _receipts(self, request: Request) -> list[Receipt]:
        queue = self._service.queue(request.params[0])
        wants_json(request)
        return [Receipt(message_id, queue=queue) for message_id in bodies.read_ids(request.body)]


def _messages(messages: list[Message]) -> Response:
    return Response(200, bodies.encode_messages(messages), (JSON,)) if messages else _EMPTY


def _empty(error: Exception) -> Response:
    return _EMPTY if isinstance(error, QueueNotFound) else failure(error)
