"""Functions as Spark tasks, and what they fetch ahead of time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from penstock.spark.landing import ahead
from penstock.spark.tasks import in_task


def test_a_worker_is_kept_for_the_next_task(spark) -> None:
    """To start one takes as long as to write a hundred thousand rows. Those that others left idle take turns."""
    assert len({in_task(spark, os.getpid, int) for _ in range(20)}) < 20


class Parts:
    """Numbers in parts of three. It counts the parts that were begun; the one at `fails_at` cannot be."""

    def __init__(self, count: int, fails_at: int | None = None) -> None:
        self._count = count
        self._fails_at = fails_at
        self._lock = threading.Lock()
        self.begun = 0

    def __iter__(self) -> Iterator[Iterator[int]]:
        return map(self._part, range(self._count))

    def _part(self, number: int) -> Iterator[int]:
        with self._lock:
            self.begun += 1
        if number == self._fails_at:
            raise ValueError("not to be had")
        yield from range(3 * number, 3 * number + 3)


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 50])
def test_parts_come_in_their_order(parts: int) -> None:
    assert list(ahead(Parts(parts), 2)) == list(range(3 * parts))


def test_no_more_are_begun_than_asked_for() -> None:
    parts = Parts(50)
    items = ahead(parts, 2)
    assert next(items) == 0
    assert parts.begun <= 3
    assert [next(items) for _ in range(3)] == [1, 2, 3]
    assert parts.begun <= 4
    items.close()


def test_an_empty_part_is_passed_over() -> None:
    assert list(ahead([iter([1]), iter([]), iter([2, 3])], 2)) == [1, 2, 3]


def test_what_goes_wrong_is_told_in_its_turn() -> None:
    items = ahead(Parts(9, fails_at=2), 3)
    assert [next(items) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="not to be had"):
        next(items)
