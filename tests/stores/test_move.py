from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import QueueNotFound
from penstock.model import Draft, Outcome, Receipt

pytestmark = pytest.mark.needs("moves")


@pytest.fixture
def two(verbs):
    verbs.create("here")
    verbs.create("there")
    return verbs


def test_a_moved_message_keeps_its_id_age_and_content(two):
    two.send(Draft(b"x", content_type="a/b", attributes={"k": "v"}, deadline_at=two.now + 99), to="here")
    [before] = two.peek("here")
    two.now += 5
    assert two.move("here", "there") == 1
    [after] = two.peek("there")
    assert two.seen("here") == []
    assert after.queue == "there"
    assert (after.id, after.seq, after.sent_at) == (before.id, before.seq, before.sent_at)
    assert (after.body, after.content_type, after.attributes) == (b"x", "a/b", {"k": "v"})
    assert after.deadline_at == before.deadline_at


def test_it_takes_its_place_by_age_among_those_there(two):
    two.send(b"1", to="there")
    two.send(b"2", to="here")
    two.send(b"3", to="there")
    two.move("here", "there")
    assert two.bodies(queue="there") == [b"1", b"2", b"3"]


def test_it_was_never_received_there(two):
    two.send(b"x", to="here")
    two.release(*two.claim(queue="here"))
    two.move("here", "there")
    [message] = two.peek("there")
    assert (message.receives, message.claim, message.ready_at) == (0, 1, 0)


def test_claimed_messages_stay(two):
    two.send(b"claimed", b"ready", to="here")
    two.claim(limit=1, queue="here")
    assert two.move("here", "there") == 1
    assert two.seen("here") == [b"claimed"]
    assert two.seen("there") == [b"ready"]


def test_claimed_messages_go_along_when_asked_and_arrive_unclaimed(two):
    two.send(b"1", b"2", Draft(b"delayed", delay_ms=100), to="here")
    [claimed] = two.claim(limit=1, queue="here")
    two.renew(claimed, until=limits.NEVER)
    assert two.move("here", "there", claimed=True) == 3
    assert two.seen("here") == []
    assert [(one.body, one.receives, one.ready_at) for one in two.peek("there")] == [
        (b"1", 0, 0),
        (b"2", 0, 0),
        (b"delayed", 0, two.now + 100),
    ]
    assert two.ack(claimed) == [False]
    assert two.bodies(queue="there") == [b"1", b"2"]
    assert [row.receives for row in two.rows() if row.id == claimed.id] == [1]


def test_what_is_in_a_shipment_never_goes_along(two):
    two.send(b"1", b"2", to="here")
    two.ship(limit=1, queue="here")
    assert two.move("here", "there", claimed=True) == 1
    assert two.seen("there") == [b"2"]
    assert two.shipments.settle(queue="here") == 1


def test_a_claim_that_has_run_out_does_not_keep_a_message_back(two):
    two.send(b"x", to="here")
    two.claim(hold_ms=10, queue="here")
    two.now += 10
    assert two.move("here", "there") == 1
    assert two.bodies(queue="there") == [b"x"]


def test_delayed_messages_move_and_stay_delayed(two):
    two.send(Draft(b"x", delay_ms=100), to="here")
    ready_at = two.now + 100
    assert two.move("here", "there") == 1
    [message] = two.peek("there")
    assert message.ready_at == ready_at
    assert two.count("there").delayed == 1


def test_the_delay_of_the_target_is_not_added(verbs):
    verbs.create("here")
    verbs.create("there", delay_ms=100)
    verbs.send(b"x", to="here")
    verbs.move("here", "there")
    assert verbs.bodies(queue="there") == [b"x"]


def test_no_further_than_the_sequence_number_given(two):
    two.send(b"1", b"2", to="here")
    through = two.last_seq()
    two.send(b"3", to="here")
    assert two.move("here", "there", through=through) == 2
    assert two.seen("here") == [b"3"]


def test_up_to_the_limit_in_the_order_of_peek(two):
    two.send(Draft(b"delayed", delay_ms=100), b"1", b"2", to="here")
    assert two.move("here", "there", limit=2) == 2
    assert two.seen("there") == [b"1", b"2"]
    assert two.move("here", "there", limit=2) == 1
    assert two.move("here", "there", limit=2) == 0


def test_a_thousand(two):
    two.send(*(b"%d" % n for n in range(1_000)), to="here")
    assert two.move("here", "there") == 1_000
    assert two.seen("there") == [b"%d" % n for n in range(1_000)]


def test_the_ledger_of_the_source_says_moved(two):
    two.send(b"x", to="here")
    two.now += 7
    two.move("here", "there")
    [row] = two.rows()
    assert (row.queue, row.outcome, row.finished_at) == ("here", Outcome.MOVED, two.now)
    assert (two.tally("here").arrived, two.tally("here").departed) == (1, 1)
    assert (two.tally("there").arrived, two.tally("there").departed) == (1, 0)


def test_there_and_back_again(two):
    two.send(b"x", to="here")
    two.move("here", "there")
    two.move("there", "here")
    assert two.seen("here") == [b"x"]
    assert (two.tally("here").arrived, two.tally("here").departed) == (2, 1)


def test_into_itself_moves_nothing(two):
    two.send(b"x", to="here")
    before = two.peek("here")
    assert two.move("here", "here") == 0
    assert two.peek("here") == before
    assert two.rows() == []


def test_the_target_is_stirred(two):
    two.send(b"x", to="here")
    two.move("here", "there")
    assert "there" in two.stirred


def test_a_receipt_with_a_queue_does_not_follow_a_message(two):
    two.send(b"x", to="here")
    [message] = two.claim(hold_ms=10, queue="here")
    two.now += 10
    two.move("here", "there")
    assert two.ack(message) == [False]
    assert two.ack(Receipt(message.id, queue="there")) == [True]


@pytest.mark.parametrize(("source", "target"), [("nowhere", "there"), ("here", "nowhere")])
def test_an_unknown_queue(two, source, target):
    two.send(b"x", to="here")
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        two.move(source, target)
    assert two.seen("here") == [b"x"]
