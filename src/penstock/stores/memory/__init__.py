"""The reference store: the contract in plain Python, for tests and for trying things out.

Nothing of it outlives the process, so it never makes a promise about stable media.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from random import Random

from penstock import ids
from penstock.stores.features import ALL_FEATURES
from penstock.stores.memory.state import State
from penstock.stores.memory.unit import MemoryUnit
from penstock.stores.protocol import Unit

__all__ = ["MemoryStore"]


class MemoryStore:
    url = "memory://"
    features = ALL_FEATURES
    inline = True
    lanes = 1
    ahead_ms = 0

    def __init__(self, random: Random) -> None:
        self._state = State(ids.new_origin(random))
        self.secret = random.randbytes(32)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        try:
            yield MemoryUnit(self._state)
        except BaseException:
            self._state.undo()
            raise
        self._state.keep()

    def has_room(self) -> bool:
        return True

    def changed_elsewhere(self) -> Container[str]:
        return ()

    def close(self) -> None:
        pass
