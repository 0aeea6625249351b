"""What the verbs need of a database driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class Engine(Protocol):
    """One open transaction on one connection. Errors of the driver come out as `penstock.errors`."""

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]: ...

    def rows_within(self, sql: str, params: Sequence[object], column: int, budget: int) -> list[Row]:
        """The first rows, until the lengths of one column come to `budget`. The others are never read."""

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        """Execute, and say how many rows were changed."""

    def many(self, sql: str, params: Iterable[Sequence[object]]) -> None:
        """Execute once for each row of parameters."""
