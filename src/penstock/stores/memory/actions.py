"""The log of actions in the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from penstock.model import Action, ActionFilter, ActionKind, Actor
from penstock.stores.memory.session import Session


class MemoryActions:
    def __init__(self, session: Session) -> None:
        self._tables = session.tables

    def record(
        self,
        by: Actor,
        what: ActionKind,
        now: int,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> None:
        self._tables.put_action(Action(0, now, by.key, by.via, what, queue, count, detail))

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Sequence[Action]:
        latest = (action for action in reversed(self._tables.actions) if before is None or action.number < before)
        return list(islice((action for action in latest if wanted is None or _is_wanted(action, wanted)), limit))

    def sweep(self, before: int, limit: int) -> int:
        actions = self._tables.actions
        old = {action.number for action in islice((action for action in actions if action.at < before), limit)}
        if old:
            self._tables.replace("actions", [action for action in actions if action.number not in old])
        return len(old)


def _is_wanted(action: Action, wanted: ActionFilter) -> bool:
    return (
        wanted.queue in (None, action.queue)
        and wanted.key in (None, action.key)
        and wanted.what in (None, action.what)
        and (wanted.since is None or action.at >= wanted.since)
        and (wanted.until is None or action.at < wanted.until)
    )
