from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.spark.report import figures
from penstock.spark.report.axis import HOUR_MS, make_axis
from penstock.spark.report.tables import Cause, Series, days_of, series_of
from tests.spark.report.conftest import EIGHT, HOUR, MINUTE, Row, row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ledger = Callable[[Sequence[Row]], "DataFrame"]


def told(frame: DataFrame, hours: int, names: Sequence[str] | None = None) -> dict[str | None, Series]:
    axis = make_axis(EIGHT, EIGHT + hours * HOUR - 1, HOUR_MS)
    names = ["jobs", "other"] if names is None else names
    found = figures.figures(figures.histogram(frame, axis, names), axis, names).collect()
    return series_of((it.asDict() for it in found), axis)


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


def test_of_messages_of_one_size_the_largest_are_the_first(ledger: Ledger) -> None:
    rows = [row(number, body=b"x" * (9 if number == 7 else 5)) for number in range(1, 9)]
    [found] = figures.extremes(ledger(rows).repartition(4), 3).collect()
    assert list(found.largest) == [7, 1, 2]


def test_the_oldest_is_the_first_sent_of_what_is_still_there(ledger: Ledger) -> None:
    rows = [row(1, wait=3 * HOUR), row(2, HOUR, wait=90 * MINUTE), row(3, 5 * HOUR)]
    jobs = told(ledger(rows), 6)["jobs"]
    assert [it.oldest for it in jobs.stretches] == [HOUR, 2 * HOUR, 3 * HOUR, None, None, None]


def test_what_is_there_at_the_end_of_the_time_asked_for_has_an_age_too(ledger: Ledger) -> None:
    axis = replace(make_axis(EIGHT, EIGHT + 2 * HOUR - 1, HOUR_MS), until_ms=EIGHT + 90 * MINUTE)
    counts = figures.histogram(ledger([row(1, wait=80 * MINUTE), row(2, HOUR, wait=50 * MINUTE)]), axis, ["jobs"])
    found = series_of((it.asDict() for it in figures.figures(counts, axis, ["jobs"]).collect()), axis)["jobs"]
    assert [(it.finished, it.backlog, it.oldest) for it in found.stretches] == [(0, 1, HOUR), (1, 1, 30 * MINUTE)]


def test_deliveries_after_the_first_and_bytes_are_summed_up(ledger: Ledger) -> None:
    rows = [row(1, receives=4, body=b"abc"), row(2, receives=2, queue="other"), row(3, wait=None), row(4, body=b"x")]
    found = told(ledger(rows), 1)
    assert (found[None].whole.redelivered, found[None].whole.redeliveries, found[None].whole.bytes) == (2, 4, 4)
    assert (found["jobs"].whole.redeliveries, found["jobs"].stretches[0].bytes) == (3, 4)


def test_latency_is_of_processed_messages_from_send_to_ack(ledger: Ledger) -> None:
    rows = [row(1, wait=10, handling=4), row(2, wait=10, handling=99, outcome="failed")]
    assert told(ledger(rows), 1)["jobs"].whole.latency == (14, 14, 14)


def test_what_was_sent_before_the_time_that_is_shown_has_no_part_in_its_wait(ledger: Ledger) -> None:
    assert told(ledger([row(1, -5 * HOUR, wait=5 * HOUR), row(2, wait=8)]), 1)["jobs"].whole.wait == (8, 8, 8)


def test_a_message_that_finished_before_it_was_sent_makes_no_backlog(ledger: Ledger) -> None:
    jobs = told(ledger([row(1, 2 * HOUR, wait=0, finished=30 * MINUTE)]), 3)["jobs"]
    assert [it.backlog for it in jobs.stretches] == [0, 0, 0]


def test_two_days_are_compared_up_to_the_same_time(ledger: Ledger) -> None:
    midnight = EIGHT - 8 * HOUR
    rows = [
        row(1, -24 * HOUR, wait=10), row(2, -23 * HOUR, wait=12), row(3, wait=14, receives=2),
        row(4, HOUR, wait=16), row(5, -48 * HOUR),
    ]  # fmt: skip
    found = days_of(
        (it.asDict() for it in figures.days(ledger(rows), midnight, EIGHT + 30 * MINUTE, ["jobs"]).collect()),
        midnight,
        EIGHT,
    )
    before, now = found.pairs["jobs"]
    assert (before.finished, before.wait, before.redelivered) == (1, (10, 10, 10), 0)
    assert (now.finished, now.wait, now.redelivered) == (1, (14, 14, 14), 1)
    assert found.pairs[None] == found.pairs["jobs"]


def test_causes_are_counted_by_all_that_the_ledger_tells(ledger: Ledger) -> None:
    rows = [row(number, outcome="dead-lettered", receives=5) for number in range(1, 4)]
    rows += [
        row(4, wait=None, outcome="expired"),
        row(5, outcome="failed", receives=40),
        row(6),
        row(7, outcome="moved"),
    ]
    found = [Cause(**it.asDict()) for it in figures.causes(ledger(rows), 10).collect()]
    assert [(it.messages, it.outcome, it.why) for it in found] == [
        (3, "dead-lettered", "handed out 5 times and not acked"),
        (1, "expired", "past the queue's retention, never handed out"),
        (1, "failed", "past its deadline, handed out more than 10 times"),
    ]
    assert (found[0].first_at, found[0].content_type) == (EIGHT + 1100, "text/plain")
    assert len(figures.causes(ledger(rows), 2).collect()) == 2


def test_the_archive_is_known_up_to_its_last_export(ledger: Ledger) -> None:
    early = row(1, -24 * HOUR)
    assert figures.known_to(ledger([early])).collect()[0].known_to == EIGHT
    assert figures.known_to(ledger([(*early[:-1], None)])).collect()[0].known_to == EIGHT - 24 * HOUR + 1101
    assert figures.known_to(ledger([])).collect()[0].known_to is None


def test_rows_are_looked_up_with_the_beginning_of_their_body(ledger: Ledger) -> None:
    frame = ledger([row(1, body=b"0123456789"), row(2), row(3)])
    found = {it.number: it for it in figures.looked_up(frame, [1, 3], 4).collect()}
    assert set(found) == {1, 3}
    assert (bytes(found[1].body), found[1].sent_at, found[3].body) == (b"0123", EIGHT, None)
