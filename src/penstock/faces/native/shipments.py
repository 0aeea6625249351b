"""Shipments: messages for one named consumer, numbered, re-readable until they are settled as a whole."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from penstock import limits
from penstock.broker import AGAIN, Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import ShipmentNotFound
from penstock.faces.answers import json_response
from penstock.faces.native.arrow import messages_response, wants_arrow
from penstock.faces.native.messages import shown
from penstock.faces.native.requests import answered, consumer_and_number, decoder, query_consumer, query_number, within
from penstock.faces.permission import Permission
from penstock.model import Message, Shipment, ShipmentState
from penstock.pending import Pending
from penstock.stores.protocol import Unit

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
        listed = self._broker.work(lambda unit, _now: unit.list_shipments(queue, consumer, after, limit), writes=False)
        return listed.map(lambda found: json_response(200, {"shipments": found}))

    def claim(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        asked = _read_claim(request.body)
        limit = within("limit", asked.limit, 1, limits.SHIPMENT_ROWS)
        hold_ms = within("hold_ms", asked.hold_ms, _SHORTEST_HOLD_MS, limits.DURATION_MS)
        known: list[Shipment | None] = []

        def claim(unit: Unit, now: int) -> Shipment | None:
            if not known:
                known.append(unit.find_shipment(queue, consumer, number))
            shipment = unit.claim_shipment(queue, consumer, number, limit, now, hold_ms)
            if shipment is not None and shipment.state is ShipmentState.GATHERING:
                return AGAIN  # type: ignore[no-any-return]
            return shipment

        def told(shipment: Shipment | None) -> Response:
            if shipment is None:
                return Response(204)
            return json_response(200 if known and known[0] is not None else 201, shipment)

        return self._broker.work(claim).map(told)

    def show(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        found = self._broker.work(lambda unit, _now: _found(unit, queue, consumer, number), writes=False)
        return found.map(_told)

    def read(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        start = query_number(request, "start", 0, 0, limits.SHIPMENT_ROWS)
        limit = query_number(request, "limit", limits.BULK_LIMIT, 1, limits.BULK_LIMIT)
        read = self._broker.work(
            lambda unit, _now: unit.read_shipment(queue, consumer, number, start, limit), writes=False
        )
        return read.map(messages_response if wants_arrow(request) else _messages)

    def settle(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        keep = _read_settle(request.body).keep

        def step(unit: Unit, now: int) -> int:
            return unit.settle_shipment(queue, consumer, number, now, limits.CLAIM_ROWS, keep)

        return self._end(request, step)

    def release(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        _read_release(request.body)

        def step(unit: Unit, now: int) -> int:
            return unit.release_shipment(queue, consumer, number, now, limits.CLAIM_ROWS)

        return self._end(request, step)

    def _end(self, request: Request, step: Callable[[Unit, int], int]) -> Pending[Response]:
        queue, consumer, number = _named(request)

        def end(unit: Unit, now: int) -> Shipment:
            return AGAIN if step(unit, now) else _found(unit, queue, consumer, number)

        return self._broker.work(end).map(_told)

    def beat(self, request: Request) -> Pending[Response]:
        queue, consumer, number = _named(request)
        hold_ms = within("hold_ms", _read_beat(request.body).hold_ms, _SHORTEST_HOLD_MS, limits.DURATION_MS)
        return self._broker.work(lambda unit, now: unit.beat_shipment(queue, consumer, number, now, hold_ms)).map(_told)


def _named(request: Request) -> tuple[str, str, int]:
    queue, consumer, number = request.params
    return queue, *consumer_and_number(consumer, number)


def _found(unit: Unit, queue: str, consumer: str, number: int) -> Shipment:
    found = unit.find_shipment(queue, consumer, number)
    if found is None:
        raise ShipmentNotFound(consumer, number)
    return found


def _told(shipment: Shipment) -> Response:
    return json_response(200, shipment)


def _messages(messages: list[Message]) -> Response:
    return json_response(200, {"messages": [shown(message) for message in messages]})
