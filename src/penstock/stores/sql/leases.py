"""Leases: one holder at a time for each name in a queue."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import LeaseHeld
from penstock.model import Lease
from penstock.stores.sql.session import Session

_OF_NAME = "SELECT id, holder, taken_at, until FROM lease WHERE queue = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class LeaseSql:
    find: str = _OF_NAME
    find_locked: str = f"{_OF_NAME} {{lock}}"
    add: str = "INSERT INTO lease (queue, name, holder, taken_at, until) VALUES (?, ?, ?, ?, ?) {unless_there}"
    hold: str = "UPDATE lease SET holder = ?, taken_at = ?, until = ? WHERE id = ?"
    delete: str = "DELETE FROM lease WHERE id = ?"
    over: str = "SELECT id FROM lease WHERE until <= ? ORDER BY until LIMIT ?"
    # One of them may have been taken again since.
    delete_over: str = "DELETE FROM lease WHERE {among:id} AND until <= ?"


class Leases:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(LeaseSql)

    def take(self, queue: str, name: str, holder: str, now: int, hold_ms: int) -> Lease:
        engine, sql = self._session.engine, self._sql
        number, until = self._session.queue(queue).number, now + hold_ms
        # Holders are compared here: some databases pass over spaces at their ends.
        while True:
            for lease, former, taken_at, held_until in engine.rows(sql.find_locked, (number, name)):
                is_held = now < held_until
                if is_held and former != holder:
                    raise LeaseHeld(name, former, held_until)
                since = taken_at if is_held else now
                engine.run(sql.hold, (holder, since, until, lease))
                return Lease(queue, name, holder, since, until)
            # Another server may make the same one at this moment: then this waits for it, and looks again.
            if engine.add(sql.add, (number, name, holder, now, until)):
                return Lease(queue, name, holder, now, until)

    def find(self, queue: str, name: str, now: int) -> Lease | None:
        number = self._session.queue(queue).number
        for _, holder, taken_at, until in self._session.engine.rows(self._sql.find, (number, name)):
            if now < until:
                return Lease(queue, name, holder, taken_at, until)
        return None

    def drop(self, queue: str, name: str, holder: str, now: int) -> bool:
        engine, found = self._session.engine, self._session.find_queue(queue)
        if found is None:
            return False
        for lease, held_by, _, until in engine.rows(self._sql.find_locked, (found.number, name)):
            if held_by == holder and now < until:
                return engine.run(self._sql.delete, (lease,)) > 0
        return False

    def sweep(self, now: int, limit: int) -> int:
        """Those that are over, and those of deleted queues, which have been ended."""
        engine = self._session.engine
        over = engine.rows(self._sql.over, (now, max(0, limit)))
        return engine.run(self._sql.delete_over, (engine.listed(lease for (lease,) in over), now)) if over else 0
