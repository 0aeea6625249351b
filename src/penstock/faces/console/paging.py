"""Which part of a long table is shown, and by which column it is sorted."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.faces.console.visit import Visit

T = TypeVar("T")
_MOST_PAGES = 1_000_000


@dataclass(slots=True)
class TablePage:
    """`known` is the query as it was asked, for links that change a part of it."""

    sort: str
    falling: bool
    page: int
    rows: int
    known: dict[str, str] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def of(cls, visit: Visit, sorts: Sequence[str], default: str, rows: int, falling: Container[str] = ()) -> TablePage:
        """As the query says. What it cannot mean is passed over: a link may be older than the page. The columns of
        `falling` begin with the most, unless the query says otherwise."""
        asked = visit.query
        sort = asked.get("sort", default)
        if sort not in sorts:
            sort = default
        page = asked.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) <= 7 else 1
        order = asked.get("order")
        falls = order == "falling" if order in ("falling", "rising") else sort in falling
        return cls(sort, falls, min(max(number, 1), _MOST_PAGES), rows, dict(asked))

    def cut(self, lines: Sequence[T]) -> Sequence[T]:
        """The lines of this page, or of the last one where there are fewer by now."""
        self.total = len(lines)
        self.page = min(self.page, self.pages)
        return lines[self.start : self.start + self.rows]

    @property
    def start(self) -> int:
        return (self.page - 1) * self.rows

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.rows))
