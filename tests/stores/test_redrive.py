from __future__ import annotations

import pytest

from penstock.model import Dedup, Draft, Outcome, Receipt, Redrive, Settings

pytestmark = pytest.mark.needs("redrive")


@pytest.fixture
def redriven(verbs):
    """Messages of "q" are delivered twice, then go to "dead"."""
    verbs.create("dead")
    verbs.create(redrive=Redrive(2, "dead"), visibility_ms=10)
    return verbs


def deliver(verbs, times: int, queue: str = "q") -> None:
    for _ in range(times):
        assert verbs.claim(hold_ms=0, queue=queue)


def test_delivered_as_often_as_allowed_then_moved_instead(redriven):
    [sent] = redriven.send(b"x")
    deliver(redriven, 2)
    assert redriven.seen("dead") == []
    assert redriven.bodies() == []
    [dead] = redriven.peek("dead")
    assert (dead.id, dead.queue, dead.receives, dead.claim, dead.ready_at) == (sent.id, "dead", 0, 2, 0)
    assert redriven.outcomes() == [Outcome.DEAD_LETTERED]
    assert (redriven.tally("dead").arrived, redriven.tally("dead").departed) == (1, 0)
    assert "dead" in redriven.stirred


def test_the_claim_goes_on_to_the_next(redriven):
    redriven.send(b"bad")
    deliver(redriven, 2)
    redriven.send(b"good")
    assert redriven.bodies(limit=1) == [b"good"]
    assert redriven.seen("dead") == [b"bad"]


def test_many_dead_letters_in_one_claim_keep_their_order(redriven):
    redriven.send(*(b"%d" % n for n in range(100)))
    deliver(redriven, 2)
    assert redriven.bodies(limit=1) == []
    assert redriven.bodies(queue="dead") == [b"%d" % n for n in range(100)]


def test_a_claim_that_is_still_held_is_not_a_dead_letter(redriven):
    redriven.send(b"x")
    deliver(redriven, 1)
    [held] = redriven.claim()
    assert redriven.bodies() == redriven.seen("dead") == []
    assert redriven.ack(held) == [True]


def test_a_message_that_has_expired_or_failed_is_not_a_dead_letter(redriven):
    redriven.update(redrive=Redrive(1, "dead"), retention_ms=100)
    redriven.send(b"expired")
    redriven.now += 50
    redriven.send(Draft(b"failed", deadline_at=redriven.now + 50), b"dead")
    deliver(redriven, 1)
    redriven.now += 50
    assert redriven.bodies() == []
    assert redriven.seen("dead") == [b"dead"]
    assert sorted(redriven.outcomes()) == [Outcome.EXPIRED, Outcome.DEAD_LETTERED, Outcome.FAILED]


def test_a_dead_letter_keeps_its_age(redriven):
    redriven.update("dead", retention_ms=100)
    redriven.send(b"x")
    deliver(redriven, 2)
    redriven.now += 100
    redriven.claim()
    assert redriven.bodies(queue="dead") == []
    assert redriven.outcomes("dead") == [Outcome.EXPIRED]


def test_the_delay_of_the_dead_letter_queue_is_not_added(redriven):
    redriven.update("dead", delay_ms=5_000)
    redriven.send(b"x")
    deliver(redriven, 2)
    redriven.claim()
    assert redriven.bodies(queue="dead") == [b"x"]


def test_a_stale_receipt_stays_stale_through_the_dead_letter_queue_and_back(redriven):
    redriven.send(b"x")
    [first] = redriven.claim()
    redriven.now += 10
    [second] = redriven.claim()
    redriven.now += 10
    redriven.claim()
    assert redriven.seen("dead") == [b"x"]
    # The name of the queue fences at once, the number of the claim as soon as somebody else has one.
    assert redriven.ack(first, second, Receipt(first.id, first.claim)) == [False, False, False]
    [third] = redriven.claim(queue="dead")
    assert third.claim == 3
    assert redriven.ack(Receipt(second.id, second.claim)) == [False]
    redriven.release(third)
    redriven.move("dead", "q")
    assert redriven.ack(second, Receipt(second.id, second.claim)) == [False, False]
    [fourth] = redriven.claim()
    assert (fourth.claim, fourth.receives) == (4, 1)
    assert redriven.ack(Receipt(third.id, third.claim)) == [False]
    assert redriven.ack(fourth) == [True]


def test_released_and_moved_back_it_is_delivered_as_often_again(redriven):
    redriven.send(b"x")
    deliver(redriven, 2)
    redriven.claim()
    redriven.move("dead", "q")
    deliver(redriven, 2)
    assert redriven.bodies() == []
    assert redriven.seen("dead") == [b"x"]


def test_a_queue_that_is_its_own_dead_letter_queue(verbs):
    verbs.create()
    verbs.update(redrive=Redrive(1, "q"))
    [sent] = verbs.send(b"x")
    deliver(verbs, 1)
    # The message is put back, and this claim passes it over: it cannot go round in circles.
    assert verbs.bodies() == []
    [again] = verbs.claim()
    assert (again.id, again.receives, again.claim) == (sent.id, 1, 2)
    assert verbs.outcomes() == [Outcome.DEAD_LETTERED]
    assert (verbs.tally().arrived, verbs.tally().departed) == (2, 1)


@pytest.mark.parametrize("dedup", Dedup)
def test_a_message_is_not_its_own_twin(verbs, dedup):
    verbs.create()
    verbs.update(redrive=Redrive(1, "q"), dedup=dedup)
    verbs.send(b"x")
    deliver(verbs, 1)
    verbs.claim()
    assert verbs.bodies() == [b"x"]


def test_two_queues_that_are_each_others_dead_letter_queue(verbs):
    verbs.create("a")
    verbs.create("b", redrive=Redrive(1, "a"))
    verbs.update("a", redrive=Redrive(1, "b"))
    verbs.send(b"x", to="a")
    for here, there in (("a", "b"), ("b", "a"), ("a", "b")):
        deliver(verbs, 1, queue=here)
        assert verbs.bodies(queue=here) == []
        assert verbs.seen(there) == [b"x"]
    assert verbs.peek("b")[0].claim == 3
    assert (verbs.tally("a").arrived, verbs.tally("b").arrived) == (2, 2)


def test_a_chain_of_dead_letter_queues(verbs):
    verbs.create("c")
    verbs.create("b", redrive=Redrive(1, "c"))
    verbs.create("a", redrive=Redrive(1, "b"))
    verbs.send(b"x", to="a")
    for queue in ("a", "b"):
        deliver(verbs, 1, queue=queue)
        verbs.claim(queue=queue)
    assert verbs.seen("c") == [b"x"]


def test_without_its_dead_letter_queue_a_message_is_delivered_forever(redriven):
    redriven.send(b"x")
    deliver(redriven, 2)
    redriven.delete("dead")
    deliver(redriven, 5)


def test_the_limit_of_now_counts(redriven):
    redriven.send(b"x")
    deliver(redriven, 2)
    redriven.update(redrive=Redrive(3, "dead"))
    deliver(redriven, 1)
    redriven.update(redrive=Redrive(1, "dead"))
    assert redriven.bodies() == []


@pytest.mark.needs("dedup")
class TestTwins:
    """A dead letter whose key the dead-letter queue already holds: one of the two is kept."""

    @pytest.mark.parametrize("here", Dedup)
    @pytest.mark.parametrize("there", Dedup)
    def test_a_resident_with_the_same_body(self, verbs, here, there):
        verbs.create("dead", dedup=there)
        verbs.create(dedup=here, redrive=Redrive(1, "dead"))
        [resident] = verbs.send(b"x", to="dead")
        verbs.send(b"x")
        deliver(verbs, 1)
        assert verbs.bodies() == []
        assert verbs.outcomes() == [Outcome.DEAD_LETTERED]
        kept = [message.id for message in verbs.peek("dead")]
        assert kept[0] == resident.id
        assert len(kept) == (1 if there is Dedup.SEND else 2)
        assert verbs.tally("dead").arrived == len(kept)

    @pytest.mark.parametrize("here", Dedup)
    @pytest.mark.parametrize("there", Dedup)
    def test_one_dead_letter_after_another(self, verbs, here, there):
        verbs.create("dead", dedup=there)
        verbs.create(dedup=here, redrive=Redrive(1, "dead"))
        for _ in range(2):
            verbs.send(b"x")
            deliver(verbs, 1)
            assert verbs.bodies() == []
            verbs.now += Settings().dedup_window_ms
        assert verbs.outcomes() == [Outcome.DEAD_LETTERED] * 2
        # The second has nowhere to go where its key is held; a queue without keys never asked for any.
        both = there is Dedup.CLAIM or {here, there} <= {Dedup.OFF, Dedup.WINDOW}
        assert len(verbs.seen("dead")) == (2 if both else 1)

    @pytest.mark.parametrize("there", Dedup)
    def test_two_in_one_claim(self, verbs, there):
        verbs.create("dead", dedup=there)
        verbs.create(redrive=Redrive(1, "dead"))
        first, _ = verbs.send(b"x", b"x")
        deliver(verbs, 1)
        assert verbs.bodies() == []
        assert verbs.outcomes() == [Outcome.DEAD_LETTERED] * 2
        assert verbs.peek("dead")[0].id == first.id
        assert len(verbs.seen("dead")) == (1 if there is Dedup.SEND else 2)

    def test_a_message_sent_again_finds_its_dead_twin_only_in_the_dead_letter_queue(self, verbs):
        verbs.create("dead", dedup=Dedup.SEND)
        verbs.create(dedup=Dedup.SEND, redrive=Redrive(1, "dead"))
        [dead] = verbs.send(b"x")
        deliver(verbs, 1)
        verbs.claim()
        assert verbs.send(b"x")[0].stored
        assert verbs.send(b"x", to="dead")[0].id == dead.id
