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
    ended: str = "SELECT ended_sessions FROM api_key WHERE name = ?"
    shorten: str = "UPDATE api_key SET ended_sessions = ? WHERE name = ? AND ended_sessions = ?"
    # The second `coalesce` tells PostgreSQL that it is a text.
    end: str = (
        "UPDATE api_key SET ended_sessions = concat(coalesce(ended_sessions, ''), coalesce(?, '')) WHERE name = ?"
    )
    all: str = "SELECT name, digest, rules, created_at, revoked_at, ended_sessions FROM api_key ORDER BY number"


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

    def end_session(self, name: str, session: str, until: int, now: int) -> None:
        engine = self._session.engine
        rows = engine.rows(self._sql.ended, (name,))
        if not rows:
            raise KeyNotFound(name)
        known = rows[0][0] or ""
        kept = still_known(known, now, self._session.limits.ended_sessions - 1)
        if kept != known:
            # If another process has added one meanwhile, the text stays as it is, and is shortened the next time.
            engine.run(self._sql.shorten, (kept, name, known))
        engine.run(self._sql.end, (f"{session}:{until} ", name))

    def list(self) -> Sequence[Key]:
        return [
            Key(name, digest, _read_rules(rules), created_at, revoked_at, _sessions(ended))
            for name, digest, rules, created_at, revoked_at, ended in self._session.engine.rows(self._sql.all)
        ]


def still_known(ended: str, now: int, most: int) -> str:
    """Sessions and their ends, as they stand in a row, without those that have ended by themselves; of more than `most`
    those that end last."""
    pairs = [(int(until), session) for session, _, until in (one.partition(":") for one in ended.split())]
    kept = sorted(pair for pair in pairs if pair[0] > now)
    return "".join(f"{session}:{until} " for until, session in kept[max(0, len(kept) - most) :])


def _sessions(ended: str | None) -> frozenset[str]:
    return frozenset(one.partition(":")[0] for one in ended.split()) if ended else frozenset()
