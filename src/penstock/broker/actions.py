"""The log of actions: how it is read, and what only the one who asks can write into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.broker.entries import write_down
from penstock.limits import Limits
from penstock.model import Action, ActionFilter, ActionKind, Actor
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Actions:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def record(
        self,
        by: Actor,
        what: ActionKind,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> Pending[None]:
        return self._commit.work(RecordAction(by, what, queue, count, detail))

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Pending[Sequence[Action]]:
        return self._commit.work(ListActions(before, limit, wanted))


class RecordAction(Struct, frozen=True):
    by: Actor
    what: ActionKind
    queue: str | None
    count: int | None
    detail: str | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> None:
        write_down(unit, self.by, self.what, now, self.queue, self.count, self.detail)


class ListActions(Struct, frozen=True):
    before: int | None
    limit: int
    wanted: ActionFilter | None
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Sequence[Action]:
        return needed(unit.actions, "actions").list(self.before, self.limit, self.wanted)
