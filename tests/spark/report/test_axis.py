from __future__ import annotations

import pytest

from penstock.spark.report.axis import HOUR_MS, MOST_STRETCHES, Axis, make_axis

EIGHT = 1_791_532_800_000
DAY = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("span", "unit"),
    [
        (0, "second"),
        (40_000, "second"),
        (HOUR_MS, "minute"),
        (5 * HOUR_MS, "5 minutes"),
        (DAY, "hour"),
        (6 * DAY, "hour"),
        (30 * DAY, "6 hours"),
        (365 * DAY, "3 days"),
        (20 * 365 * DAY, "44 days"),
    ],
)
def test_a_longer_time_has_wider_stretches(span: int, unit: str) -> None:
    axis = make_axis(EIGHT, EIGHT + span)
    assert axis.unit == unit
    assert axis.count <= MOST_STRETCHES


@pytest.mark.parametrize("span", [0, 1, 999, 71_999, 72_001, 6 * HOUR_MS, 6 * HOUR_MS + 1, 7 * DAY, 8 * DAY, 400 * DAY])
def test_both_ends_are_on_the_axis(span: int) -> None:
    axis = make_axis(EIGHT + 17, EIGHT + 17 + span)
    assert axis.start_ms <= EIGHT + 17 < axis.start_ms + axis.width_ms
    assert axis.end_ms - axis.width_ms <= EIGHT + 17 + span < axis.end_ms
    assert axis.start_ms % axis.width_ms == 0


def test_a_stretch_says_when_it_is() -> None:
    assert Axis(EIGHT, HOUR_MS, 3).called(1) == "2026-10-09 09:00 – 10:00"
    assert Axis(EIGHT, 1000, 3).called(2) == "2026-10-09 08:00:02 – 08:00:03"
    assert Axis(EIGHT - 8 * HOUR_MS, DAY, 3).called(1) == "2026-10-10"
