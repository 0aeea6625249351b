"""API keys: create, update, rotate, retire, revoke, list, and end a session of one. What they permit is decided above;
here they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.broker.entries import detail_of, write_down
from penstock.errors import InvalidRequest
from penstock.limits import Limits
from penstock.model import ActionKind, Actor, CreatedKey, Key, KeyUse
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Keys:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def create(
        self,
        name: str,
        digest: bytes,
        rules: Sequence[str],
        expires_at: int | None = None,
        by: Actor | None = None,
    ) -> Pending[CreatedKey]:
        return self._commit.work(CreateKey(name, digest, tuple(rules), expires_at, by))

    def update(self, name: str, expires_at: int | None, by: Actor | None = None) -> Pending[Key]:
        return self._commit.work(UpdateKey(name, expires_at, by))

    def rotate(self, name: str, digest: bytes, grace_ms: int | None = None, by: Actor | None = None) -> Pending[Key]:
        return self._commit.work(RotateKey(name, digest, grace_ms, by))

    def retire(self, name: str, by: Actor | None = None) -> Pending[Key]:
        return self._commit.work(RetireSecret(name, by))

    def note_uses(self, uses: Sequence[KeyUse]) -> Pending[None]:
        return self._commit.work(NoteUses(uses), patient=True)

    def revoke(self, name: str, by: Actor | None = None) -> Pending[None]:
        return self._commit.work(RevokeKey(name, by))

    def end_session(self, name: str, session: str, until: int, by: Actor | None = None) -> Pending[None]:
        return self._commit.work(EndSession(name, session, until, by))

    def list(self, patient: bool = False) -> Pending[Sequence[Key]]:
        return self._commit.work(ListKeys(), patient)


class CreateKey(Struct, frozen=True):
    name: str
    digest: bytes
    rules: tuple[str, ...]
    expires_at: int | None = None
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> CreatedKey:
        keys = needed(unit.keys, "keys")
        _check_expiry(self.expires_at, now)
        key, first = Key(self.name, self.digest, self.rules, now, expires_at=self.expires_at), not keys.list()
        keys.create(key)
        told = {"name": self.name, "rules": self.rules}
        detail = detail_of(told if self.expires_at is None else {**told, "expires_at": self.expires_at})
        write_down(unit, self.by, ActionKind.KEY_CREATE, now, detail=detail)
        return CreatedKey(key, first)


class UpdateKey(Struct, frozen=True):
    name: str
    expires_at: int | None
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Key:
        _check_expiry(self.expires_at, now)
        key = needed(unit.keys, "keys").update(self.name, self.expires_at)
        detail = detail_of({"name": self.name, "expires_at": self.expires_at})
        write_down(unit, self.by, ActionKind.KEY_UPDATE, now, detail=detail)
        return key


class RotateKey(Struct, frozen=True):
    name: str
    digest: bytes
    grace_ms: int | None = None
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Key:
        old_until = None if self.grace_ms is None else now + self.grace_ms
        key = needed(unit.keys, "keys").rotate(self.name, self.digest, old_until, now)
        detail = detail_of({"name": self.name, "old_secret_until": old_until})
        write_down(unit, self.by, ActionKind.KEY_ROTATE, now, detail=detail)
        return key


class RetireSecret(Struct, frozen=True):
    name: str
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Key:
        keys = needed(unit.keys, "keys")
        had_two = any(key.name == self.name and key.old_secret(now) for key in keys.list())
        key = keys.retire(self.name)
        if had_two:
            write_down(unit, self.by, ActionKind.KEY_RETIRE, now, detail=detail_of({"name": self.name}))
        return key


class NoteUses(Struct, frozen=True):
    uses: Sequence[KeyUse]
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> None:
        needed(unit.keys, "keys").note_uses(self.uses)


class RevokeKey(Struct, frozen=True):
    name: str
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        if needed(unit.keys, "keys").revoke(self.name, now):
            write_down(unit, self.by, ActionKind.KEY_REVOKE, now, detail=detail_of({"name": self.name}))


class EndSession(Struct, frozen=True):
    name: str
    session: str
    until: int
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        needed(unit.keys, "keys").end_session(self.name, self.session, self.until, now)
        write_down(unit, self.by, ActionKind.CONSOLE_SIGN_OUT, now)


class ListKeys(Struct, frozen=True):
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Sequence[Key]:
        return needed(unit.keys, "keys").list()


def _check_expiry(expires_at: int | None, now: int) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest("expires_at has passed already: name an instant to come, or revoke the key")
