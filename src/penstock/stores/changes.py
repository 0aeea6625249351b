"""In which queues other processes may have made messages ready, as far as a store can tell."""

from __future__ import annotations

from collections.abc import Container


class AllBut:
    """The names of all queues there are or may be, but for some."""

    def __init__(self, names: Container[object]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


EVERYWHERE: Container[str] = AllBut(())
