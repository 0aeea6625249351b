"""The nouns of a SQL store, as the protocol names them, over the unit that has their verbs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.model import (
    WHOLE,
    Claimed,
    Consumer,
    Counted,
    Export,
    ExportRef,
    Held,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    Move,
    MoveTerms,
    Numbered,
    Outcome,
    Reservation,
    Shipment,
    ShipmentRef,
    Tally,
    Trace,
)

if TYPE_CHECKING:
    from penstock.stores.sql.unit import SqlUnit


class SqlMoves:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        return self._unit.move(source, target, now, limit, through, claimed)

    def start(
        self, move_id: str, source: str, target: str | None, now: int, claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        return self._unit.start_move(move_id, source, target, now, claimed, terms)

    def step(self, move_id: str, now: int, limit: int) -> Move:
        return self._unit.step_move(move_id, now, limit)

    def cancel(self, move_id: str, now: int) -> Move:
        return self._unit.cancel_move(move_id, now)

    def find(self, move_id: str) -> Move | None:
        return self._unit.find_move(move_id)

    def list(self, limit: int) -> Sequence[Move]:
        return self._unit.list_moves(limit)

    def unfinished(self) -> Sequence[str]:
        return self._unit.unfinished_moves()


class SqlShipments:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def claim(self, ref: ShipmentRef, limit: int, now: int, hold_ms: int) -> Shipment | None:
        return self._unit.claim_shipment(ref.queue, ref.consumer, ref.number, limit, now, hold_ms)

    def find(self, ref: ShipmentRef) -> Shipment | None:
        return self._unit.find_shipment(ref.queue, ref.consumer, ref.number)

    def list(self, queue: str, consumer: str | None, after: int, limit: int) -> Sequence[Shipment]:
        return self._unit.list_shipments(queue, consumer, after, limit)

    def read(self, ref: ShipmentRef, start: int, limit: int) -> Sequence[Message]:
        return self._unit.read_shipment(ref.queue, ref.consumer, ref.number, start, limit)

    def settle(self, ref: ShipmentRef, now: int, limit: int, keep: bool = False) -> int:
        return self._unit.settle_shipment(ref.queue, ref.consumer, ref.number, now, limit, keep)

    def release(self, ref: ShipmentRef, now: int, limit: int) -> int:
        return self._unit.release_shipment(ref.queue, ref.consumer, ref.number, now, limit)

    def beat(self, ref: ShipmentRef, now: int, hold_ms: int) -> Shipment:
        return self._unit.beat_shipment(ref.queue, ref.consumer, ref.number, now, hold_ms)


class SqlLedger:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        return self._unit.read_ledger(after, limit, wanted)

    def tally(self, queue: str) -> Tally:
        return self._unit.tally(queue)


class SqlExports:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def claim(self, ref: ExportRef, limit: int, now: int, counted: Counted | None = None) -> Export | Counted | None:
        return self._unit.claim_export(ref.consumer, ref.number, limit, now, counted)

    def list(self, consumer: str | None, after: int, limit: int) -> Sequence[Export]:
        return self._unit.list_exports(consumer, after, limit)

    def read(self, ref: ExportRef, after: int, limit: int) -> Sequence[LedgerRow]:
        return self._unit.read_export(ref.consumer, ref.number, after, limit)

    def settle(self, ref: ExportRef, now: int) -> Export:
        return self._unit.settle_export(ref.consumer, ref.number, now)


class SqlConsumers:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def reserve(self, count: int) -> Reservation:
        return self._unit.reserve(count)

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        self._unit.push(queue, messages, now, again)

    def register(self, consumer: Consumer, now: int) -> None:
        self._unit.register(consumer, now)

    def attend(self, consumer_id: str) -> set[Held] | None:
        return self._unit.attend(consumer_id)

    def hold(self, consumer_id: str, held: Iterable[Held], now: int) -> None:
        self._unit.hold(consumer_id, held, now)

    def leave(self, consumer_id: str) -> None:
        self._unit.leave(consumer_id)

    def reap(self, now: int) -> int:
        return self._unit.reap(now)

    def claim(self, consumer: Consumer, limit: int, now: int) -> Claimed:
        return self._unit.claim_share(consumer, limit, now)

    def settle(
        self, queue: str, held: Collection[Held], outcome: Outcome | None, now: int, delay_ms: int = 0
    ) -> set[Held]:
        return self._unit.settle(queue, held, outcome, now, delay_ms)

    def first_due(self, queue: str) -> int | None:
        return self._unit.first_due(queue)

    def trace(self, message_id: str, now: int) -> Trace | None:
        return self._unit.trace(message_id, now)


class SqlKeys:
    def __init__(self, unit: SqlUnit) -> None:
        self._unit = unit

    def create(self, key: Key) -> None:
        self._unit.create_key(key)

    def revoke(self, name: str, now: int) -> None:
        self._unit.revoke_key(name, now)

    def list(self) -> Sequence[Key]:
        return self._unit.list_keys()
