"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.durations import duration, duration_within, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("500ms", 500),
        ("5 min", 300_000),
        ("1 s", 1_000),
        ("1 h 30 min", 5_400_000),
        ("2min5ms", 120_005),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        (" 2H ", 7_200_000),
        ("forever", limits.DURATION_MS),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1w", "1  s", "1s5", "1mi", "٣s", "nan", "1e3s"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like"):
        parse_duration(text)


@given(st.integers(0, limits.DURATION_MS))
def test_a_duration_reads_back_as_written(ms: int) -> None:
    assert parse_duration(duration(ms)) == ms


def test_one_that_is_out_of_bounds_is_refused_in_words() -> None:
    assert duration_within("5m", 0, 300_000) == 300_000
    with pytest.raises(ValueError, match="6m is not between 1s and 5m"):
        duration_within("6m", 1_000, 300_000)
    with pytest.raises(ValueError, match=r"0s is not between 1ms and forever \(24,855 days\)"):
        duration_within("0s", 1, limits.DURATION_MS)
