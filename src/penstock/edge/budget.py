"""How many bytes the bodies of all clients may hold at once.

Only a body that comes in several pieces is counted, from its second piece on and until it is answered: most
requests never meet this object. What is not there is refused, not waited for. A body that waited would keep what it
has, and bodies that wait for one another could all wait for ever.
"""

from __future__ import annotations

# A body up to this long may take the last eighth as well, so that large ones, however slowly they come, leave room.
_SMALL = 1 << 16


class BodyBudget:
    __slots__ = ("_limit", "_limit_of_large", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limit_of_large = limit - limit // 8
        self.held = 0

    def grow(self, size: int, more: int) -> bool:
        """Whether a body that is now `size` bytes long may have the last `more` of them."""
        if self.held + more > (self._limit if size <= _SMALL else self._limit_of_large):
            return False
        self.held += more
        return True

    def free(self, size: int) -> None:
        self.held -= size
