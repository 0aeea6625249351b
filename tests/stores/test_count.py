from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.model import Backoff, Count, Draft


def test_an_empty_queue(verbs):
    verbs.create()
    assert verbs.count() == Count(total=0, ready=0, delayed=0, claimed=0, exact=True, oldest_sent_at=None)


def test_by_state(verbs):
    verbs.create()
    verbs.send(b"claimed", b"ready", b"ready", Draft(b"delayed", delay_ms=100))
    verbs.claim(limit=1)
    assert verbs.count() == Count(
        total=4, ready=2, delayed=1, claimed=1, exact=True, oldest_sent_at=verbs.now, oldest_ready_sent_at=verbs.now
    )


def test_what_has_run_out_is_ready_before_any_claim_says_so(verbs):
    verbs.create()
    verbs.send(b"claimed", Draft(b"delayed", delay_ms=20))
    verbs.claim(hold_ms=10)
    verbs.now += 9
    assert (verbs.count().ready, verbs.count().delayed, verbs.count().claimed) == (0, 1, 1)
    verbs.now += 1
    assert (verbs.count().ready, verbs.count().delayed, verbs.count().claimed) == (1, 1, 0)
    verbs.now += 10
    assert (verbs.count().ready, verbs.count().delayed, verbs.count().claimed) == (2, 0, 0)


def test_a_released_message_is_ready_and_a_message_handed_out_without_a_hold_too(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.release(*verbs.claim(limit=1))
    verbs.claim(hold_ms=0)
    assert verbs.count().ready == 2


@pytest.mark.needs("messages")
def test_within_the_unit_that_changes_them(verbs):
    verbs.create()
    with verbs.unit() as unit:
        unit.send("q", [Draft(b"1"), Draft(b"2")], verbs.now)
        assert unit.count("q", verbs.now, 100).total == 2
        unit.messages.purge("q", verbs.now, 1, unit.messages.last_seq())
        assert unit.count("q", verbs.now, 100).total == 1


def test_messages_past_their_retention_count_until_they_are_gone(verbs):
    verbs.create(retention_ms=10)
    verbs.send(b"x")
    verbs.now += 10
    assert verbs.count().ready == 1
    verbs.claim()
    assert verbs.count().total == 0


@pytest.mark.parametrize("limit", [0, 1, 5, 9])
def test_past_the_limit_the_total_stays_exact_and_the_parts_add_up(verbs, limit):
    verbs.create()
    verbs.send(*([b"x"] * 10), *([Draft(b"y", delay_ms=99_999)] * 4))
    verbs.claim(limit=5)
    count = verbs.count(limit=limit)
    assert count.total == 14
    assert count.ready + count.delayed + count.claimed == 14
    if count.exact:
        assert (count.ready, count.delayed, count.claimed) == (5, 4, 5)
    else:
        assert count.delayed <= 4
        assert count.claimed <= 5


@pytest.mark.parametrize("limit", range(5))
def test_past_the_limit_claims_that_have_run_out_and_back_off_make_it_inexact_too(verbs, limit):
    verbs.create(backoff=Backoff(100, 300))
    verbs.send(b"received twice")
    verbs.claim(hold_ms=10)
    verbs.now += 110
    verbs.send(b"received once", b"received once")
    verbs.claim(limit=1, hold_ms=10)
    verbs.claim(limit=2, hold_ms=20)
    for later_ms, parts in ((20, (0, 3, 0)), (130, (2, 1, 0))):
        verbs.now += later_ms
        count = verbs.count(limit=limit)
        assert count.exact == (limit > 3)
        assert (count.total, count.ready + count.delayed + count.claimed) == (3, 3)
        assert count.delayed <= parts[1]
        if count.exact:
            assert (count.ready, count.delayed, count.claimed) == parts


def test_the_oldest_is_the_oldest_in_any_state(verbs):
    verbs.create()
    first = verbs.now
    verbs.send(b"claimed for long")
    verbs.claim(hold_ms=500)
    verbs.now += 10
    verbs.send(Draft(b"delayed", delay_ms=1_000))
    verbs.now += 10
    verbs.send(b"ready")
    assert verbs.count().oldest_sent_at == first
    verbs.now += 500
    assert verbs.count().oldest_sent_at == first
    verbs.ack(*verbs.claim(limit=1))
    assert verbs.count().oldest_sent_at == first + 10


def test_the_oldest_that_is_ready(verbs):
    verbs.create()
    first = verbs.now
    verbs.send(b"claimed")
    verbs.claim(hold_ms=500)
    assert verbs.count().oldest_ready_sent_at is None
    verbs.now += 10
    verbs.send(b"ready")
    assert verbs.count().oldest_ready_sent_at == first + 10
    verbs.now += 490
    assert verbs.count().oldest_ready_sent_at == first


def test_many_queues_together_as_one_by_one(verbs):
    names = [f"q{n:02}" for n in range(45)]
    for n, name in enumerate(names):
        verbs.create(name)
        verbs.now += 1
        verbs.send(*[b"x"] * (n % 4), to=name)
        if n % 3:
            verbs.claim(limit=1, queue=name)
    assert verbs.counts(*names) == [verbs.count(name) for name in names]
    assert verbs.counts() == []


def test_a_queue_that_was_deleted_meanwhile_does_not_spoil_the_others(verbs):
    verbs.create("gone")
    verbs.create("there")
    verbs.send(b"x", to="there")
    with verbs.unit() as unit:
        gone, there = unit.list_queues(0, 2).queues
        unit.delete_queue("gone", verbs.now)
        assert [count.total for count in unit.counts([gone, there], verbs.now, 100)] == [0, 1]


def test_the_oldest_among_claims_that_ran_out_in_another_order(verbs):
    verbs.create()
    first = verbs.now
    verbs.send(b"1")
    verbs.claim(hold_ms=100)
    verbs.now += 10
    verbs.send(b"2")
    verbs.claim(hold_ms=10)
    verbs.now += 100
    assert verbs.count().oldest_sent_at == first


def test_when_the_next_message_becomes_ready(verbs):
    verbs.create()
    assert verbs.next_due() is None
    verbs.send(b"ready", b"claimed", Draft(b"delayed", delay_ms=20))
    now = verbs.now
    assert verbs.next_due() == now + 20
    verbs.claim(limit=1, hold_ms=10)
    assert verbs.next_due() == now + 10
    verbs.now += 10
    assert verbs.next_due() == now + 20
    verbs.now += 10
    assert verbs.next_due() is None


def test_nothing_becomes_ready_in_a_queue_that_does_not_exist(verbs):
    assert verbs.next_due("nowhere") is None


def test_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.count("nowhere")
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.tally("nowhere")
