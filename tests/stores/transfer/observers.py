"""Observers of a transfer that step in at a chosen moment, and the sizes that make for many moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.stores.transfer.side import Paging

SMALL = Paging(page_rows=4, page_bytes=2_000, fewest_rows=2, span_rows=3)


class Quiet:
    """An observer that does something at one of the steps, if asked to."""

    def __init__(self, at: int | str | None = None, act: Callable[[], object] | None = None) -> None:
        self.said: list[str] = []
        self._at = at
        self._act = act
        self._steps = 0
        self._acted = False

    def say(self, text: str) -> None:
        self._step(text)

    @contextmanager
    def task(self, doing: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        assert 0 <= done <= total
        self._step(doing)

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self._step("row")

        yield advance
        assert done == total or self._acted

    def _step(self, text: str) -> None:
        self.said.append(text)
        self._steps += 1
        if self._act is not None and not self._acted and self._at in (self._steps, text):
            self._acted = True
            self._act()


class Died(Exception):
    pass


def die() -> None:
    raise Died
