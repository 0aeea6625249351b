from __future__ import annotations

import pytest

from penstock.spark.report.axis import HOUR_MS, Axis
from penstock.spark.report.scales import (
    count_scale,
    duration,
    duration_scale,
    number,
    per_cent,
    share_scale,
    time_ticks,
)

EIGHT = 1_791_532_800_000


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (95, ["0", "25", "50", "75", "100"]),
        (8340, ["0", "2,500", "5,000", "7,500", "10k"]),
        (1_900_000, ["0", "500k", "1M", "1.5M", "2M"]),
    ],
)
def test_counts_are_labelled_in_round_steps(largest: int, labels: list[str]) -> None:
    scale = count_scale([0, largest])
    assert [label for _, label in scale.ticks] == labels
    assert 0 <= scale.place(largest) <= 1


def test_a_share_of_nothing_has_a_scale_too() -> None:
    assert share_scale([0.0]).place(0.0) == 0
    assert [label for _, label in share_scale([0.11]).ticks] == ["0 %", "5 %", "10 %", "15 %"]


@pytest.mark.parametrize("values", [[0], [1], [0.4], [5, 70_000], [1000], [10**11], []])
def test_every_duration_lies_on_its_scale(values: list[float]) -> None:
    scale = duration_scale(values)
    assert scale.low < scale.high
    assert all(0 <= scale.place(value) <= 1 for value in values)
    assert len(scale.ticks) >= 1


def test_a_duration_scale_goes_by_what_people_count_in() -> None:
    assert [label for _, label in duration_scale([30, 700_000]).ticks] == [
        "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h",
    ]  # fmt: skip


def test_a_day_is_labelled_by_the_clock_and_at_midnight_by_the_date() -> None:
    labels = [label for _, label in time_ticks(Axis(EIGHT, HOUR_MS, 24))]
    assert labels == ["12:00", "18:00", "Oct 10", "06:00"]


@pytest.mark.parametrize("count", [1, 2, 24, 168])
@pytest.mark.parametrize("width", [1000, 60_000, HOUR_MS, 24 * HOUR_MS])
def test_labels_have_room(count: int, width: int) -> None:
    start = EIGHT // width * width
    ticks = time_ticks(Axis(start, width, count))
    assert ticks
    assert len(ticks) <= 8
    assert all(0 <= place < 1 for place, _ in ticks)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"), (0, "0 ms"), (12.4, "12 ms"), (999.6, "1 s"), (1499, "1.5 s"), (59_990, "1 min 0 s"),
        (61_000, "1 min 1 s"), (3_660_000, "1 h 1 min"), (90_000_000, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_duration_is_said_in_a_few_digits(ms: float | None, text: str) -> None:
    assert duration(ms) == text


def test_numbers_are_short() -> None:
    assert [number(it) for it in (0, 999, 1500, 20_000, 3_500_000, 2e9)] == ["0", "999", "1,500", "20k", "3.5M", "2G"]
    assert [per_cent(it) for it in (None, 0.0, 0.0123, 0.5, 1.0)] == ["–", "0 %", "1.23 %", "50 %", "100 %"]
