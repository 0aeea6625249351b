"""API keys: create, revoke, list. What they permit is decided above; here they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.limits import Limits
from penstock.model import CreatedKey, Key
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Keys:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def create(self, name: str, digest: bytes, rules: Sequence[str]) -> Pending[CreatedKey]:
        return self._commit.work(CreateKey(name, digest, tuple(rules)))

    def revoke(self, name: str) -> Pending[None]:
        return self._commit.work(RevokeKey(name))

    def list(self, patient: bool = False) -> Pending[Sequence[Key]]:
        return self._commit.work(ListKeys(), patient)


class CreateKey(Struct, frozen=True):
    name: str
    digest: bytes
    rules: tuple[str, ...]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> CreatedKey:
        keys = needed(unit.keys, "keys")
        key, first = Key(self.name, self.digest, self.rules, now), not keys.list()
        keys.create(key)
        return CreatedKey(key, first)


class RevokeKey(Struct, frozen=True):
    name: str
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        needed(unit.keys, "keys").revoke(self.name, now)


class ListKeys(Struct, frozen=True):
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Sequence[Key]:
        return needed(unit.keys, "keys").list()
