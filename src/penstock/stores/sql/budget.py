"""How much a claim may take, by the length of the bodies: what ends a shipment that is claimed by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import body_in


class Budget:
    """How many bytes are left for the bodies that a claim takes, and only measures. The first one is taken however long
    it is: `has_some` says that it was, perhaps by an earlier claim. It `is_spent` when the next one is too much."""

    __slots__ = ("_has_some", "_left", "is_spent")

    def __init__(self, left: int, has_some: bool) -> None:
        self._left = left
        self._has_some = has_some
        self.is_spent = False

    def covers(self, size: int) -> bool:
        """Whether bodies of this length leave some of it."""
        return size < self._left

    def spend(self, rows: Sequence[Row]) -> None:
        if rows:
            self._left -= sum(map(body_in, rows))
            self._has_some = True
            self.is_spent = self.is_spent or self._left <= 0

    def affordable(self, rows: list[Row], is_delivered: Callable[[Row], bool]) -> list[Row]:
        """Those before the first that would be delivered and is too much. Those that would not cost nothing."""
        left, has_some = self._left, self._has_some
        for place, row in enumerate(rows):
            if is_delivered(row):
                size: int = body_in(row)
                if has_some and size > left:
                    return rows[:place]
                left, has_some = left - size, True
                if left <= 0:
                    return rows[: place + 1]
        return rows


def is_spent(budget: Budget | None) -> bool:
    return budget is not None and budget.is_spent
