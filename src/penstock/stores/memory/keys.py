"""API keys in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.errors import KeyExists, KeyNotFound, TooLarge
from penstock.model import Key
from penstock.stores.memory.session import Session


class MemoryKeys:
    def __init__(self, session: Session) -> None:
        self._tables = session.tables
        self._most = session.limits.keys

    def create(self, key: Key) -> None:
        if key.name in self._tables.keys:
            raise KeyExists(key.name)
        if len(self._tables.keys) >= self._most:
            raise TooLarge(f"a store holds at most {self._most} API keys, revoked ones included")
        self._tables.replace("keys", {**self._tables.keys, key.name: key})

    def revoke(self, name: str, now: int) -> bool:
        key = self._tables.keys.get(name)
        if key is None:
            raise KeyNotFound(name)
        if key.revoked_at is not None:
            return False
        self._tables.replace("keys", {**self._tables.keys, name: replace(key, revoked_at=now)})
        return True

    def list(self) -> Sequence[Key]:
        return [*self._tables.keys.values()]
