"""API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock.errors import KeyExists, KeyHasTwoSecrets, KeyNotFound, KeyRevoked, TooLarge
from penstock.model import Key, KeyUse, OldSecret
from penstock.stores.sql.session import Session

read_rules = msgspec.json.Decoder(tuple[str, ...]).decode


_COLUMNS = (
    "name, digest, rules, created_at, revoked_at, ended_sessions, expires_at, rotated_at, last_used_at, "
    "old_digest, old_until, old_last_used_at"
)


@dataclass(frozen=True, slots=True)
class KeySql:
    find: str = "SELECT 1 FROM api_key WHERE name = ?"
    count: str = "SELECT count(*) FROM api_key"
    add: str = "INSERT INTO api_key (name, digest, rules, created_at, revoked_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
    expire: str = "UPDATE api_key SET expires_at = ? WHERE name = ? AND revoked_at IS NULL"
    # MariaDB sets one column after the other: the old secret is kept before there is another.
    rotate: str = """
        UPDATE api_key
        SET old_digest = digest, old_until = ?, old_last_used_at = last_used_at, rotated_at = ?, digest = ?
        WHERE name = ? AND digest = ? AND revoked_at IS NULL
        """
    retire: str = """
        UPDATE api_key SET old_digest = NULL, old_until = NULL, old_last_used_at = NULL
        WHERE name = ? AND old_digest = ?
        """
    use: str = """
        UPDATE api_key SET last_used_at = ?
        WHERE name = ? AND (digest = ? OR old_digest = ?) AND coalesce(last_used_at, 0) < ?
        """
    use_old: str = """
        UPDATE api_key SET old_last_used_at = ?
        WHERE name = ? AND old_digest = ? AND coalesce(old_last_used_at, 0) < ?
        """
    revoke: str = "UPDATE api_key SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"
    ended: str = "SELECT ended_sessions FROM api_key WHERE name = ?"
    shorten: str = "UPDATE api_key SET ended_sessions = ? WHERE name = ? AND ended_sessions = ?"
    # The second `coalesce` tells PostgreSQL that it is a text.
    end: str = (
        "UPDATE api_key SET ended_sessions = concat(coalesce(ended_sessions, ''), coalesce(?, '')) WHERE name = ?"
    )
    one: str = f"SELECT {_COLUMNS} FROM api_key WHERE name = ?"
    all: str = f"SELECT {_COLUMNS} FROM api_key ORDER BY number"


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
        instants = key.created_at, key.revoked_at, key.expires_at
        session.engine.run(self._sql.add, (key.name, key.digest, rules, *instants))

    def update(self, name: str, expires_at: int | None) -> Key:
        self._unrevoked(name)
        self._session.engine.run(self._sql.expire, (expires_at, name))
        return self._unrevoked(name)

    def rotate(self, name: str, digest: bytes, old_until: int | None, now: int) -> Key:
        key = self._unrevoked(name)
        # Where none is changed, another process has changed its secret since it was read.
        if (key.old is not None and key.old.is_good(now)) or not self._session.engine.run(
            self._sql.rotate, (old_until, now, digest, name, key.digest)
        ):
            raise KeyHasTwoSecrets(name)
        return self._unrevoked(name)

    def retire(self, name: str) -> Key:
        key = self._unrevoked(name)
        if key.old is None:
            return key
        # If another process has rotated it meanwhile, another secret is the old one, and stays.
        self._session.engine.run(self._sql.retire, (name, key.old.digest))
        return self._unrevoked(name)

    def note_uses(self, uses: Sequence[KeyUse]) -> None:
        engine = self._session.engine
        # In one order: two processes that have the same keys used must not wait for each other.
        for use in sorted(uses, key=lambda use: (use.name, use.digest)):
            at, name, digest = use.used_at, use.name, use.digest
            engine.run(self._sql.use, (at, name, digest, digest, at))
            engine.run(self._sql.use_old, (at, name, digest, at))

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
        return [_key(*row) for row in self._session.engine.rows(self._sql.all)]

    def _unrevoked(self, name: str) -> Key:
        rows = self._session.engine.rows(self._sql.one, (name,))
        if not rows:
            raise KeyNotFound(name)
        key = _key(*rows[0])
        if key.revoked_at is not None:
            raise KeyRevoked(name)
        return key


def _key(
    name: str,
    digest: bytes,
    rules: str,
    created_at: int,
    revoked_at: int | None,
    ended: str | None,
    expires_at: int | None,
    rotated_at: int | None,
    last_used_at: int | None,
    old_digest: bytes | None,
    old_until: int | None,
    old_last_used_at: int | None,
) -> Key:
    old = None if old_digest is None else OldSecret(old_digest, old_until, old_last_used_at)
    instants = expires_at, rotated_at, last_used_at
    return Key(name, digest, read_rules(rules), created_at, revoked_at, _sessions(ended), *instants, old)


def still_known(ended: str, now: int, most: int) -> str:
    """Sessions and their ends, as they stand in a row, without those that have ended by themselves; of more than `most`
    those that end last."""
    pairs = [(int(until), session) for session, _, until in (one.partition(":") for one in ended.split())]
    kept = sorted(pair for pair in pairs if pair[0] > now)
    return "".join(f"{session}:{until} " for until, session in kept[max(0, len(kept) - most) :])


def _sessions(ended: str | None) -> frozenset[str]:
    return frozenset(one.partition(":")[0] for one in ended.split()) if ended else frozenset()
