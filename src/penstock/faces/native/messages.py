"""Messages: send, claim, ack, renew, release, peek, purge."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.message import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, TooLarge
from penstock.faces.answers import encode_json, json_response
from penstock.faces.native.requests import answered, decoder, query_number, within
from penstock.faces.numbers import is_number
from penstock.faces.permission import Permission
from penstock.model import Draft, Message, PeekAfter, Receipt, Sent
from penstock.pending import Pending
from penstock.stores.protocol import Unit

_SMALL = BodyRule(1024 * 1024)
_BULK = BodyRule(16 * 1024 * 1024)


class SendMessage(Struct, forbid_unknown_fields=True):
    body: str | None = None
    body_base64: str | None = None
    content_type: str | None = None
    attributes: dict[str, str] | None = None
    delay_ms: int | None = None


class SendRequest(Struct, forbid_unknown_fields=True):
    messages: list[SendMessage]


class ClaimRequest(Struct, forbid_unknown_fields=True):
    limit: int = 1
    hold_ms: int | None = None
    wait_ms: int = 0


class ReceiptsRequest(Struct, forbid_unknown_fields=True):
    receipts: list[str]


class RenewRequest(Struct, forbid_unknown_fields=True):
    receipts: list[str]
    hold_ms: int


_read_send = decoder(SendRequest)
_read_claim = decoder(ClaimRequest)
_read_receipts = decoder(ReceiptsRequest)
_read_renew = decoder(RenewRequest)


def message_routes(broker: Broker) -> list[Route]:
    face = _Messages(broker)
    queue = "/v1/queues/{queue}"
    post, poll = Permission("post"), Permission("poll")
    return [
        Route("POST", f"{queue}/messages", answered(face.send), _BULK, permission=post),
        Route("GET", f"{queue}/messages", answered(face.peek), head=True, permission=poll),
        Route("POST", f"{queue}/claim", answered(face.claim), _SMALL, permission=poll),
        Route("POST", f"{queue}/ack", answered(face.ack), _SMALL, permission=poll),
        Route("POST", f"{queue}/renew", answered(face.renew), _SMALL, permission=poll),
        Route("POST", f"{queue}/release", answered(face.release), _SMALL, permission=poll),
        Route("POST", f"{queue}/purge", answered(face.purge), _SMALL, permission=poll),
    ]


class _Messages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        messages = _read_send(request.body).messages
        within("the number of messages", len(messages), 1, limits.SEND_LIMIT)
        drafts = [_draft(message) for message in messages]
        return self._broker.send(queue, drafts).then(_sent)

    def claim(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        asked = _read_claim(request.body)
        limit = within("limit", asked.limit, 1, limits.CLAIM_LIMIT)
        wait_ms = within("wait_ms", asked.wait_ms, 0, limits.WAIT_MS)
        if asked.hold_ms is not None:
            within("hold_ms", asked.hold_ms, 0, limits.DURATION_MS)
        return self._broker.claim(queue, limit, asked.hold_ms, wait_ms).then(_claimed)

    def ack(self, request: Request) -> Pending[Response]:
        receipts = _receipts(request, _read_receipts(request.body).receipts)
        return self._broker.ack(receipts).then(_done)

    def renew(self, request: Request) -> Pending[Response]:
        asked = _read_renew(request.body)
        receipts = _receipts(request, asked.receipts)
        within("hold_ms", asked.hold_ms, 0, limits.DURATION_MS)

        def renew(unit: Unit, now: int) -> list[bool]:
            return unit.renew(receipts, now, now + asked.hold_ms, shorten=True)

        return self._broker.work(renew).then(_done)

    def release(self, request: Request) -> Pending[Response]:
        receipts = _receipts(request, _read_receipts(request.body).receipts)
        return self._broker.work(lambda unit, now: unit.release(receipts, now)).then(_done)

    def purge(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        return self._broker.purge(queue).then(lambda purged: json_response(200, {"purged": purged}))

    def peek(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        limit = query_number(request, "limit", 10, 1, limits.PEEK_LIMIT)
        after = _cursor(request.query_params().get("after"))
        peeked = self._broker.work(lambda unit, _now: unit.peek(queue, limit, after), writes=False)
        return peeked.then(_peeked)


def _draft(message: SendMessage) -> Draft:
    if (message.body is None) == (message.body_base64 is None):
        raise InvalidRequest("a message has either a body or a body_base64")
    if message.body is not None:
        body = message.body.encode("utf-8", "surrogatepass")
    else:
        try:
            body = base64.b64decode(message.body_base64 or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest("body_base64 is not base64") from error
    if len(body) > limits.BODY_BYTES:
        raise TooLarge(f"a message is at most {limits.BODY_BYTES} bytes long")
    content_type = message.content_type
    if content_type is not None and not (len(content_type) <= limits.CONTENT_TYPE_BYTES and content_type.isprintable()):
        raise InvalidRequest(f"a content type is at most {limits.CONTENT_TYPE_BYTES} printable characters")
    if message.attributes and len(encode_json(message.attributes)) > limits.ATTRIBUTES_BYTES:
        raise TooLarge(f"the attributes of a message are at most {limits.ATTRIBUTES_BYTES} bytes as JSON")
    if message.delay_ms is not None:
        within("delay_ms", message.delay_ms, 0, limits.DURATION_MS)
    return Draft(body, content_type, message.attributes or None, message.delay_ms)


def _receipts(request: Request, texts: Sequence[str]) -> list[Receipt]:
    """A receipt is a message id and, for a claimed message, a dot and the number of the claim."""
    [queue] = request.params
    within("the number of receipts", len(texts), 1, limits.ACK_LIMIT)
    receipts = []
    for text in texts:
        message_id, dot, claim = text.partition(".")
        # Cut off after its dot, a receipt must not stand for whoever holds the message.
        if dot and not is_number(claim):
            raise InvalidRequest(f"{text[:80]!r} is no receipt")
        receipts.append(Receipt(message_id, int(claim) if claim else None, queue))
    return receipts


def _cursor(text: str | None) -> PeekAfter | None:
    if text is None:
        return None
    ready_at, _, seq = text.partition("-")
    if not (is_number(ready_at) and is_number(seq)):
        raise InvalidRequest("after is no cursor of an earlier peek")
    return PeekAfter(int(ready_at), int(seq))


def _shown(message: Message) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": message.id,
        "queue": message.queue,
        "content_type": message.content_type,
        "attributes": message.attributes or {},
        "sent_at": message.sent_at,
        "ready_at": message.ready_at,
        "receives": message.receives,
    }
    try:
        shown["body"] = message.body.decode()
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(message.body).decode()
    return shown


def _sent(sent: list[Sent]) -> Response:
    return json_response(201, {"sent": sent})


def _claimed(messages: list[Message]) -> Response:
    return json_response(
        200,
        {"messages": [{**_shown(message), "receipt": f"{message.id}.{message.claim}"} for message in messages]},
    )


def _done(done: list[bool]) -> Response:
    return json_response(200, {"done": done})


def _peeked(messages: list[Message]) -> Response:
    after = f"{messages[-1].ready_at}-{messages[-1].seq}" if messages else None
    return json_response(200, {"messages": [_shown(message) for message in messages], "after": after})
