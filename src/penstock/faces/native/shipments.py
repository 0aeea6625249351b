"""Shipments: messages for one named consumer, numbered, re-readable until they are settled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker, Form
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import Conflict, Ended, Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import NumberParam, Op, Param, Tag, also, answer, body, name_text
from penstock.faces.native.arrow import ARROW_MEDIA, ARROW_STREAM, load_ahead, wants_arrow
from penstock.faces.native.messages import (
    MESSAGE_EXAMPLE,
    MessageView,
    message_view,
    messages_in_arrow,
    messages_in_json,
    messages_in_one_batch,
)
from penstock.faces.native.requests import (
    AFTER_NUMBER,
    CONSUMER,
    LIST_LIMIT,
    NUMBER,
    OF_CONSUMER,
    QUEUE,
    SMALL,
    checked_word,
    consumer_and_number,
    query_consumer,
    query_number,
    route,
)
from penstock.faces.permission import Permission
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.model import ClaimedShipment, Message, Shipment, ShipmentRef
from penstock.pending import Pending, chained

_Hold = Annotated[
    int,
    Meta(
        ge=1_000,
        le=limits.DURATION_MS,
        description="without a heartbeat for so long the shipment is lost and its messages are ready again",
    ),
]


class ClaimShipment(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=limits.SHIPMENT_ROWS, description="at most this many messages")] = 100_000
    hold_ms: _Hold = 3_600_000
    max_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=limits.SHIPMENT_BYTES)] | None,
        Meta(description="at most this many bytes of bodies, but at least one message"),
    ] = None


class SettleShipment(Struct, forbid_unknown_fields=True):
    keep: Annotated[bool, Meta(description="whether it stays readable for an hour")] = False
    stored_in: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.STORED_IN_LENGTH)] | None,
        Meta(description="where the messages are now, in printable characters"),
    ] = None


class BeatShipment(Struct, forbid_unknown_fields=True):
    hold_ms: _Hold = 3_600_000


class ReleaseShipment(Struct, forbid_unknown_fields=True):
    pass


class ShipmentList(Struct):
    shipments: Sequence[Shipment]


class ShipmentPage(Struct):
    messages: list[MessageView]


_read_claim = decoder(ClaimShipment)
_read_settle = decoder(SettleShipment)
_read_beat = decoder(BeatShipment)
_read_release = decoder(ReleaseShipment)

_TAG = Tag(
    "native shipments",
    "Messages for one named consumer, claimed together under a number that the consumer chooses, counting from 1. A "
    "shipment can be read again and again until it is settled as a whole, so that a consumer that copies it does so "
    "once.",
)
_NAMED = (QUEUE, CONSUMER, NUMBER)
_START = NumberParam("start", 0, limits.SHIPMENT_ROWS, "The position of the first one.", default=0)
_LIMIT = NumberParam("limit", 1, limits.BULK_LIMIT, "At most this many.", default=limits.BULK_LIMIT)
_EXAMPLE = {
    "queue": "orders",
    "consumer": "lake",
    "number": 1,
    "state": "open",
    "messages": 1200,
    "bytes": 240_000,
    "claimed_at": 1_760_000_000_000,
    "until": 1_760_003_600_000,
    "ended_at": None,
    "stored_in": None,
}
_SHIPMENT = answer("The shipment.", Shipment, _EXAMPLE)
CONFLICT = answer(
    "Another number was expected.",
    Conflict,
    {"error": "number 3 of 'lake': number 2 was expected", "expected": 2},
)
ENDED = answer(
    "It has ended: there is nothing to read any more.",
    Ended,
    {"error": "number 1 of 'lake' has ended: it was settled", "how": "settled"},
)
_UNKNOWN = answer(
    "There is no such queue, or that number never was or is no longer remembered.",
    Error,
    {"error": "'lake' never had number 7, or it is no longer remembered"},
)
_GATHERING = answer(
    "Its claim has not come to its end: claim it again, under the same number.",
    Conflict,
    {"error": "number 1 of 'lake': claim it again, it is not complete yet", "expected": 1},
)

_AFTER_CONSUMER = Param("after_consumer", name_text(), "Only those of consumers whose names come after this one.")

_LIST = Op(
    id="listShipments",
    tag=_TAG,
    summary="List shipments",
    description="By consumer and number, those that ended within the last 30 days included.",
    parameters=(QUEUE, OF_CONSUMER, _AFTER_CONSUMER, AFTER_NUMBER, LIST_LIMIT),
    answers={200: answer("The shipments.", ShipmentList, {"shipments": [_EXAMPLE]}), 404: NO_SUCH_QUEUE},
)
_CLAIM = Op(
    id="claimShipment",
    tag=_TAG,
    summary="Claim a shipment",
    description="Takes ready messages under the next number. The same number again finds the same shipment.",
    parameters=_NAMED,
    body=body(ClaimShipment, {"limit": 100_000, "hold_ms": 3_600_000}, required=False),
    answers={
        201: answer("A new shipment.", Shipment, _EXAMPLE),
        200: answer("It was there.", Shipment, _EXAMPLE),
        204: answer("No message was ready, and no shipment was made."),
        404: NO_SUCH_QUEUE,
        409: CONFLICT,
        410: ENDED,
    },
)
_SHOW = Op(
    id="showShipment",
    tag=_TAG,
    summary="Show a shipment",
    description="Also one that has ended, for 30 days.",
    parameters=_NAMED,
    answers={200: _SHIPMENT, 404: _UNKNOWN},
)
_READ = Op(
    id="readShipment",
    tag=_TAG,
    summary="Read a shipment",
    description="Its messages by position, which never changes. A page may be shorter than asked for, about 16 MiB of "
    "bodies; go on at `start` and the number that came. Past the end it is empty.",
    parameters=(*_NAMED, _START, _LIMIT),
    answers={
        200: also(
            answer("A page of messages.", ShipmentPage, {"messages": [MESSAGE_EXAMPLE]}), ARROW_MEDIA, ARROW_STREAM
        ),
        404: _UNKNOWN,
        409: _GATHERING,
        410: ENDED,
    },
)
_SETTLE = Op(
    id="settleShipment",
    tag=_TAG,
    summary="Settle a shipment",
    description="Finishes all its messages. Settling again is not an error, and changes nothing.",
    parameters=_NAMED,
    body=body(SettleShipment, {"keep": False, "stored_in": "s3://lake/orders"}, required=False),
    answers={200: _SHIPMENT, 404: _UNKNOWN, 409: _GATHERING, 410: ENDED},
)
_RELEASE = Op(
    id="releaseShipment",
    tag=_TAG,
    summary="Give a shipment back",
    description="All its messages are ready again, in their old places.",
    parameters=_NAMED,
    body=body(ReleaseShipment, {}, required=False),
    answers={200: _SHIPMENT, 404: _UNKNOWN, 410: ENDED},
)
_BEAT = Op(
    id="beatShipment",
    tag=_TAG,
    summary="Keep a shipment",
    description="Holds it for `hold_ms` from now.",
    parameters=_NAMED,
    body=body(BeatShipment, {"hold_ms": 3_600_000}, required=False),
    answers={200: _SHIPMENT, 404: _UNKNOWN, 410: ENDED},
)


def shipment_routes(broker: Broker) -> list[Route]:
    face = _Shipments(broker)
    poll = Permission("poll")
    all_of_them = "/v1/queues/{queue}/shipments"
    one = f"{all_of_them}/{{consumer}}/{{number}}"
    return [
        route("GET", all_of_them, face.list, _LIST, poll, head=True),
        route("PUT", one, face.claim, _CLAIM, poll, SMALL),
        route("GET", one, face.show, _SHOW, poll, head=True),
        route("GET", f"{one}/messages", face.read, _READ, poll, head=True),
        route("POST", f"{one}/settle", face.settle, _SETTLE, poll, SMALL),
        route("POST", f"{one}/release", face.release, _RELEASE, poll, SMALL),
        route("POST", f"{one}/heartbeat", face.beat, _BEAT, poll, SMALL),
    ]


class _Shipments:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        consumer = query_consumer(request)
        after = query_number(request, AFTER_NUMBER)
        limit = query_number(request, LIST_LIMIT)
        after_consumer = query_consumer(request, _AFTER_CONSUMER)
        if consumer is not None and after_consumer is not None:
            raise InvalidRequest("give consumer or after_consumer, not both")
        listed = self._broker.shipments.list(queue, consumer, after, limit, after_consumer or "")
        return listed.map(lambda found: json_response(200, ShipmentList(found)))

    def claim(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        asked = _read_claim(request.body)
        load_ahead()  # what is claimed now is read in a moment
        return self._broker.shipments.claim(ref, asked.limit, asked.hold_ms, asked.max_bytes).map(_claimed)

    def show(self, request: Request) -> Pending[Response]:
        return self._broker.shipments.find(_named(request)).map(_told)

    def read(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        start = query_number(request, _START)
        limit = query_number(request, _LIMIT)
        if wants_arrow(request):
            return self._broker.shipments.read_as(ref, start, limit, _IN_ARROW)
        return chained(self._broker.shipments.read(ref, start, limit), _messages)

    def settle(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        asked = _read_settle(request.body)
        stored_in = asked.stored_in
        if stored_in is not None:
            checked_word("stored_in", stored_in, limits.STORED_IN_LENGTH)
        return self._broker.shipments.settle(ref, asked.keep, stored_in).map(_told)

    def release(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        _read_release(request.body)
        return self._broker.shipments.release(ref).map(_told)

    def beat(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        return self._broker.shipments.beat(ref, _read_beat(request.body).hold_ms).map(_told)


def _named(request: Request) -> ShipmentRef:
    queue, consumer, number = request.params
    return ShipmentRef(queue, *consumer_and_number(consumer, number))


def _claimed(claimed: ClaimedShipment) -> Response:
    if claimed.shipment is None:
        return Response(204)
    return json_response(200 if claimed.repeated else 201, claimed.shipment)


def _told(shipment: Shipment) -> Response:
    return json_response(200, shipment)


def _messages(messages: Sequence[Message]) -> Pending[Response]:
    return messages_in_json(messages, message_view)


_IN_ARROW = Form(messages_in_one_batch, messages_in_arrow)
