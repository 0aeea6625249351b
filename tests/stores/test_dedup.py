from __future__ import annotations

import pytest

from penstock.limits import Limits
from penstock.model import Dedup, Draft, Outcome, Receipt, Sent

pytestmark = pytest.mark.needs("dedup")


class TestSend:
    """`Dedup.SEND`: a twin of a message that is in the queue is not stored."""

    @pytest.fixture
    def once(self, verbs):
        verbs.create(dedup=Dedup.SEND, retention_ms=1_000)
        return verbs

    def test_a_twin_is_not_stored_and_the_result_names_the_first(self, once):
        [first] = once.send(b"x")
        assert once.send(b"x") == [Sent(first.id, stored=False)]
        assert once.seen() == [b"x"]
        assert once.tally().arrived == 1

    def test_twins_in_one_call(self, once):
        a, b, twin, c = once.send(b"a", b"b", b"a", b"c")
        assert twin == Sent(a.id, stored=False)
        assert once.seen() == [b"a", b"b", b"c"]
        assert [one.stored for one in (a, b, c)] == [True, True, True]

    def test_a_twin_uses_up_no_sequence_number(self, once):
        once.send(b"a", b"a", b"b")
        assert [message.seq for message in once.peek()] == [1, 2]

    def test_bodies_are_compared_whole(self, once):
        once.send(b"", b"\x00", b"\x00\x00", b"x" * 10_000, b"x" * 10_001)
        assert once.tally().arrived == 5

    def test_a_key_stands_for_the_body(self, once):
        first, second, third = once.send(
            Draft(b"a", dedup_key=b"k"), Draft(b"b", dedup_key=b"k"), Draft(b"a", dedup_key=b"other")
        )
        assert (second.id, second.stored) == (first.id, False)
        assert third.stored
        assert once.send(b"a")[0].stored

    def test_claimed_and_delayed_messages_count(self, once):
        once.send(b"claimed", Draft(b"delayed", delay_ms=500))
        once.claim()
        assert [one.stored for one in once.send(b"claimed", b"delayed")] == [False, False]

    def test_a_finished_message_does_not_count(self, once):
        once.send(b"x")
        once.ack(*once.claim())
        assert once.send(b"x")[0].stored
        once.purge()
        assert once.send(b"x")[0].stored

    def test_an_expired_message_does_not_count_even_while_it_is_there(self, once):
        [old] = once.send(b"x")
        once.claim(hold_ms=5_000)
        once.now += 999
        assert not once.send(b"x")[0].stored
        once.now += 1
        [new] = once.send(b"x")
        assert new.stored
        assert once.send(b"x") == [Sent(new.id, stored=False)]
        assert once.ack(Receipt(old.id)) == [True]

    def test_an_expired_message_has_lost_its_key_for_good(self, once):
        once.send(b"x")
        once.claim(hold_ms=5_000)
        once.now += 1_000
        [new] = once.send(b"x")
        once.update(dedup=Dedup.SEND, retention_ms=99_999)
        assert once.send(b"x") == [Sent(new.id, stored=False)]

    def test_each_queue_for_itself(self, once):
        once.create("other", dedup=Dedup.SEND)
        once.send(b"x")
        assert once.send(b"x", to="other")[0].stored

    def test_messages_sent_before_the_setting_have_no_key(self, verbs):
        verbs.create()
        verbs.send(b"x")
        verbs.update(dedup=Dedup.SEND)
        assert verbs.send(b"x")[0].stored
        assert not verbs.send(b"x")[0].stored

    def test_a_queue_that_no_longer_asks_takes_twins(self, once):
        once.send(b"x")
        once.update(dedup=Dedup.OFF)
        assert once.send(b"x")[0].stored

    def test_of_several_twins_the_oldest_is_named(self, verbs):
        verbs.create(dedup=Dedup.CLAIM)
        first, _ = verbs.send(b"x", b"x")
        verbs.update(dedup=Dedup.SEND)
        assert verbs.send(b"x") == [Sent(first.id, stored=False)]

    def test_a_batch_of_a_thousand(self, once):
        sent = once.send(*(b"%d" % (n % 500) for n in range(1_000)))
        assert [one.stored for one in sent] == [True] * 500 + [False] * 500
        assert [one.id for one in sent[:500]] == [one.id for one in sent[500:]]


class TestClaim:
    """`Dedup.CLAIM`: twins are stored, and collapse when one of them is handed out."""

    @pytest.fixture
    def collapse(self, verbs):
        verbs.create(dedup=Dedup.CLAIM)
        return verbs

    def test_twins_are_stored_and_seen(self, collapse):
        assert [one.stored for one in collapse.send(b"x", b"x")] == [True, True]
        assert collapse.seen() == [b"x", b"x"]
        assert collapse.count().total == 2

    def test_the_oldest_is_handed_out_and_the_others_collapse(self, collapse):
        first, *_ = collapse.send(b"x", b"y", b"x", b"x")
        messages = collapse.claim()
        assert [message.body for message in messages] == [b"x", b"y"]
        assert messages[0].id == first.id
        assert collapse.outcomes() == [Outcome.COLLAPSED] * 2
        assert collapse.count().total == 2

    def test_twins_collapse_wherever_they_are_in_the_queue(self, collapse):
        collapse.send(b"x", *(b"%d" % n for n in range(50)), b"x")
        assert collapse.bodies(limit=1) == [b"x"]
        assert collapse.count().total == 51

    def test_twins_do_not_count_towards_the_limit(self, collapse):
        collapse.send(b"x", b"x", b"x", b"y", b"y", b"z")
        assert collapse.bodies(limit=3) == [b"x", b"y", b"z"]

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_more_twins_than_a_step_collapse_in_steps_and_none_is_handed_out(self, collapse):
        collapse.send(*[b"x"] * 40, b"y")
        [first] = collapse.claim(limit=1)
        assert len(collapse.outcomes()) == 3
        collapse.ack(first)
        collapse.send(b"x")
        handed_out = []
        while len(handed_out) < 2:
            before = len(collapse.outcomes())
            claimed = collapse.claimed(limit=1)
            assert claimed.messages or claimed.more
            # What is met at the head of the queue, besides a step of the others.
            assert len(collapse.outcomes()) - before <= 3 + Limits().claim_rounds
            handed_out += [message.body for message in claimed.messages]
        assert handed_out == [b"y", b"x"]
        assert collapse.bodies() == []
        assert collapse.outcomes().count(Outcome.COLLAPSED) == 39

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_one_claim_finishes_no_more_twins_than_it_may_however_many_it_asks_for(self, collapse):
        collapse.send(*[b"x"] * 40)
        claimed = collapse.claimed(limit=30)
        assert ([message.body for message in claimed.messages], claimed.more) == ([b"x"], True)
        assert len(collapse.outcomes()) <= 2 * 3

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_a_batch_longer_than_a_step_holds_no_twins(self, collapse):
        collapse.send(*[b"x"] * 8, b"y", *[b"x"] * 8)
        handed_out, more = [], True
        while more:
            claimed = collapse.claimed(limit=9)
            handed_out += [message.body for message in claimed.messages]
            more = claimed.more
        assert handed_out == [b"x", b"y"]

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_the_sweep_goes_on_with_twins_that_have_collapsed(self, collapse):
        collapse.send(*[b"x"] * 10, *[b"y"] * 10)
        assert collapse.bodies(limit=1) == [b"x"]
        assert collapse.sweep(limit=4) == 4
        assert sum(iter(lambda: collapse.sweep(limit=4), 0)) == 2
        assert collapse.seen() == [*[b"y"] * 10, b"x"]

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_what_comes_back_is_not_taken_for_a_twin(self, collapse):
        collapse.create("elsewhere")
        collapse.send(*[b"x"] * 10)
        [first] = collapse.claim(limit=1)
        assert collapse.move("q", "elsewhere", through=first.seq, claimed=True) == 1
        assert collapse.move("elsewhere", "q") == 1
        while collapse.sweep():
            pass
        assert [message.id for message in collapse.claim()] == [first.id]

    @pytest.mark.parametrize("limits", [Limits(step_rows=3)])
    def test_what_has_collapsed_keeps_no_message_out_of_a_queue_that_now_asks_on_send(self, collapse):
        collapse.send(*[b"x"] * 9)
        [held] = collapse.claim()
        collapse.ack(held)
        collapse.update(dedup=Dedup.SEND)
        [sent] = collapse.send(b"x")
        assert sent.stored
        while collapse.sweep():
            pass
        assert [message.id for message in collapse.peek()] == [sent.id]
        assert collapse.send(b"x") == [Sent(sent.id, stored=False)]

    def test_a_twin_sent_after_a_claim_is_handed_out_too(self, collapse):
        collapse.send(b"x")
        assert collapse.bodies() == [b"x"]
        collapse.send(b"x")
        assert collapse.bodies() == [b"x"]
        assert collapse.count().claimed == 2

    def test_a_message_that_was_handed_out_before_keeps_to_itself(self, collapse):
        collapse.send(b"x")
        collapse.release(*collapse.claim())
        collapse.send(b"x")
        assert collapse.bodies() == [b"x", b"x"]
        assert collapse.outcomes() == []

    def test_delayed_twins_are_not_ready_to_collapse(self, collapse):
        collapse.send(b"x", Draft(b"x", delay_ms=100))
        assert collapse.bodies() == [b"x"]
        assert collapse.count().delayed == 1
        collapse.now += 100
        assert collapse.bodies() == [b"x"]

    def test_a_twin_whose_delay_is_over_collapses(self, collapse):
        collapse.send(b"x", Draft(b"x", delay_ms=100))
        collapse.now += 100
        assert collapse.bodies() == [b"x"]
        assert collapse.outcomes() == [Outcome.COLLAPSED]

    def test_a_hold_of_nothing_collapses_as_well(self, collapse):
        collapse.send(b"x", b"x")
        assert collapse.bodies(hold_ms=0) == [b"x"]
        assert collapse.bodies(hold_ms=0) == [b"x"]
        assert collapse.count().total == 1

    @pytest.mark.parametrize("limit", [1, 2, 10])
    def test_an_expired_message_takes_no_twin_along(self, collapse, limit):
        collapse.update(dedup=Dedup.CLAIM, retention_ms=100)
        collapse.send(b"x")
        collapse.now += 50
        collapse.send(b"x", b"x")
        collapse.now += 50
        assert collapse.bodies(limit=limit) == [b"x"]
        assert sorted(collapse.outcomes()) == [Outcome.EXPIRED, Outcome.COLLAPSED]

    @pytest.mark.parametrize("limit", [1, 2, 10])
    def test_a_failed_message_takes_no_twin_along(self, collapse, limit):
        collapse.send(Draft(b"x", deadline_at=collapse.now), b"x")
        assert collapse.bodies(limit=limit) == [b"x"]
        assert collapse.outcomes() == [Outcome.FAILED]

    @pytest.mark.parametrize("limit", [1, 2, 10])
    def test_a_twin_past_its_deadline_collapses_however_many_are_asked_for(self, collapse, limit):
        collapse.send(b"x", Draft(b"x", deadline_at=collapse.now))
        assert collapse.bodies(limit=limit) == [b"x"]
        assert collapse.outcomes() == [Outcome.COLLAPSED]

    def test_a_key_stands_for_the_body(self, collapse):
        collapse.send(Draft(b"a", dedup_key=b"k"), Draft(b"b", dedup_key=b"k"), b"a")
        assert collapse.bodies() == [b"a", b"a"]

    def test_each_queue_for_itself(self, collapse):
        collapse.create("other", dedup=Dedup.CLAIM)
        collapse.send(b"x")
        collapse.send(b"x", to="other")
        assert collapse.bodies() == [b"x"]
        assert collapse.bodies(queue="other") == [b"x"]

    def test_a_queue_that_no_longer_asks_hands_out_twins(self, collapse):
        collapse.send(b"x", b"x")
        collapse.update(dedup=Dedup.OFF)
        assert collapse.bodies() == [b"x", b"x"]

    def test_a_thousand_twins(self, collapse):
        collapse.send(*([b"x"] * 1_000))
        assert collapse.bodies(limit=1_000) == [b"x"]
        while collapse.sweep():
            pass
        assert collapse.tally().departed == 999


class TestMove:
    """A message that moves, or is dead-lettered, into a queue that holds the same key."""

    @pytest.mark.parametrize("here", Dedup)
    @pytest.mark.parametrize("there", Dedup)
    def test_the_one_that_is_there_stays(self, verbs, here, there):
        verbs.create("here", dedup=here)
        verbs.create("there", dedup=there)
        verbs.send(b"x", to="here")
        [resident] = verbs.send(b"x", to="there")
        assert verbs.move("here", "there") == 1
        assert verbs.outcomes("here") == [Outcome.MOVED]
        if there is Dedup.SEND:
            assert [message.id for message in verbs.peek("there")] == [resident.id]
        else:
            assert verbs.seen("there") == [b"x", b"x"]

    @pytest.mark.parametrize("there", Dedup)
    def test_a_queue_that_does_not_ask_still_holds_the_keys_that_came_with_messages(self, verbs, there):
        verbs.create("here", dedup=Dedup.SEND)
        verbs.create("there", dedup=there)
        verbs.send(b"x", to="here")
        verbs.move("here", "there")
        verbs.send(b"x", to="here")
        assert verbs.move("here", "there") == 1
        assert len(verbs.seen("there")) == (2 if there is Dedup.CLAIM else 1)
        assert verbs.tally("there").arrived == len(verbs.seen("there"))

    @pytest.mark.parametrize("there", Dedup)
    def test_twins_that_move_together(self, verbs, there):
        verbs.create("here", dedup=Dedup.CLAIM)
        verbs.create("there", dedup=there)
        first, _ = verbs.send(b"x", b"x", to="here")
        assert verbs.move("here", "there") == 2
        assert len(verbs.seen("there")) == (2 if there is Dedup.CLAIM else 1)
        assert verbs.peek("there")[0].id == first.id
        assert verbs.bodies(queue="there") == [b"x"]

    def test_of_twins_that_move_together_the_oldest_arrives_even_if_it_is_delayed(self, verbs):
        verbs.create("here", dedup=Dedup.CLAIM)
        verbs.create("there", dedup=Dedup.SEND)
        delayed, _ = verbs.send(Draft(b"x", delay_ms=100), b"x", to="here")
        assert verbs.move("here", "there") == 2
        assert [message.id for message in verbs.peek("there")] == [delayed.id]

    def test_a_message_without_a_key_gets_one_where_it_is_asked_for(self, verbs):
        verbs.create("here")
        verbs.create("there", dedup=Dedup.SEND)
        [moved] = verbs.send(b"x", to="here")
        verbs.move("here", "there")
        assert verbs.send(b"x", to="there") == [Sent(moved.id, stored=False)]

    def test_a_message_keeps_the_key_it_has(self, verbs):
        verbs.create("here", dedup=Dedup.CLAIM)
        verbs.create("there", dedup=Dedup.SEND)
        [moved] = verbs.send(Draft(b"x", dedup_key=b"k"), to="here")
        verbs.move("here", "there")
        assert verbs.send(Draft(b"y", dedup_key=b"k"), to="there") == [Sent(moved.id, stored=False)]
        assert verbs.send(b"x", to="there")[0].stored

    def test_an_expired_resident_does_not_count(self, verbs):
        verbs.create("here")
        verbs.create("there", dedup=Dedup.SEND, retention_ms=100)
        verbs.send(b"x", to="there")
        verbs.now += 100
        [moved] = verbs.send(b"x", to="here")
        verbs.move("here", "there")
        assert [message.id for message in verbs.claim(queue="there")] == [moved.id]
