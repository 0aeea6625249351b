"""A store that fails where a test tells it to: before a unit, or at its very end, when it has happened all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import StoreUnavailable
from penstock.gq import Client
from penstock.stores import Store, Unit


class FaultyStore:
    """`before` and `after` are how many units that write are still to fail in each way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before = 0
        self.after = 0
        self.units = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        if write and self.before:
            self.before -= 1
            raise StoreUnavailable("the test says that the database is away")
        with self._store.unit(write) as unit:
            yield unit
        if write:
            self.units += 1
            if self.after:
                self.after -= 1
                raise StoreUnavailable("the test says that it is unknown whether it was stored")


def make_faulty(client: Client) -> FaultyStore:
    faulty = FaultyStore(client._access._store)
    client._access._store = faulty
    return faulty
