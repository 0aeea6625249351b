from __future__ import annotations

import pytest

from penstock.spark.report.axis import DAY_MS
from penstock.spark.report.changes import called, changes, counts, durations, shares
from penstock.spark.report.tables import Days, Figure

MIDNIGHT = 1_791_504_000_000


@pytest.mark.parametrize(
    ("before", "now", "arrow", "words"),
    [
        (0, 0, "=", "the same"), (100, 100, "=", "the same"), (1000, 1004, "=", "about the same"),
        (100, 112, "▲", "12 % more"), (100, 92, "▼", "8 % fewer"), (1000, 1008, "▲", "0.8 % more"),
        (100, 340, "▲", "3.4 times as many"), (1, 1200, "▲", "1,200 times as many"), (1000, 1, "▼", "99.9 % fewer"),
        (0, 5, "▲", "none the day before"), (5, 0, "▼", "none any more"),
    ],
)  # fmt: skip
def test_counts_are_compared_in_words(before: int, now: int, arrow: str, words: str) -> None:
    change = counts("finished", before, now)
    assert (change.arrow, change.words, change.tone) == (arrow, words, "neither")


@pytest.mark.parametrize(
    ("before", "now", "tone"),
    [(10, 10, "neither"), (100, 105, "neither"), (10, 12, "worse"), (10, 8, "better"), (0, 1, "worse")],
)  # fmt: skip
def test_more_that_is_lost_is_worse(before: int, now: int, tone: str) -> None:
    assert counts("lost", before, now, bad=True).tone == tone


@pytest.mark.parametrize(
    ("before", "now", "arrow", "words", "tone"),
    [
        (100.0, 104.0, "=", "about the same", "neither"), (100.0, 108.0, "▲", "8 % longer", "neither"),
        (100.0, 150.0, "▲", "50 % longer", "worse"), (100.0, 40.0, "▼", "60 % shorter", "better"),
        (100.0, 250.0, "▲", "2.5 times as long", "worse"), (0.0, 0.0, "=", "the same", "neither"),
        (0.0, 30.0, "▲", "30 times as long", "worse"), (None, 3.0, "=", "nothing to compare", "neither"),
        (3.0, None, "=", "nothing to compare", "neither"),
    ],
)  # fmt: skip
def test_durations_are_longer_or_shorter(
    before: float | None, now: float | None, arrow: str, words: str, tone: str
) -> None:
    change = durations("wait p95", before, now)
    assert (change.arrow, change.words, change.tone) == (arrow, words, tone)


@pytest.mark.parametrize(
    ("before", "now", "words", "tone"),
    [
        (0.01, 0.01, "the same", "neither"), (0.01, 0.0104, "about the same", "neither"),
        (0.01, 0.013, "0.3 points more", "neither"), (0.01, 0.02, "1 point more", "worse"),
        (0.5, 0.1, "40 points less", "better"), (None, 0.1, "nothing to compare", "neither"),
    ],
)  # fmt: skip
def test_shares_differ_by_points(before: float | None, now: float, words: str, tone: str) -> None:
    change = shares("handed out again", before, now)
    assert (change.words, change.tone) == (words, tone)


def test_a_queue_that_had_nothing_on_one_day_is_compared_all_the_same() -> None:
    now = Figure(finished=3, outcomes={"processed": 2, "expired": 1}, latency=(1, 2, 3))
    found = {it.what: it for it in changes(Figure(), now)}
    assert (found["finished"].now, found["finished"].before) == ("3", "0")
    assert (found["latency p99"].now, found["latency p99"].before) == ("3 ms", "–")
    assert found["lost"].words == "none the day before"


def test_it_says_which_parts_of_which_days() -> None:
    assert called(Days(MIDNIGHT, MIDNIGHT + DAY_MS, {})) == "Friday 2026-10-09 and Thursday 2026-10-08, whole days, UTC"
    part = called(Days(MIDNIGHT, MIDNIGHT + 36_000_000, {}))
    assert part == "Friday 2026-10-09 and Thursday 2026-10-08, each until 10:00:00 UTC"
