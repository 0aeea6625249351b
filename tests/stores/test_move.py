from __future__ import annotations

import pytest

from penstock import ids, limits
from penstock.errors import QueueNotFound
from penstock.model import Dedup, Draft, Outcome, Receipt, Redrive

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


class TestAsNew:
    """As if it were sent to the target now."""

    def test_it_has_a_new_id_and_age_and_the_same_content(self, two):
        two.send(Draft(b"x", "a/b", {"k": "v"}, deadline_at=two.now + 99_999, group="g"), to="here")
        [before] = two.peek("here")
        two.now += 500
        assert two.move("here", "there", as_new=True) == 1
        [after] = two.peek("there")
        assert after.id != before.id
        assert after.seq > before.seq
        assert ids.seq_of(after.id) == after.seq
        assert (after.sent_at, after.queue, after.ready_at) == (two.now, "there", 0)
        assert (after.body, after.content_type, after.attributes) == (b"x", "a/b", {"k": "v"})
        assert (after.deadline_at, after.group) == (before.deadline_at, "g")
        assert two.locate(Receipt(before.id), Receipt(after.id)) == [None, "there"]
        assert two.ack(Receipt(before.id)) == [False]
        assert two.ack(Receipt(after.id)) == [True]

    def test_its_claims_count_from_0(self, two):
        two.send(b"x", to="here")
        for _ in range(3):
            two.claim(hold_ms=0, queue="here")
        two.now += 10
        two.move("here", "there", as_new=True)
        [message] = two.peek("there")
        assert (message.receives, message.claim, message.first_claimed_at) == (0, 0, None)
        [claimed] = two.claim(queue="there")
        assert (claimed.receives, claimed.claim, claimed.first_claimed_at) == (1, 1, two.now)

    def test_it_comes_from_nowhere(self, verbs):
        verbs.create("dead")
        verbs.create("there")
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.send(b"x")
        verbs.claim(hold_ms=0)
        verbs.claim()
        assert verbs.peek("dead")[0].came_from == "q"
        verbs.move("dead", "there", as_new=True)
        [message] = verbs.peek("there")
        assert (message.came_from, message.claim) == (None, 0)

    def test_it_is_the_youngest_there(self, two):
        two.send(b"1", to="here")
        two.send(b"2", to="there")
        two.move("here", "there", as_new=True)
        assert two.bodies(queue="there") == [b"2", b"1"]

    def test_many_keep_their_order(self, two):
        two.send(*(b"%d" % n for n in range(600)), to="here")
        assert two.move("here", "there", as_new=True) == 600
        assert two.bodies(limit=1_000, queue="there") == [b"%d" % n for n in range(600)]
        assert len({message.id for message in two.peek("there")}) == 600

    def test_the_delay_of_the_target(self, verbs):
        verbs.create("here")
        verbs.create("there", delay_ms=100)
        verbs.send(b"1", Draft(b"2", delay_ms=5_000), to="here")
        assert verbs.move("here", "there", as_new=True) == 2
        assert [message.ready_at for message in verbs.peek("there")] == [verbs.now + 100] * 2

    def test_a_delay_of_its_own_is_over(self, two):
        two.send(Draft(b"x", delay_ms=5_000), to="here")
        two.move("here", "there", as_new=True)
        assert two.bodies(queue="there") == [b"x"]

    def test_claimed_ones_stay_unless_they_are_meant(self, two):
        two.send(b"1", b"2", to="here")
        [claimed] = two.claim(limit=1, queue="here")
        assert two.move("here", "there", as_new=True) == 1
        assert two.move("here", "there", claimed=True, as_new=True) == 1
        assert two.bodies(queue="there") == [b"2", b"1"]
        assert two.ack(claimed) == [False]

    def test_the_age_of_the_target_counts_from_now(self, verbs):
        verbs.create("here")
        verbs.create("there", retention_ms=100)
        verbs.send(b"x", to="here")
        verbs.now += 1_000
        verbs.move("here", "there", as_new=True)
        verbs.now += 99
        assert verbs.bodies(queue="there") == [b"x"]

    def test_as_it_is_it_would_have_expired(self, verbs):
        verbs.create("here")
        verbs.create("there", retention_ms=100)
        verbs.send(b"x", to="here")
        verbs.now += 1_000
        verbs.move("here", "there")
        assert verbs.bodies(queue="there") == []

    def test_the_ledger_knows_the_old_id(self, two):
        [sent] = two.send(b"x", to="here")
        two.move("here", "there", as_new=True)
        [row] = two.rows()
        assert (row.id, row.queue, row.outcome) == (sent.id, "here", Outcome.MOVED)
        [message] = two.claim(queue="there")
        two.ack(message)
        assert [(one.id, one.queue, one.outcome) for one in two.rows()][1:] == [
            (message.id, "there", Outcome.PROCESSED)
        ]
        assert [(two.tally(name).arrived, two.tally(name).departed) for name in ("here", "there")] == [(1, 1), (1, 1)]

    @pytest.mark.needs("dedup")
    def test_a_twin_of_one_there_does_not_arrive(self, verbs):
        verbs.create("here")
        verbs.create("there", dedup=Dedup.SEND)
        verbs.send(b"x", b"x", b"y", to="here")
        [there] = verbs.send(b"x", to="there")
        assert verbs.move("here", "there", as_new=True) == 3
        assert verbs.seen("there") == [b"x", b"y"]
        assert verbs.peek("there")[0].id == there.id
        assert (verbs.tally("here").departed, verbs.tally("there").arrived) == (3, 2)

    @pytest.mark.needs("dedup")
    def test_it_keeps_its_dedup_key(self, verbs):
        verbs.create("here", dedup=Dedup.SEND)
        verbs.create("there", dedup=Dedup.SEND)
        verbs.send(Draft(b"x", dedup_key=b"k" * 16), to="here")
        verbs.move("here", "there", as_new=True)
        [new] = verbs.peek("there")
        assert verbs.send(Draft(b"y", dedup_key=b"k" * 16), to="there")[0].id == new.id
        assert verbs.send(b"x", to="there")[0].stored

    @pytest.mark.needs("dedup")
    def test_two_twins_where_claims_take_them_along(self, verbs):
        verbs.create("here")
        verbs.create("there", dedup=Dedup.CLAIM)
        verbs.send(b"x", b"x", to="here")
        verbs.move("here", "there", as_new=True)
        assert verbs.bodies(queue="there") == [b"x"]
        assert verbs.outcomes("there") == [Outcome.COLLAPSED]

    def test_into_itself_moves_nothing(self, two):
        two.send(b"x", to="here")
        before = two.peek("here")
        assert two.move("here", "here", as_new=True) == 0
        assert two.peek("here") == before

    def test_the_target_is_stirred(self, two):
        two.send(b"x", to="here")
        two.move("here", "there", as_new=True)
        assert "there" in two.stirred

    def test_in_a_lost_unit_nothing_has_moved(self, two):
        two.send(b"x", to="here")
        before = two.peek("here")

        def lose():
            with two.unit() as unit:
                unit.moves.move("here", "there", two.now, 10, unit.messages.last_seq(), False, True)
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        assert two.peek("here") == before
        assert two.seen("there") == []
