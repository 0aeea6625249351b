"""API keys: create, revoke, list, and end a session of one. What they permit is decided above; here they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.broker.entries import detail_of, write_down
from penstock.limits import Limits
from penstock.model import ActionKind, Actor, CreatedKey, Key
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Keys:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def create(self, name: str, digest: bytes, rules: Sequence[str], by: Actor | None = None) -> Pending[CreatedKey]:
        return self._commit.work(CreateKey(name, digest, tuple(rules), by))

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
    by: Actor | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> CreatedKey:
        keys = needed(unit.keys, "keys")
        key, first = Key(self.name, self.digest, self.rules, now), not keys.list()
        keys.create(key)
        detail = detail_of({"name": self.name, "rules": self.rules})
        write_down(unit, self.by, ActionKind.KEY_CREATE, now, detail=detail)
        return CreatedKey(key, first)


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
