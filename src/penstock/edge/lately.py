"""What came lately, so that caches keep only what comes again."""

from __future__ import annotations


class Lately:
    """Remembers hashes in a table of fixed size, each in the place that its lowest bits name. An id comes once, and
    a cache that kept it would soon hold nothing else."""

    __slots__ = ("_marks", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._marks = [0] * size

    def note(self, key: object) -> bool:
        """Whether the same has come lately; from now on it has."""
        mark = hash(key)
        place = mark % self._size
        if self._marks[place] == mark:
            return True
        self._marks[place] = mark
        return False
