"""API keys."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.errors import KeyExists, KeyNotFound, TooLarge
from penstock.model import Key
from penstock.stores.sql.session import Session

_read_rules = msgspec.json.Decoder(tuple[str, ...]).decode


class KeyVerbs:
    session: Session

    def create_key(self, key: Key) -> None:
        if self.session.engine.rows("SELECT 1 FROM api_key WHERE name = ?", (key.name,)):
            raise KeyExists(key.name)
        if self.session.scalar("SELECT count(*) FROM api_key") >= limits.KEYS:
            raise TooLarge(f"a store holds at most {limits.KEYS} API keys, revoked ones included")
        self.session.engine.run(
            "INSERT INTO api_key (name, digest, rules, created_at, revoked_at) VALUES (?, ?, ?, ?, ?)",
            (key.name, key.digest, msgspec.json.encode(key.rules).decode(), key.created_at, key.revoked_at),
        )

    def revoke_key(self, name: str, now: int) -> None:
        if not self.session.engine.run(
            "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE name = ?", (now, name)
        ):
            raise KeyNotFound(name)

    def list_keys(self) -> list[Key]:
        rows = self.session.engine.rows(
            "SELECT name, digest, rules, created_at, revoked_at FROM api_key ORDER BY number"
        )
        return [
            Key(name, digest, _read_rules(rules), created_at, revoked_at)
            for name, digest, rules, created_at, revoked_at in rows
        ]
