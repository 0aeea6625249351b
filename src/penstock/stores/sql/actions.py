"""The log of actions: who has done what, the latest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from penstock.model import Action, ActionFilter, ActionKind, Actor
from penstock.stores.sql.session import Session

# An action at any time at all was done in between.
_FIRST, _LAST = 0, 2**62
_COLUMNS = "acted_at, api_key, via, what, queue_name, amount, detail"
# What a filter may name, as columns.
_NAMED = ("queue_name", "api_key", "what")


def _page(named: Sequence[str]) -> str:
    """Of the actions for which each of these columns has a value that is given."""
    conditions = "".join(f"{column} = ? AND " for column in named)
    return f"""
        SELECT number, {_COLUMNS} FROM action
        WHERE {conditions}number >= ? AND number < ? AND acted_at >= ? AND acted_at < ?
        ORDER BY number DESC LIMIT ?"""


def _pages() -> tuple[str, ...]:
    """For every choice of columns, in the order of `_place`."""
    chosen = product((False, True), repeat=len(_NAMED))
    return tuple(_page([column for column, wanted in zip(_NAMED, choice, strict=True) if wanted]) for choice in chosen)


def _place(values: Sequence[str | None]) -> int:
    return sum(1 << at for at, value in enumerate(reversed(values)) if value is not None)


@dataclass(frozen=True, slots=True)
class ActionSql:
    add: str = f"INSERT INTO action ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    pages: tuple[str, ...] = _pages()
    first_since: str = "SELECT number FROM action WHERE acted_at >= ? ORDER BY acted_at, number LIMIT 1"
    last_until: str = "SELECT number FROM action WHERE acted_at < ? ORDER BY acted_at DESC, number DESC LIMIT 1"
    old: str = "SELECT number FROM action WHERE acted_at < ? ORDER BY acted_at, number LIMIT ?"
    delete: str = "DELETE FROM action WHERE {among:number}"


class Actions:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(ActionSql)

    def record(
        self,
        by: Actor,
        what: ActionKind,
        now: int,
        queue: str | None = None,
        count: int | None = None,
        detail: str | None = None,
    ) -> None:
        self._session.engine.run(self._sql.add, (now, by.key, by.via, what.value, queue, count, detail))

    def list(self, before: int | None, limit: int, wanted: ActionFilter | None = None) -> Sequence[Action]:
        wanted = wanted or ActionFilter()
        engine, disorder_ms = self._session.engine, self._session.limits.ledger_disorder_ms
        first, end = 0, _LAST if before is None else before
        since, until = _FIRST, _LAST
        # By time alone, all that was done later or earlier would be read, too.
        if wanted.since is not None:
            since = wanted.since
            rows = engine.rows(self._sql.first_since, (since - disorder_ms,))
            first = rows[0][0] if rows else _LAST
        if wanted.until is not None:
            until = wanted.until
            rows = engine.rows(self._sql.last_until, (until + disorder_ms,))
            end = min(end, rows[0][0] + 1) if rows else 0
        values = (wanted.queue, wanted.key, None if wanted.what is None else wanted.what.value)
        params = [value for value in values if value is not None]
        return [
            Action(number, at, key, via, ActionKind(what), queue, count, detail)
            for number, at, key, via, what, queue, count, detail in engine.rows(
                self._sql.pages[_place(values)], (*params, first, end, since, until, limit)
            )
        ]

    def sweep(self, before: int, limit: int) -> int:
        """Delete those that were done before an instant, the oldest first."""
        engine = self._session.engine
        if limit <= 0 or before <= 0:
            return 0
        old = [number for (number,) in engine.rows(self._sql.old, (before, limit))]
        return engine.run(self._sql.delete, (engine.listed(old),)) if old else 0
