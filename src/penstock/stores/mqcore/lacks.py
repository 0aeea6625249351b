"""The verbs that MQ-Core does not define. Each says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from penstock.errors import FeatureMissing
from penstock.model import (
    WHOLE,
    Counted,
    Draft,
    Export,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    Move,
    MoveTerms,
    PeekAfter,
    Purged,
    Queue,
    Receipt,
    SentOnce,
    Settings,
    Shipment,
    Tally,
)
from penstock.stores.features import Feature


def lacks(feature: Feature) -> NoReturn:
    raise FeatureMissing(f"an mqcore:// store does not keep {feature.value}")


class LackingVerbs:
    def update_queue(self, name: str, settings: Settings) -> Queue:
        lacks(Feature.SETTINGS)

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        lacks(Feature.RECEIPTS)

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        lacks(Feature.RECEIPTS)

    def release_all(self, queue: str, now: int, limit: int) -> int:
        lacks(Feature.RECEIPTS)

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        lacks(Feature.MOVE)

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        lacks(Feature.PURGE)

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        lacks(Feature.PURGE)

    def last_seq(self) -> int:
        lacks(Feature.PURGE)

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        lacks(Feature.PEEK)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        lacks(Feature.BARE_IDS)

    def start_move(
        self, move_id: str, source: str, target: str | None, now: int, claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        lacks(Feature.MOVE)

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        lacks(Feature.MOVE)

    def cancel_move(self, move_id: str, now: int) -> Move:
        lacks(Feature.MOVE)

    def list_moves(self, limit: int) -> list[Move]:
        lacks(Feature.MOVE)

    def find_move(self, move_id: str) -> Move | None:
        return None

    def unfinished_moves(self) -> list[str]:
        return []

    def claim_shipment(
        self, queue: str, consumer: str, number: int, limit: int, now: int, hold_ms: int
    ) -> Shipment | None:
        lacks(Feature.SHIPMENTS)

    def find_shipment(self, queue: str, consumer: str, number: int) -> Shipment | None:
        lacks(Feature.SHIPMENTS)

    def list_shipments(self, queue: str, consumer: str | None, after: int, limit: int) -> list[Shipment]:
        lacks(Feature.SHIPMENTS)

    def read_shipment(self, queue: str, consumer: str, number: int, start: int, limit: int) -> list[Message]:
        lacks(Feature.SHIPMENTS)

    def settle_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int, keep: bool = False) -> int:
        lacks(Feature.SHIPMENTS)

    def release_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int) -> int:
        lacks(Feature.SHIPMENTS)

    def beat_shipment(self, queue: str, consumer: str, number: int, now: int, hold_ms: int) -> Shipment:
        lacks(Feature.SHIPMENTS)

    def claim_export(
        self, consumer: str, number: int, limit: int, now: int, counted: Counted | None = None
    ) -> Export | Counted | None:
        lacks(Feature.SHIPMENTS)

    def list_exports(self, consumer: str | None, after: int, limit: int) -> list[Export]:
        lacks(Feature.SHIPMENTS)

    def read_export(self, consumer: str, number: int, after: int, limit: int) -> list[LedgerRow]:
        lacks(Feature.SHIPMENTS)

    def settle_export(self, consumer: str, number: int, now: int) -> Export:
        lacks(Feature.SHIPMENTS)

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        lacks(Feature.SHIPMENTS)

    def create_key(self, key: Key) -> None:
        lacks(Feature.KEYS)

    def revoke_key(self, name: str, now: int) -> None:
        lacks(Feature.KEYS)

    def list_keys(self) -> list[Key]:
        return []

    def ledger(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        lacks(Feature.LEDGER)

    def tally(self, queue: str) -> Tally:
        lacks(Feature.LEDGER)
