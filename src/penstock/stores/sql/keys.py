"""API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock.errors import KeyExists, KeyNotFound, TooLarge
from penstock.model import Key
from penstock.stores.sql.session import Session

_read_rules = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True)
class KeySql:
    find: str = "SELECT 1 FROM api_key WHERE name = ?"
    count: str = "SELECT count(*) FROM api_key"
    add: str = "INSERT INTO api_key (name, digest, rules, created_at, revoked_at) VALUES (?, ?, ?, ?, ?)"
    revoke: str = "UPDATE api_key SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"
    all: str = "SELECT name, digest, rules, created_at, revoked_at FROM api_key ORDER BY number"


class Keys:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(KeySql)

    def create(self, key: Key) -> None:
        session = self._session
        if session.engine.rows(self._sql.find, (key.name,)):
            raise KeyExists(key.name)
        most = session.limits.keys
        if session.scalar(self._sql.count) >= most:
            raise TooLarge(f"a store holds at most {most} API keys, revoked ones included")
        rules = msgspec.json.encode(key.rules).decode()
        session.engine.run(self._sql.add, (key.name, key.digest, rules, key.created_at, key.revoked_at))

    def revoke(self, name: str, now: int) -> bool:
        engine = self._session.engine
        if engine.run(self._sql.revoke, (now, name)):
            return True
        if not engine.rows(self._sql.find, (name,)):
            raise KeyNotFound(name)
        return False

    def list(self) -> Sequence[Key]:
        return [
            Key(name, digest, _read_rules(rules), created_at, revoked_at)
            for name, digest, rules, created_at, revoked_at in self._session.engine.rows(self._sql.all)
        ]
