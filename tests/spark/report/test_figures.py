from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from penstock.spark.report import figures
from penstock.spark.report.axis import HOUR_MS, make_axis
from penstock.spark.report.tables import Series, series_of
from tests.spark.report.conftest import EIGHT, HOUR, MINUTE, Row, row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ledger = Callable[[Sequence[Row]], "DataFrame"]


def told(frame: DataFrame, hours: int, names: Sequence[str] | None = None) -> dict[str | None, Series]:
    axis = make_axis(EIGHT, EIGHT + hours * HOUR - 1, HOUR_MS)
    found = figures.figures(figures.histogram(frame, axis), names).collect()
    return series_of((it.asDict() for it in found), axis.count)


def test_what_is_sent_and_what_finishes_is_counted_in_its_hour(ledger: Ledger) -> None:
    frame = ledger([row(1), row(2, 59 * MINUTE, wait=2 * MINUTE), row(3, HOUR, wait=HOUR), row(4, queue="other")])
    jobs = told(frame, 3)["jobs"]
    assert [it.sent for it in jobs.stretches] == [2, 1, 0]
    assert [it.finished for it in jobs.stretches] == [1, 1, 1]
    assert [it.backlog for it in jobs.stretches] == [1, 1, 0]
    assert (jobs.whole.sent, jobs.whole.finished) == (3, 3)


def test_the_backlog_stays_through_an_hour_in_which_nothing_happens(ledger: Ledger) -> None:
    jobs = told(ledger([row(1), row(2, wait=3 * HOUR)]), 4)["jobs"]
    assert [it.backlog for it in jobs.stretches] == [1, 1, 1, 0]


def test_percentiles_are_right_within_the_accuracy_they_claim(ledger: Ledger) -> None:
    frame = ledger([row(number, wait=number * 37, handling=number * 11) for number in range(1, 1001)])
    whole = told(frame, 1)["jobs"].whole
    assert whole.wait == pytest.approx((500 * 37, 950 * 37, 990 * 37), rel=figures.ACCURACY + 0.002)
    assert whole.handling == pytest.approx((500 * 11, 950 * 11, 990 * 11), rel=figures.ACCURACY + 0.002)


@pytest.mark.parametrize("wait", [0, 1, 2, 3, 8, 16, 20])
def test_a_few_milliseconds_are_exact(ledger: Ledger, wait: int) -> None:
    assert told(ledger([row(1, wait=wait)]), 1)["jobs"].whole.wait == (wait, wait, wait)


def test_wait_belongs_to_the_hour_of_the_send_and_handling_to_that_of_the_finish(ledger: Ledger) -> None:
    jobs = told(ledger([row(1, wait=HOUR, handling=16)]), 2)["jobs"]
    first, second = jobs.stretches
    assert first.wait == pytest.approx((HOUR,) * 3, rel=figures.ACCURACY)
    assert (first.handling, second.handling, second.wait) == (None, (16, 16, 16), None)


def test_outcomes_redeliveries_and_dead_letters_are_told_apart(ledger: Ledger) -> None:
    rows = [row(number, outcome=outcome) for number, outcome in enumerate(figures.OUTCOMES)]
    rows += [row(10, receives=2), row(11, receives=5, outcome="dead-lettered")]
    whole = told(ledger(rows), 1)["jobs"].whole
    assert whole.outcomes == dict.fromkeys(figures.OUTCOMES, 1) | {"processed": 2, "dead-lettered": 2}
    assert (whole.finished, whole.redelivered, whole.dead_lettered) == (9, 2, 2)
    assert whole.rate(whole.redelivered) == pytest.approx(2 / 9)


def test_an_outcome_of_a_later_version_still_counts_as_finished(ledger: Ledger) -> None:
    whole = told(ledger([row(1, outcome="vanished")]), 1)["jobs"].whole
    assert (whole.finished, whole.outcomes) == (1, {})


def test_a_message_that_nobody_claimed_has_neither_wait_nor_handling(ledger: Ledger) -> None:
    whole = told(ledger([row(1, wait=None, outcome="expired")]), 1)["jobs"].whole
    assert (whole.wait, whole.handling, whole.finished) == (None, None, 1)


def test_how_long_a_dead_letter_was_claimed_is_no_handling(ledger: Ledger) -> None:
    assert told(ledger([row(1, outcome="dead-lettered")]), 1)["jobs"].whole.handling is None


def test_what_was_sent_before_the_axis_begins_is_backlog(ledger: Ledger) -> None:
    jobs = told(ledger([row(1, -5 * HOUR, finished=30 * MINUTE), row(2)]), 1)["jobs"]
    assert (jobs.opening, jobs.whole.sent, jobs.whole.finished) == (1, 1, 2)
    assert [it.backlog for it in jobs.stretches] == [0]


def test_clocks_that_disagree_do_no_harm(ledger: Ledger) -> None:
    assert told(ledger([row(1, wait=-500, finished=HOUR // 2)]), 1)["jobs"].whole.wait == (0, 0, 0)


def test_queues_that_are_not_told_are_one(ledger: Ledger) -> None:
    frame = ledger([row(1), row(2, queue="b", wait=2000), row(3, queue="c", wait=4000)])
    found = told(frame, 1, ["jobs"])
    assert set(found) == {None, "jobs", figures.OTHERS}
    assert found[figures.OTHERS].whole.finished == 2
    assert found[None].whole.finished == 3
    assert found[None].whole.wait == pytest.approx((2000, 3800, 3960), rel=figures.ACCURACY)


def test_only_what_has_a_part_in_the_time_asked_for(ledger: Ledger) -> None:
    frame = ledger([row(1), row(2, 2 * HOUR), row(3, wait=5 * HOUR), row(4, 6 * HOUR), row(5, 2 * HOUR, queue="b")])
    kept = figures.within(frame, EIGHT + HOUR, EIGHT + 3 * HOUR, "jobs")
    assert sorted(it.number for it in kept.collect()) == [2, 3]


def test_totals_name_the_largest_queues(ledger: Ledger) -> None:
    frame = ledger([row(1, queue="a"), *(row(number, queue="b") for number in (2, 3)), row(4, HOUR, queue="c")])
    [total] = figures.totals(frame, 2).collect()
    assert (total.messages, total.distinct, [it.queue for it in total.queues]) == (4, 3, ["b", "a"])
    assert (total.sent_from, total.finished_from) == (EIGHT, EIGHT + 1100)
    assert total.finished_to == EIGHT + HOUR + 1100


def test_totals_of_nothing(ledger: Ledger) -> None:
    [total] = figures.totals(ledger([]), 2).collect()
    assert (total.messages, total.distinct, total.queues) == (0, 0, [])


def test_the_slowest_are_processed_ones_and_the_most_retried_any(ledger: Ledger) -> None:
    rows = [row(number, wait=number * 1000) for number in range(1, 6)]
    rows += [row(6, wait=HOUR, outcome="dead-lettered", receives=3), row(7, receives=2), row(8, receives=3)]
    [found] = figures.extremes(ledger(rows), 3).collect()
    assert list(found.slowest) == [5, 4, 3]
    assert list(found.retried) == [6, 8, 7]


def test_rows_are_looked_up_with_the_beginning_of_their_body(ledger: Ledger) -> None:
    frame = ledger([row(1, body=b"0123456789"), row(2), row(3)])
    found = {it.number: it for it in figures.looked_up(frame, [1, 3], 4).collect()}
    assert set(found) == {1, 3}
    assert (bytes(found[1].body), found[1].sent_at, found[3].body) == (b"0123", EIGHT, None)
