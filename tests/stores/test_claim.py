from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Draft, Outcome


def test_oldest_first(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.send(b"3")
    assert verbs.bodies(limit=2) == [b"1", b"2"]
    assert verbs.bodies(limit=2) == [b"3"]
    assert verbs.bodies() == []


def test_a_message_as_it_is_handed_out(verbs):
    verbs.create(visibility_ms=70)
    [sent] = verbs.send(Draft(b"x", content_type="a/b", attributes={"k": "v"}))
    sent_at = verbs.now
    verbs.now += 5
    [message] = verbs.claim()
    assert (message.id, message.queue, message.body) == (sent.id, "q", b"x")
    assert (message.content_type, message.attributes) == ("a/b", {"k": "v"})
    assert (message.sent_at, message.ready_at) == (sent_at, verbs.now + 70)
    assert (message.receives, message.claim) == (1, 1)
    assert verbs.peek() == [message]


@pytest.mark.parametrize(("hold_ms", "held"), [(None, 30_000), (1, 1), (999_999, 999_999)])
def test_a_claim_holds_for_its_time_or_the_queues(verbs, hold_ms, held):
    verbs.create(visibility_ms=30_000)
    verbs.send(b"x")
    verbs.claim(hold_ms=hold_ms)
    verbs.now += held - 1
    assert verbs.bodies() == []
    verbs.now += 1
    assert verbs.bodies() == [b"x"]


@pytest.mark.needs("receives")
def test_a_hold_of_nothing_hands_out_and_leaves_ready(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    first = verbs.claim(hold_ms=0)
    second = verbs.claim(hold_ms=0)
    assert [(message.body, message.receives, message.claim) for message in first] == [
        (b"1", 1, 1),
        (b"2", 1, 1),
    ]
    assert [(message.body, message.receives, message.claim) for message in second] == [
        (b"1", 2, 2),
        (b"2", 2, 2),
    ]
    assert [message.ready_at for message in second] == [verbs.now, verbs.now]
    assert verbs.count().ready == 2


def test_a_queue_whose_visibility_is_nothing(verbs):
    verbs.create(visibility_ms=0)
    verbs.send(b"x")
    assert verbs.bodies() == verbs.bodies() == [b"x"]


def test_a_claim_of_none(verbs):
    verbs.create(retention_ms=10)
    verbs.send(b"x")
    verbs.now += 10
    claimed = verbs.claimed(limit=0)
    assert claimed.messages == []
    assert not claimed.more
    assert verbs.tally().departed == 0


def test_a_claim_that_has_run_out_comes_back_in_its_old_place(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    verbs.claim(limit=1, hold_ms=10)
    verbs.claim(limit=1, hold_ms=20)
    verbs.now += 10
    assert verbs.bodies(limit=2) == [b"1", b"3"]
    verbs.now += 10
    assert verbs.bodies() == [b"2"]


def test_claims_that_run_out_at_different_times_come_back_by_age(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    for hold_ms in (30, 10, 20):
        verbs.claim(limit=1, hold_ms=hold_ms)
    verbs.now += 30
    assert verbs.bodies() == [b"1", b"2", b"3"]


def test_each_delivery_counts_and_claims_never_go_back(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    seen = []
    for _ in range(3):
        [message] = verbs.claim()
        seen.append((message.receives, message.claim))
        verbs.now += 10
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_the_clock_may_stand_still(verbs):
    verbs.create(visibility_ms=1)
    verbs.send(b"x")
    assert verbs.bodies() == [b"x"]
    assert verbs.bodies() == []


def test_queues_do_not_see_each_other(verbs):
    verbs.create("a")
    verbs.create("b")
    verbs.send(b"for a", to="a")
    assert verbs.bodies(queue="b") == []
    assert verbs.bodies(queue="a") == [b"for a"]


def test_a_batch_of_a_thousand(verbs):
    verbs.create()
    bodies = [b"%d" % n for n in range(1_500)]
    verbs.send(*bodies)
    assert verbs.bodies(limit=1_000) == bodies[:1_000]
    assert verbs.bodies(limit=1_000) == bodies[1_000:]


def test_what_is_past_its_retention_finishes_as_expired_and_the_claim_goes_on(verbs):
    verbs.create(retention_ms=100)
    verbs.send(b"old")
    verbs.now += 50
    verbs.send(b"new")
    verbs.now += 50
    assert verbs.bodies(limit=1) == [b"new"]
    assert verbs.outcomes() == [Outcome.EXPIRED]


def test_retention_ends_on_the_millisecond(verbs):
    verbs.create(retention_ms=100, visibility_ms=0)
    verbs.send(b"x")
    verbs.now += 99
    assert verbs.bodies() == [b"x"]
    verbs.now += 1
    assert verbs.bodies() == []


def test_retention_is_judged_by_the_settings_of_now(verbs):
    verbs.create(retention_ms=100)
    verbs.send(b"x")
    verbs.now += 100
    verbs.update(retention_ms=200)
    assert verbs.bodies() == [b"x"]


def test_a_claimed_message_past_its_retention_is_safe_until_its_claim_ends(verbs):
    verbs.create(retention_ms=100)
    verbs.send(b"x", b"y")
    held, lost = verbs.claim(hold_ms=200)
    verbs.now += 150
    assert verbs.bodies() == []
    assert verbs.ack(held) == [True]
    verbs.now += 50
    assert verbs.bodies() == []
    assert verbs.ack(lost) == [False]
    assert verbs.outcomes() == [Outcome.PROCESSED, Outcome.EXPIRED]


def test_what_is_past_its_deadline_finishes_as_failed(verbs):
    verbs.create()
    verbs.send(Draft(b"late", deadline_at=verbs.now + 10), Draft(b"in time", deadline_at=verbs.now + 11), b"any time")
    verbs.now += 10
    assert verbs.bodies() == [b"in time", b"any time"]
    assert verbs.outcomes() == [Outcome.FAILED]


def test_a_claim_looks_past_any_number_of_dead_messages(verbs):
    verbs.create(retention_ms=100)
    verbs.send(*([b"old"] * 600))
    verbs.now += 100
    verbs.send(b"new")
    assert verbs.bodies(limit=1) == [b"new"]
    assert verbs.tally().departed == 600


def test_live_and_dead_messages_by_turns(verbs):
    verbs.create()
    verbs.send(*(Draft(b"%d" % n, deadline_at=verbs.now if n % 2 else None) for n in range(20)))
    assert verbs.bodies(limit=6) == [b"0", b"2", b"4", b"6", b"8", b"10"]
    assert verbs.bodies(limit=6) == [b"12", b"14", b"16", b"18"]
    assert verbs.outcomes() == [Outcome.FAILED] * 10


@pytest.mark.parametrize("limits", [Limits(step_rows=10, claim_rounds=2)])
def test_a_claim_may_stop_before_the_end_but_says_so(verbs):
    verbs.create(retention_ms=100)
    verbs.send(*([b"old"] * 200))
    verbs.now += 100
    verbs.send(b"new")
    claimed = verbs.claimed(limit=3)
    # Every claim that stops early has freed something: asking again comes to the end.
    for _ in range(200):
        if not claimed.more:
            break
        assert claimed.messages == []
        claimed = verbs.claimed(limit=3)
    assert [message.body for message in claimed.messages] == [b"new"]


@pytest.mark.parametrize("limits", [Limits(claim_bytes=100)])
def test_bodies_that_come_to_the_limit_of_bytes_end_a_claim(verbs):
    verbs.create()
    verbs.send(*([b"x" * 40] * 4))
    claimed = verbs.claimed()
    assert (len(claimed.messages), claimed.more) == (3, True)
    claimed = verbs.claimed()
    assert (len(claimed.messages), claimed.more) == (1, False)


@pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
def test_bytes_never_end_a_claim_before_its_first_message(verbs):
    verbs.create()
    verbs.send(b"x" * 40, b"y" * 40)
    assert verbs.bodies() == [b"x" * 40]
    assert verbs.bodies() == [b"y" * 40]


@pytest.mark.parametrize("limits", [Limits(claim_bytes=50)])
def test_the_bytes_of_what_is_not_handed_out_do_not_count(verbs):
    verbs.create()
    verbs.send(Draft(b"x" * 60, deadline_at=verbs.now), b"y" * 40, b"z" * 40)
    assert verbs.bodies() == [b"y" * 40, b"z" * 40]


@pytest.mark.needs("messages")
@pytest.mark.parametrize("limits", [Limits(claim_bytes=100)])
def test_attributes_count_as_well(verbs):
    verbs.create()
    verbs.send(*([Draft(b"x", attributes={"k": "v" * 45})] * 4))
    claimed = verbs.claimed()
    assert (len(claimed.messages), claimed.more) == (2, True)
    assert [message.attributes for message in claimed.messages] == [{"k": "v" * 45}] * 2
    claimed = verbs.claimed()
    assert (len(claimed.messages), claimed.more) == (2, True)
    assert verbs.claimed().messages == []


@pytest.mark.needs("messages")
@pytest.mark.parametrize("limits", [Limits(claim_bytes=100)])
def test_large_attributes_alone_are_handed_out_whatever_their_size(verbs):
    verbs.create()
    verbs.send(*([Draft(b"", attributes={"k": "v" * 400})] * 2))
    assert [len(verbs.claim()) for _ in range(3)] == [1, 1, 0]


@pytest.mark.needs("messages")
@pytest.mark.parametrize("limits", [Limits(claim_bytes=100)])
def test_attributes_of_wide_characters_count_by_their_bytes(verbs):
    verbs.create()
    verbs.send(*([Draft(b"", attributes={"k": "\U0001f600" * 12})] * 4))
    assert [len(verbs.claim()) for _ in range(3)] == [2, 2, 0]


@pytest.mark.needs("messages")
def test_attributes_as_large_as_a_body(verbs):
    verbs.create()
    attributes = {"k": "v" * 1_000_000, "l": "\u00e4" * 10_000}
    verbs.send(Draft(b"x", attributes=attributes))
    [message] = verbs.claim()
    assert message.attributes == attributes
    assert verbs.peek() == [message]


@pytest.mark.needs("messages")
class TestFirstClaim:
    def test_never_claimed(self, verbs):
        verbs.create()
        verbs.send(b"x")
        assert verbs.peek()[0].first_claimed_at is None

    def test_it_stays_the_first(self, verbs):
        verbs.create(visibility_ms=10)
        verbs.send(b"x")
        verbs.now += 5
        first = verbs.now
        for _ in range(3):
            [message] = verbs.claim()
            assert message.first_claimed_at == first
            assert verbs.peek()[0].first_claimed_at == first
            verbs.now += 10

    def test_also_after_a_release(self, verbs):
        verbs.create()
        verbs.send(b"x")
        first = verbs.now
        verbs.release(*verbs.claim())
        verbs.now += 5
        assert verbs.claim()[0].first_claimed_at == first

    def test_of_this_queue(self, verbs):
        verbs.create()
        verbs.create("p")
        verbs.send(b"x")
        verbs.claim(hold_ms=0)
        verbs.now += 5
        verbs.move("q", "p")
        assert verbs.peek("p")[0].first_claimed_at is None
        assert verbs.claim(queue="p")[0].first_claimed_at == verbs.now

    def test_in_a_shipment(self, verbs):
        verbs.create()
        verbs.send(b"x")
        verbs.ship()
        [message] = verbs.shipments.read()
        assert message.first_claimed_at == verbs.now


@pytest.mark.parametrize("limits", [Limits(promote_rows=5)])
def test_more_run_out_claims_than_one_claim_makes_ready(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(*(b"%d" % n for n in range(12)))
    verbs.claim()
    verbs.now += 10
    back = []
    while bodies := verbs.bodies(hold_ms=1_000):
        back += bodies
    assert sorted(back) == sorted(b"%d" % n for n in range(12))


def test_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.claim(queue="nowhere")
