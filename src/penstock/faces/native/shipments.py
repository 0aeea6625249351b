"""Shipments: messages for one named consumer, numbered, re-readable until they are settled as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.faces.answers import json_response
from penstock.faces.native.arrow import messages_response, wants_arrow
from penstock.faces.native.messages import shown
from penstock.faces.native.requests import answered, consumer_and_number, decoder, query_consumer, query_number, within
from penstock.faces.permission import Permission
from penstock.model import ClaimedShipment, Message, Shipment, ShipmentRef
from penstock.pending import Pending

_BODY = BodyRule(64 * 1024)
_SHORTEST_HOLD_MS = 1_000


class ClaimShipment(Struct, forbid_unknown_fields=True):
    limit: int = 100_000
    hold_ms: int = 3_600_000


class SettleShipment(Struct, forbid_unknown_fields=True):
    keep: bool = False


class BeatShipment(Struct, forbid_unknown_fields=True):
    hold_ms: int = 3_600_000


class ReleaseShipment(Struct, forbid_unknown_fields=True):
    pass


_read_claim = decoder(ClaimShipment)
_read_settle = decoder(SettleShipment)
_read_beat = decoder(BeatShipment)
_read_release = decoder(ReleaseShipment)


def shipment_routes(broker: Broker) -> list[Route]:
    face = _Shipments(broker)
    poll = Permission("poll")
    all_of_them = "/v1/queues/{queue}/shipments"
    one = f"{all_of_them}/{{consumer}}/{{number}}"
    return [
        Route("GET", all_of_them, answered(face.list, "consumer", "after", "limit"), head=True, permission=poll),
        Route("PUT", one, answered(face.claim), _BODY, permission=poll),
        Route("GET", one, answered(face.show), head=True, permission=poll),
        Route("GET", f"{one}/messages", answered(face.read, "start", "limit"), head=True, permission=poll),
        Route("POST", f"{one}/settle", answered(face.settle), _BODY, permission=poll),
        Route("POST", f"{one}/release", answered(face.release), _BODY, permission=poll),
        Route("POST", f"{one}/heartbeat", answered(face.beat), _BODY, permission=poll),
    ]


class _Shipments:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        consumer = query_consumer(request)
        after = query_number(request, "after", 0, 0, 2**53)
        limit = query_number(request, "limit", 1_000, 1, limits.LIST_LIMIT)
        listed = self._broker.shipments.list(queue, consumer, after, limit)
        return listed.map(lambda found: json_response(200, {"shipments": found}))

    def claim(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        asked = _read_claim(request.body)
        limit = within("limit", asked.limit, 1, limits.SHIPMENT_ROWS)
        hold_ms = within("hold_ms", asked.hold_ms, _SHORTEST_HOLD_MS, limits.DURATION_MS)
        return self._broker.shipments.claim(ref, limit, hold_ms).map(_claimed)

    def show(self, request: Request) -> Pending[Response]:
        return self._broker.shipments.find(_named(request)).map(_told)

    def read(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        start = query_number(request, "start", 0, 0, limits.SHIPMENT_ROWS)
        limit = query_number(request, "limit", limits.BULK_LIMIT, 1, limits.BULK_LIMIT)
        read = self._broker.shipments.read(ref, start, limit)
        return read.map(messages_response if wants_arrow(request) else _messages)

    def settle(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        return self._broker.shipments.settle(ref, _read_settle(request.body).keep).map(_told)

    def release(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        _read_release(request.body)
        return self._broker.shipments.release(ref).map(_told)

    def beat(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        hold_ms = within("hold_ms", _read_beat(request.body).hold_ms, _SHORTEST_HOLD_MS, limits.DURATION_MS)
        return self._broker.shipments.beat(ref, hold_ms).map(_told)


def _named(request: Request) -> ShipmentRef:
    queue, consumer, number = request.params
    return ShipmentRef(queue, *consumer_and_number(consumer, number))


def _claimed(claimed: ClaimedShipment) -> Response:
    if claimed.shipment is None:
        return Response(204)
    return json_response(200 if claimed.repeated else 201, claimed.shipment)


def _told(shipment: Shipment) -> Response:
    return json_response(200, shipment)


def _messages(messages: Sequence[Message]) -> Response:
    return json_response(200, {"messages": [shown(message) for message in messages]})
