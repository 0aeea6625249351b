from __future__ import annotations

import pytest

from penstock.spark.report.axis import HOUR_MS, Axis
from penstock.spark.report.strips import LEVELS, bounds_for, labels, level, levels, strip

EIGHT = 1_791_532_800_000


@pytest.mark.parametrize("values", [[], [None], [5], [0, 10**12], [1, 2, 2.5], [40, 70_000], [0.4, 999]])
def test_every_value_has_a_level_and_the_longest_the_darkest(values: list[float | None]) -> None:
    bounds = bounds_for(values)
    known = [it for it in values if it is not None]
    assert len(bounds) < LEVELS
    assert all(1 <= level(it, bounds) <= LEVELS for it in known)
    assert not known or level(max(known), bounds) == LEVELS
    assert len(levels(bounds)) == (len(bounds) + 1 if bounds else 0)


def test_levels_say_what_they_mean() -> None:
    assert levels(bounds_for([400, 70_000])) == [
        (1, "under 1 s"), (2, "from 1 s"), (3, "from 3 s"), (4, "from 10 s"), (5, "from 30 s"), (6, "from 1 min"),
    ]  # fmt: skip


def test_a_cell_says_its_value_and_the_worst_is_found() -> None:
    found = strip([5, None, 2000], Axis(EIGHT, HOUR_MS, 3), [1000])
    assert found.cells == [
        (0, LEVELS - 1, "2026-10-09 08:00 – 09:00 UTC\n5 ms"), (2, LEVELS, "2026-10-09 10:00 – 11:00 UTC\n2 s"),
    ]  # fmt: skip
    assert found.worst == 2
    assert strip([None], Axis(EIGHT, HOUR_MS, 1), []).worst is None


def test_no_label_sticks_out() -> None:
    assert all(0 <= place < 94 for place, _ in labels(Axis(EIGHT, HOUR_MS, 168)))
