"""The reference store: the contract in plain Python, for tests and for trying things out.

Nothing of it outlives the process, so it never makes a promise about stable media.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from random import Random

from penstock import ids
from penstock.limits import Limits
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import Tables
from penstock.stores.memory.unit import MemoryUnit
from penstock.stores.protocol import Unit

__all__ = ["MemoryStore"]


class MemoryStore:
    url = "memory://"
    inline = True
    lanes = 1
    ahead_ms = 0

    def __init__(self, random: Random, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.sync_seconds = 0.0
        self._tables = Tables(ids.new_origin(random))
        self.secret = random.randbytes(32)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        try:
            self._tables.happened = {}
            yield MemoryUnit(Session(self._tables, self.limits))
        except BaseException:
            self._tables.undo()
            raise
        self._tables.keep()

    def has_room(self) -> bool:
        return True

    def tidy(self) -> None:
        pass

    def changed_elsewhere(self) -> Container[str]:
        return ()

    def close(self) -> None:
        pass
