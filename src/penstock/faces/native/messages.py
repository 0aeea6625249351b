"""Messages: send, claim, ack, renew, release, peek, purge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import json_response
from penstock.faces.native.arrow import AFTER, is_arrow, messages_response, read_columns, wants_arrow
from penstock.faces.native.bodies import shown_body
from penstock.faces.native.drafts import is_bulk, read_drafts
from penstock.faces.native.requests import answered, decoder, query_number, within
from penstock.faces.numbers import is_number
from penstock.faces.permission import Permission
from penstock.model import Message, PeekAfter, Receipt, Sent, SentOnce
from penstock.pending import Pending

T = TypeVar("T")

_SMALL = BodyRule(1024 * 1024)
_BULK = BodyRule(16 * 1024 * 1024)


class ClaimRequest(Struct, forbid_unknown_fields=True):
    limit: int = 1
    hold_ms: int | None = None
    wait_ms: int = 0


class ReceiptsRequest(Struct, forbid_unknown_fields=True):
    receipts: list[str]


class ReleaseRequest(Struct, forbid_unknown_fields=True):
    receipts: list[str]
    delay_ms: int | None = None


class PurgeRequest(Struct, forbid_unknown_fields=True):
    older_than_ms: int | None = None


class RenewRequest(Struct, forbid_unknown_fields=True):
    receipts: list[str]
    hold_ms: int


def _counting_decoder(shape: type[T]) -> Callable[[bytes], T]:
    """For bodies with receipts, which have no commas: too many are refused before they are built."""
    read = decoder(shape)

    def read_counted(body: bytes) -> T:
        if body.count(b",") > limits.ACK_LIMIT:
            raise InvalidRequest(f"the number of receipts must be between 1 and {limits.ACK_LIMIT}")
        return read(body)

    return read_counted


_read_claim = decoder(ClaimRequest)
_read_receipts = _counting_decoder(ReceiptsRequest)
_read_release = _counting_decoder(ReleaseRequest)
_read_purge = decoder(PurgeRequest)
_read_renew = _counting_decoder(RenewRequest)


def message_routes(broker: Broker) -> list[Route]:
    face = _Messages(broker)
    queue = "/v1/queues/{queue}"
    post, poll = Permission("post"), Permission("poll")
    return [
        Route("POST", f"{queue}/messages", answered(face.send), _BULK, permission=post),
        Route("GET", f"{queue}/messages", answered(face.peek, "limit", "after"), head=True, permission=poll),
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
        key = request.headers.get(b"idempotency-key")
        drafts = read_drafts(request)
        if key is not None:
            return self._broker.send_once(queue, drafts, _checked_key(key), _digest(request.body)).map(_sent_once)
        return self._broker.send(queue, drafts).map(_counted if is_bulk(request) else _sent)

    def claim(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        asked = _read_claim(request.body)
        limit = within("limit", asked.limit, 1, limits.BULK_LIMIT)
        wait_ms = within("wait_ms", asked.wait_ms, 0, limits.WAIT_MS)
        if asked.hold_ms is not None:
            within("hold_ms", asked.hold_ms, 0, limits.DURATION_MS)
        told = _claimed_in_arrow if wants_arrow(request) else _claimed
        return self._broker.claim(queue, limit, asked.hold_ms, wait_ms).map(told)

    def ack(self, request: Request) -> Pending[Response]:
        texts = _receipt_column(request.body) if is_arrow(request) else _read_receipts(request.body).receipts
        return self._broker.ack(_receipts(request, texts)).map(_done)

    def renew(self, request: Request) -> Pending[Response]:
        asked = _read_renew(request.body)
        receipts = _receipts(request, asked.receipts)
        within("hold_ms", asked.hold_ms, 0, limits.DURATION_MS)
        return self._broker.renew(receipts, asked.hold_ms, shorten=True).map(_done)

    def release(self, request: Request) -> Pending[Response]:
        asked = _read_release(request.body)
        receipts = _receipts(request, asked.receipts)
        if asked.delay_ms is not None:
            within("delay_ms", asked.delay_ms, 0, limits.DURATION_MS)
        return self._broker.release(receipts, asked.delay_ms).map(_done)

    def purge(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        older_than_ms = _read_purge(request.body).older_than_ms
        if older_than_ms is None:
            purging = self._broker.purge(queue)
        else:
            within("older_than_ms", older_than_ms, 0, limits.DURATION_MS)
            purging = self._broker.purge_older(queue, older_than_ms)
        return purging.map(lambda purged: json_response(200, {"purged": purged}))

    def peek(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        limit = query_number(request, "limit", 10, 1, limits.BULK_LIMIT)
        after = _cursor(request.query_params().get("after"))
        return self._broker.peek(queue, limit, after).map(_peeked_in_arrow if wants_arrow(request) else _peeked)


def _checked_key(key: bytes) -> str:
    text = key.decode("latin-1")
    if not (0 < len(text) <= limits.IDEMPOTENCY_KEY_LENGTH and text.isascii() and text.isprintable()):
        raise InvalidRequest(f"an Idempotency-Key is 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return text


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def _receipt_column(body: bytes) -> list[str]:
    texts = read_columns(body, ("receipt",), limits.ACK_LIMIT)["receipt"]
    if None in texts:
        raise InvalidRequest("a receipt must not be null")
    return texts


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


def shown(message: Message) -> dict[str, object]:
    return {
        "id": message.id,
        "queue": message.queue,
        "content_type": message.content_type,
        "attributes": message.attributes or {},
        "sent_at": message.sent_at,
        "ready_at": message.ready_at,
        "receives": message.receives,
        "came_from": message.came_from,
        **shown_body(message.body),
    }


def _sent(sent: list[Sent]) -> Response:
    return json_response(201, {"sent": sent})


def _counted(sent: list[Sent]) -> Response:
    return json_response(201, SentOnce(len(sent), sum([one.stored for one in sent])))


def _sent_once(sent: SentOnce) -> Response:
    return json_response(200 if sent.repeated else 201, sent)


def _claimed_in_arrow(messages: list[Message]) -> Response:
    return messages_response(messages, claimed=True)


def _claimed(messages: list[Message]) -> Response:
    return json_response(
        200,
        {"messages": [{**shown(message), "receipt": f"{message.id}.{message.claim}"} for message in messages]},
    )


def _done(done: list[bool]) -> Response:
    return json_response(200, {"done": done})


def _peeked(messages: list[Message]) -> Response:
    return json_response(200, {"messages": [shown(message) for message in messages], "after": _after(messages)})


def _peeked_in_arrow(messages: list[Message]) -> Response:
    after = _after(messages)
    return messages_response(messages, False, *[(AFTER, after.encode())] if after else [])


def _after(messages: list[Message]) -> str | None:
    return f"{messages[-1].ready_at}-{messages[-1].seq}" if messages else None
