"""API keys in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.errors import KeyExists, KeyHasTwoSecrets, KeyNotFound, KeyRevoked, TooLarge
from penstock.model import Key, KeyUse, OldSecret
from penstock.stores.memory.session import Session


class MemoryKeys:
    def __init__(self, session: Session) -> None:
        self._tables = session.tables
        self._most = session.limits.keys
        self._most_ended = session.limits.ended_sessions

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

    def update(self, name: str, expires_at: int | None) -> Key:
        return self._put(replace(self._unrevoked(name), expires_at=expires_at))

    def rotate(self, name: str, digest: bytes, old_until: int | None, now: int) -> Key:
        key = self._unrevoked(name)
        if key.old is not None and key.old.is_good(now):
            raise KeyHasTwoSecrets(name)
        old = OldSecret(key.digest, old_until, key.last_used_at)
        return self._put(replace(key, digest=digest, rotated_at=now, old=old))

    def retire(self, name: str) -> Key:
        return self._put(replace(self._unrevoked(name), old=None))

    def note_uses(self, uses: Sequence[KeyUse]) -> None:
        for use in uses:
            key = self._tables.keys.get(use.name)
            if key is None:
                continue
            old = key.old
            if old is not None and old.digest == use.digest:
                old = replace(old, last_used_at=max(old.last_used_at or 0, use.used_at))
            elif key.digest != use.digest:
                continue
            self._put(replace(key, last_used_at=max(key.last_used_at or 0, use.used_at), old=old))

    def end_session(self, name: str, session: str, until: int, now: int) -> None:
        key = self._tables.keys.get(name)
        if key is None:
            raise KeyNotFound(name)
        ends = {one: end for one, end in self._tables.session_ends.items() if one in key.ended and end > now}
        latest = sorted(ends, key=ends.__getitem__)[max(0, len(ends) - self._most_ended + 1) :]
        lasting = {one: end for one, end in self._tables.session_ends.items() if end > now}
        self._tables.replace("session_ends", {**lasting, session: until})
        self._tables.replace("keys", {**self._tables.keys, name: replace(key, ended=frozenset([*latest, session]))})

    def _unrevoked(self, name: str) -> Key:
        key = self._tables.keys.get(name)
        if key is None:
            raise KeyNotFound(name)
        if key.revoked_at is not None:
            raise KeyRevoked(name)
        return key

    def _put(self, key: Key) -> Key:
        self._tables.replace("keys", {**self._tables.keys, key.name: key})
        return key

    def list(self) -> Sequence[Key]:
        return [*self._tables.keys.values()]
