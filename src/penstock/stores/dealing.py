"""What becomes of messages that a caller names, one by one: the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock import limits
from penstock.model import Dealing


class Nameable(Protocol):
    """A message as far as it takes to deal with it."""

    @property
    def seq(self) -> int: ...

    @property
    def ready_at(self) -> int: ...


Row = TypeVar("Row", bound=Nameable)


def deal(rows: Sequence[Row | None], do: Callable[[Sequence[Row]], set[int]]) -> list[Dealing]:
    """Do something to those of these messages that are there and in no shipment, by age. `do` returns the numbers of
    those to which it was done; the others have no home. A message named twice is missing the second time."""
    free: dict[int, Row] = {}
    for row in rows:
        if row is not None and row.ready_at != limits.SHIPPED:
            free[row.seq] = row
    done = do([row for _, row in sorted(free.items())])
    dealings: list[Dealing] = []
    for row in rows:
        if row is not None and row.ready_at == limits.SHIPPED:
            dealings.append(Dealing.SHIPPED)
        elif row is None or free.pop(row.seq, None) is None:
            dealings.append(Dealing.MISSING)
        else:
            dealings.append(Dealing.DONE if row.seq in done else Dealing.HOMELESS)
    return dealings
