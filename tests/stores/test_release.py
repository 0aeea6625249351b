from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.model import Draft, Receipt, Redrive


def test_a_released_message_is_ready_in_its_old_place(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    one, two = verbs.claim(limit=2)
    assert verbs.release(two, one) == [True, True]
    assert verbs.seen() == verbs.bodies() == [b"1", b"2", b"3"]


def test_a_release_takes_no_delivery_back(verbs):
    verbs.create()
    verbs.send(b"x")
    verbs.release(*verbs.claim())
    [again] = verbs.claim()
    assert (again.receives, again.claim) == (2, 2)


def test_a_stale_receipt_releases_nothing(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [stale] = verbs.claim()
    verbs.now += 10
    [fresh] = verbs.claim()
    assert verbs.release(stale) == [False]
    assert verbs.peek() == [fresh]


def test_a_delayed_message_is_there_and_stays_delayed(verbs):
    verbs.create()
    [delayed] = verbs.send(Draft(b"x", delay_ms=100))
    assert verbs.release(Receipt(delayed.id)) == [True]
    assert verbs.bodies() == []
    assert verbs.count().delayed == 1


def test_a_ready_message_stays_as_it_is(verbs):
    verbs.create()
    [ready] = verbs.send(b"x")
    before = verbs.peek()
    assert verbs.release(Receipt(ready.id)) == [True]
    assert verbs.peek() == before


def test_unknown_ones_are_said_to_be_unknown(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.ack(message)
    assert verbs.release(message, Receipt("nothing")) == [False, False]
    assert verbs.release() == []


def test_the_queue_of_a_released_message_is_stirred(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"x")
    [message] = verbs.claim()
    assert "q" not in verbs.stirred
    verbs.release(message)
    assert "q" in verbs.stirred
    assert "other" not in verbs.stirred


def test_a_message_released_with_a_delay_is_delayed_and_keeps_its_place(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    [one] = verbs.claim(limit=1)
    assert verbs.release(one, delay_ms=100) == [True]
    assert "q" in verbs.stirred  # a waiting claim has to learn when it is due
    count = verbs.count()
    assert (count.ready, count.delayed, count.claimed) == (1, 1, 0)
    assert verbs.next_due() == verbs.now + 100
    verbs.now += 99
    assert verbs.seen() == [b"2", b"1"]
    assert verbs.bodies(hold_ms=0) == [b"2"]
    verbs.now += 1
    assert verbs.bodies() == [b"1", b"2"]


def test_the_receipt_stays_good_through_the_delay(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.release(message, delay_ms=100)
    assert verbs.locate(message) == ["q"]
    [seen] = verbs.peek()
    assert (seen.receives, seen.claim, seen.ready_at) == (1, 1, verbs.now + 100)
    assert verbs.ack(message) == [True]
    assert verbs.count().total == 0


def test_the_next_claim_counts_on(verbs):
    verbs.create()
    verbs.send(b"x")
    [first] = verbs.claim()
    verbs.release(first, delay_ms=100)
    verbs.now += 100
    [again] = verbs.claim()
    assert (again.receives, again.claim) == (2, 2)
    assert verbs.count().claimed == 1
    assert verbs.release(first, delay_ms=100) == [False]


def test_a_second_release_does_not_change_the_delay(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.release(message, delay_ms=100)
    until = verbs.now + 100
    verbs.now += 50
    assert verbs.release(message) == verbs.release(message, delay_ms=500) == [True]
    assert verbs.next_due() == until
    verbs.now = until
    assert verbs.release(message, delay_ms=500) == [True]  # it is ready, and no later claim was made
    assert verbs.next_due() == until + 500


def test_a_claim_that_has_run_out_can_be_released_with_a_delay(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.now += 20
    assert verbs.release(message, delay_ms=100) == [True]
    assert verbs.bodies() == []
    verbs.now += 100
    assert verbs.bodies() == [b"x"]


def test_a_renewal_ends_the_delay(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.release(message, delay_ms=100)
    assert verbs.renew(message, until=verbs.now + 50, shorten=True) == [True]
    assert (verbs.count().claimed, verbs.count().delayed) == (1, 0)
    assert verbs.release(message) == [True]
    assert verbs.bodies() == [b"x"]


def test_a_message_that_was_held_by_a_renewal_alone(verbs):
    verbs.create()
    [sent] = verbs.send(b"x")
    verbs.renew(Receipt(sent.id), until=verbs.now + 50)
    assert verbs.release(Receipt(sent.id), delay_ms=100) == [True]
    assert (verbs.count().delayed, verbs.count().claimed) == (1, 0)


def test_unclaimed_messages_do_not_become_delayed(verbs):
    verbs.create()
    [ready] = verbs.send(b"x")
    assert verbs.release(Receipt(ready.id), delay_ms=100) == [True]
    assert verbs.bodies() == [b"x"]


def test_the_end_of_all_claims_is_not_the_end_of_a_delay(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    one, _ = verbs.claim()
    verbs.release(one, delay_ms=100)
    assert verbs.release_all() == 1
    assert verbs.bodies() == [b"2"]


@pytest.mark.needs("moves")
def test_a_message_released_with_a_delay_moves_and_stays_delayed(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"x")
    verbs.release(*verbs.claim(), delay_ms=100)
    assert verbs.move("q", "other") == 1
    assert verbs.count("other").delayed == 1
    assert verbs.bodies(queue="other") == []
    verbs.now += 100
    [message] = verbs.claim(queue="other")
    assert (message.receives, message.claim) == (1, 2)


@pytest.mark.needs("redrive")
def test_deliveries_count_through_delays(verbs):
    verbs.create("dead")
    verbs.create(redrive=Redrive(2, "dead"))
    verbs.send(b"x")
    for _ in range(2):
        verbs.release(*verbs.claim(), delay_ms=100)
        verbs.now += 100
    assert verbs.bodies() == []
    assert verbs.bodies(queue="dead") == [b"x"]


def test_all_claims_of_a_queue_end(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"1", b"2", b"3")
    verbs.send(b"other's", to="other")
    verbs.claim(limit=2)
    verbs.claim(queue="other")
    assert verbs.release_all() == 2
    assert "q" in verbs.stirred
    assert verbs.bodies() == [b"1", b"2", b"3"]
    assert verbs.count("other").claimed == 1


def test_all_claims_end_but_no_delay_does(verbs):
    verbs.create()
    verbs.send(b"claimed", Draft(b"delayed", delay_ms=100))
    verbs.claim()
    assert verbs.release_all() == 1
    assert verbs.bodies() == [b"claimed"]
    assert verbs.count().delayed == 1


def test_claims_that_have_run_out_do_not_count_as_released(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.claim(limit=1, hold_ms=10)
    verbs.claim(limit=1, hold_ms=20)
    verbs.now += 10
    assert verbs.release_all() == 1
    assert verbs.release_all() == 0
    assert verbs.bodies() == [b"1", b"2"]


def test_up_to_the_limit_those_first_that_would_end_first(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    for hold_ms in (300, 100, 200):
        verbs.claim(limit=1, hold_ms=hold_ms)
    assert verbs.release_all(limit=2) == 2
    assert verbs.bodies() == [b"2", b"3"]


def test_all_of_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.release_all("nowhere")
