"""The verbs that MQ-Core does not define. Each says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from penstock.errors import FeatureMissing
from penstock.model import Key, LedgerRow, Message, Move, PeekAfter, Queue, Receipt, Settings, Tally
from penstock.stores.protocol import Feature


def lacks(feature: Feature) -> NoReturn:
    raise FeatureMissing(f"an mqcore:// store does not keep {feature.value}")


class LackingVerbs:
    def update_queue(self, name: str, settings: Settings) -> Queue:
        lacks(Feature.SETTINGS)

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        lacks(Feature.RECEIPTS)

    def release(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        lacks(Feature.RECEIPTS)

    def release_all(self, queue: str, now: int, limit: int) -> int:
        lacks(Feature.RECEIPTS)

    def move(self, source: str, target: str, now: int, limit: int, through: int) -> int:
        lacks(Feature.MOVE)

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        lacks(Feature.PURGE)

    def last_seq(self) -> int:
        lacks(Feature.PURGE)

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        lacks(Feature.PEEK)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        lacks(Feature.BARE_IDS)

    def start_move(self, move_id: str, source: str, target: str, now: int) -> Move:
        lacks(Feature.MOVE)

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        lacks(Feature.MOVE)

    def find_move(self, move_id: str) -> Move | None:
        return None

    def unfinished_moves(self) -> list[str]:
        return []

    def create_key(self, key: Key) -> None:
        lacks(Feature.KEYS)

    def revoke_key(self, name: str, now: int) -> None:
        lacks(Feature.KEYS)

    def list_keys(self) -> list[Key]:
        return []

    def ledger(self, after: int, limit: int) -> list[LedgerRow]:
        lacks(Feature.LEDGER)

    def tally(self, queue: str) -> Tally:
        lacks(Feature.LEDGER)
