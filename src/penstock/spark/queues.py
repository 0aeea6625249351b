"""Which queues a stream reads: those with the names it gives, and those that fit its patterns, new ones included.

`*` in a pattern is any characters, as in the rules of API keys. A pattern never means a dead-letter queue: those who
want one say its name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from penstock import limits, names
from penstock.client import Client
from penstock.keys import fits

# How old the list of the queues that fit may be.
_LISTED_S = 1.0


class Queues:
    def __init__(self, words: tuple[str, ...]) -> None:
        self._patterns = tuple(word for word in words if "*" in word)
        self._named = tuple(word for word in words if "*" not in word)
        self._found: tuple[str, ...] = ()
        self._listed_at: float | None = None
        self._is_fixed = False

    @property
    def only(self) -> str | None:
        """The name of the one queue, where there can be no other."""
        return self._named[0] if len(self._named) == 1 and not self._patterns else None

    def list(self, client: Client) -> tuple[str, ...]:
        """By name."""
        now = time.monotonic()
        if not self._patterns:
            self._found = tuple(sorted(self._named))
        elif self._listed_at is None or not (self._is_fixed or now - self._listed_at < _LISTED_S):
            self._found = tuple(sorted({*self._named, *self._fitting(client)}))
            self._listed_at = now
        return self._found

    def fix(self, client: Client) -> tuple[str, ...]:
        """From now on these are all: what is made later does not keep a query from ending."""
        self._listed_at = None
        self._is_fixed = True
        return self.list(client)

    def _fitting(self, client: Client) -> Iterator[str]:
        for pattern in self._patterns:
            part = max(pattern.split("*"), key=len)
            offset = 0
            while True:
                page = client.overview("name", contains=part, offset=offset, limit=limits.LIST_LIMIT)
                for row in page.rows:
                    if fits(pattern, row.name) and names.is_valid(row.name) and not row.takes_dead_letters:
                        yield row.name
                offset += len(page.rows)
                if not page.rows or offset >= page.total:
                    break
