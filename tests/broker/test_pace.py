"""How large steps are, by how long those before have taken."""

from __future__ import annotations

import time

import pytest

from penstock.broker.pace import Pace
from penstock.limits import Limits

LIMITS = Limits(step_rows=800, step_ms=2)


@pytest.fixture
def pace() -> Pace:
    return Pace(LIMITS, time.perf_counter)


def run(pace: Pace, steps: int, per_row_ms: float, fixed_ms: float = 0.0) -> list[int]:
    """How many rows each of the steps had, where every row takes so long."""
    sizes = []
    for _ in range(steps):
        rows = pace.limits("Purge").step_rows
        sizes.append(rows)
        pace.note("Purge", (fixed_ms + rows * per_row_ms) / 1_000)
    return sizes


def test_steps_that_keep_to_their_time_stay_as_they_are(pace: Pace) -> None:
    assert run(pace, 5, 0.002) == [800] * 5


def test_steps_that_take_too_long_have_half_the_rows(pace: Pace) -> None:
    assert run(pace, 8, 0.01) == [800] * 3 + [400] * 3 + [200] * 2


def test_two_that_take_far_too_long_are_enough(pace: Pace) -> None:
    assert run(pace, 10, 1.0) == [800, 800, 400, 400, 200, 200, 100, 100, 50, 50]


def test_there_is_a_least_size(pace: Pace) -> None:
    assert run(pace, 40, 1_000.0)[-1] == 800 // 64
    assert Limits(step_rows=3).divided(64).step_rows == 1


def test_one_late_step_among_good_ones_changes_nothing(pace: Pace) -> None:
    for _ in range(10):
        pace.note("Purge", 0.100)
        pace.note("Purge", 0.0015)
    assert pace.limits("Purge") == LIMITS


def test_they_grow_again(pace: Pace) -> None:
    run(pace, 40, 1.0)
    assert run(pace, 8, 0.0001)[-1] == 800
    assert pace.limits("Purge") == LIMITS


def test_where_fewer_rows_take_as_long_it_is_not_the_rows(pace: Pace) -> None:
    sizes = run(pace, 60, 0.0001, fixed_ms=10)
    assert sizes == [800] * 3 + [400] * 3 + [800] * 54


def test_each_kind_of_task_has_its_own(pace: Pace) -> None:
    run(pace, 3, 1.0)
    assert pace.limits("Purge").step_rows < 800
    assert pace.limits("StepMove") == LIMITS


def test_all_sizes_of_steps_are_divided() -> None:
    divided = LIMITS.divided(4)
    assert (divided.step_rows, divided.shipment_rows, divided.page_step_rows) == (200, 250, 125)
    assert (divided.export_count_rows, divided.listed_counts) == (2_500, 25)
    assert divided.claim_bytes == LIMITS.claim_bytes, "what a caller gets does not depend on the pace"
