"""Leases."""

from __future__ import annotations

from penstock.errors import LeaseHeld
from penstock.model import Lease
from penstock.stores.memory.session import Session


class MemoryLeases:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def take(self, queue: str, name: str, holder: str, now: int, hold_ms: int) -> Lease:
        held = self.find(queue, name, now)
        if held is not None and held.holder != holder:
            raise LeaseHeld(name, held.holder, held.until)
        lease = Lease(queue, name, holder, now if held is None else held.taken_at, now + hold_ms)
        place = self._session.queue(queue).number, name
        self._tables.replace("leases", {**self._tables.leases, place: lease})
        return lease

    def find(self, queue: str, name: str, now: int) -> Lease | None:
        lease = self._tables.leases.get((self._session.queue(queue).number, name))
        return lease if lease is not None and now < lease.until else None

    def drop(self, queue: str, name: str, holder: str, now: int) -> bool:
        if self._session.find_queue(queue) is None:
            return False
        held = self.find(queue, name, now)
        if held is None or held.holder != holder:
            return False
        self._forget([(self._session.queue(queue).number, name)])
        return True

    def sweep(self, now: int, limit: int) -> int:
        leases, queues = self._tables.leases, self._tables.queues
        over = [place for place, lease in leases.items() if lease.until <= now or queues[place[0]].deleted]
        over = over[: max(0, limit)]
        self._forget(over)
        return len(over)

    def _forget(self, places: list[tuple[int, str]]) -> None:
        kept = {place: lease for place, lease in self._tables.leases.items() if place not in places}
        self._tables.replace("leases", kept)
