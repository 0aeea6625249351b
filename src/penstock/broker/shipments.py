"""Shipments: messages for one named consumer, numbered, re-readable until they are settled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct

from penstock.broker import pages
from penstock.broker.aside import Aside
from penstock.broker.commit import Commit
from penstock.broker.operations import Again
from penstock.broker.protocol import Form
from penstock.errors import ShipmentNotFound
from penstock.limits import Limits
from penstock.model import ClaimedShipment, Message, Shipment, ShipmentRef, ShipmentState
from penstock.pending import Pending, resolved
from penstock.stores.protocol import Unit, needed

T = TypeVar("T")

_AS_IT_IS: Form[Sequence[Message], Sequence[Message]] = Form(lambda messages: messages, resolved)


class Shipments:
    def __init__(self, commit: Commit, aside: Aside) -> None:
        self._commit = commit
        self._aside = aside

    def claim(
        self, ref: ShipmentRef, limit: int, hold_ms: int, max_bytes: int | None = None
    ) -> Pending[ClaimedShipment]:
        return self._commit.work(ClaimShipment(ref, limit, hold_ms, max_bytes))

    def find(self, ref: ShipmentRef) -> Pending[Shipment]:
        return self._commit.work(FindShipment(ref))

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, after_consumer: str = ""
    ) -> Pending[Sequence[Shipment]]:
        return self._commit.work(ListShipments(queue, consumer, after, limit, after_consumer))

    def read(self, ref: ShipmentRef, start: int, limit: int) -> Pending[Sequence[Message]]:
        return self._aside.read(ReadShipment(ref, start, limit), _AS_IT_IS)

    def read_as(self, ref: ShipmentRef, start: int, limit: int, form: Form[Sequence[Message], T]) -> Pending[T]:
        return self._aside.read(ReadShipment(ref, start, limit), form)

    def settle(self, ref: ShipmentRef, keep: bool = False, stored_in: str | None = None) -> Pending[Shipment]:
        return self._commit.work(SettleShipment(ref, keep, stored_in))

    def release(self, ref: ShipmentRef) -> Pending[Shipment]:
        return self._commit.work(ReleaseShipment(ref))

    def beat(self, ref: ShipmentRef, hold_ms: int) -> Pending[Shipment]:
        return self._commit.work(BeatShipment(ref, hold_ms))


class ClaimShipment(Struct, frozen=True):
    """`repeated` is known from the first unit on."""

    ref: ShipmentRef
    limit: int
    hold_ms: int
    max_bytes: int | None = None
    repeated: bool | None = None
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> ClaimedShipment | Again:
        shipments = needed(unit.shipments, "shipments")
        ref, repeated = self.ref, self.repeated
        if repeated is None:
            repeated = shipments.find(ref, now) is not None
        shipment = shipments.claim(ref, self.limit, now, self.hold_ms, limits.shipment_rows, self.max_bytes)
        if shipment is not None and shipment.state is ShipmentState.GATHERING:
            return Again(ClaimShipment(ref, self.limit, self.hold_ms, self.max_bytes, repeated))
        return ClaimedShipment(shipment, repeated)


class FindShipment(Struct, frozen=True):
    ref: ShipmentRef
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Shipment:
        return _found(unit, self.ref, now)


class ListShipments(Struct, frozen=True):
    queue: str
    consumer: str | None
    after: int
    limit: int
    after_consumer: str = ""
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Sequence[Shipment]:
        asked = self.queue, self.consumer, self.after, self.limit, now, self.after_consumer
        return needed(unit.shipments, "shipments").list(*asked)


class ReadShipment(Struct, frozen=True):
    """In steps, `so_far` from the one before."""

    ref: ShipmentRef
    start: int
    limit: int
    so_far: Sequence[Message] = ()
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> Sequence[Message] | Again:
        rows = pages.step_rows(self.limit, self.so_far, limits)
        read = needed(unit.shipments, "shipments").read(self.ref, self.start + len(self.so_far), rows, now)
        page = [*self.so_far, *read]
        if pages.is_last(read, rows, page, self.limit, limits):
            return page
        return Again(ReadShipment(self.ref, self.start, self.limit, page))


class SettleShipment(Struct, frozen=True):
    ref: ShipmentRef
    keep: bool
    stored_in: str | None = None
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> Shipment | Again:
        ref = self.ref
        if needed(unit.shipments, "shipments").settle(ref, now, limits.shipment_rows, self.keep, self.stored_in):
            return Again(self)
        return _found(unit, ref, now)


class ReleaseShipment(Struct, frozen=True):
    ref: ShipmentRef
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> Shipment | Again:
        ref = self.ref
        if needed(unit.shipments, "shipments").release(ref, now, limits.shipment_rows):
            return Again(self)
        return _found(unit, ref, now)


class BeatShipment(Struct, frozen=True):
    ref: ShipmentRef
    hold_ms: int
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Shipment:
        return needed(unit.shipments, "shipments").beat(self.ref, now, self.hold_ms)


def _found(unit: Unit, ref: ShipmentRef, now: int) -> Shipment:
    shipment = needed(unit.shipments, "shipments").find(ref, now)
    if shipment is None:
        raise ShipmentNotFound(ref)
    return shipment
