"""Leases: one holder at a time for each name in a queue."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.limits import Limits
from penstock.model import Lease
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Leases:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def take(self, queue: str, name: str, holder: str, hold_ms: int) -> Pending[Lease]:
        return self._commit.work(TakeLease(queue, name, holder, hold_ms))

    def find(self, queue: str, name: str) -> Pending[Lease | None]:
        return self._commit.work(FindLease(queue, name))

    def drop(self, queue: str, name: str, holder: str) -> Pending[bool]:
        return self._commit.work(DropLease(queue, name, holder))


class TakeLease(Struct, frozen=True):
    queue: str
    name: str
    holder: str
    hold_ms: int
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Lease:
        return needed(unit.leases, "leases").take(self.queue, self.name, self.holder, now, self.hold_ms)


class FindLease(Struct, frozen=True):
    queue: str
    name: str
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Lease | None:
        return needed(unit.leases, "leases").find(self.queue, self.name, now)


class DropLease(Struct, frozen=True):
    queue: str
    name: str
    holder: str
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> bool:
        return needed(unit.leases, "leases").drop(self.queue, self.name, self.holder, now)
