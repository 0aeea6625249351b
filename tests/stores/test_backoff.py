"""How long a message waits after a claim that has run out or was released."""

from __future__ import annotations

import pytest

from penstock.model import Backoff, Receipt, Redrive

BACKOFF = Backoff(100, 300)


@pytest.fixture
def q(verbs):
    """A queue with a backoff, and a message in it."""
    verbs.create(visibility_ms=10, backoff=BACKOFF)
    verbs.send(b"x")
    return verbs


def test_the_setting_is_kept(verbs):
    assert verbs.create(backoff=BACKOFF).settings.backoff == BACKOFF
    assert verbs.find().settings.backoff == BACKOFF
    assert verbs.update().settings.backoff is None


def test_a_claim_that_has_run_out_is_followed_by_a_wait(q):
    q.claim()
    q.now += 10
    until = q.now + 100
    assert q.bodies() == []
    assert q.next_due() == until
    q.now = until - 1
    assert q.bodies() == []
    q.now = until
    assert [message.receives for message in q.claim()] == [2]


def test_the_wait_begins_where_the_claim_has_ended(q):
    """However late somebody looks."""
    q.claim()
    q.now += 10 + 99
    assert q.bodies() == []
    q.now += 1
    assert q.bodies() == [b"x"]
    q.now += 10 + 200
    assert q.bodies() == [b"x"]


def test_the_wait_doubles_up_to_its_most(q):
    for wait in (100, 200, 300, 300):
        q.claim()
        q.now += 10
        assert q.bodies() == []
        q.now += wait - 1
        assert q.bodies() == []
        q.now += 1
    assert q.bodies() == [b"x"]


def test_a_message_that_waits_is_delayed(q):
    [message] = q.claim()
    q.now += 10
    states = []
    for look in (lambda: None, q.claim, lambda: q.sweep()):
        look()
        states.append((q.count().ready, q.count().delayed, q.count().claimed))
    assert states == [(0, 1, 0)] * 3
    assert q.release_all() == 0
    assert q.ack(message) == [True]  # too late, but first


def test_a_release_without_a_delay_waits(q):
    for wait in (100, 200):
        [message] = q.claim()
        assert q.release(message, delay_ms=None) == [True]
        assert q.next_due() == q.now + wait
        assert q.bodies() == []
        q.now += wait
    assert q.bodies() == [b"x"]


@pytest.mark.parametrize("delay_ms", [0, 7])
def test_an_explicit_delay_goes_before_the_backoff(q, delay_ms):
    [message] = q.claim()
    q.release(message, delay_ms=delay_ms)
    q.now += delay_ms
    assert q.bodies() == [b"x"]


def test_released_messages_of_several_queues_wait_as_their_own_queues_say(verbs):
    verbs.create("plain")
    verbs.create("patient", backoff=BACKOFF)
    claimed = []
    for name in ("plain", "patient"):
        verbs.send(name.encode(), to=name)
        claimed += verbs.claim(queue=name)
    assert verbs.release(*claimed, delay_ms=None) == [True, True]
    assert verbs.bodies(queue="plain") == [b"plain"]
    assert verbs.bodies(queue="patient") == []


def test_a_claim_that_is_cut_short_waits(q):
    [message] = q.claim()
    q.renew(message, until=q.now, shorten=True)
    assert q.bodies() == []
    q.now += 100
    assert q.bodies() == [b"x"]


def test_neither_a_delay_nor_a_claim_of_no_time_is_followed_by_a_wait(q):
    assert q.bodies(hold_ms=0) == q.bodies(hold_ms=0) == [b"x"]
    [message] = q.claim()
    q.release(message, delay_ms=50)
    q.now += 50
    assert q.bodies() == [b"x"]


def test_the_end_of_all_claims_is_followed_by_none(q):
    q.claim()
    assert q.release_all() == 1
    assert q.bodies() == [b"x"]


def test_a_message_held_by_a_renewal_alone_waits_as_well(verbs):
    verbs.create(backoff=BACKOFF)
    [sent] = verbs.send(b"x")
    verbs.renew(Receipt(sent.id), until=verbs.now + 10)
    verbs.now += 10
    assert verbs.bodies() == []
    assert verbs.count().delayed == 1
    verbs.now += 100
    assert verbs.bodies() == [b"x"]


def test_a_queue_that_loses_its_backoff_lets_waits_end(q):
    q.claim()
    q.now += 10
    assert q.bodies() == []
    q.update()
    q.now += 100
    assert q.bodies() == [b"x"]


@pytest.mark.needs("redrive")
def test_a_dead_letter_does_not_wait(verbs):
    verbs.create("dead")
    verbs.create(visibility_ms=10, backoff=BACKOFF, redrive=Redrive(2, "dead"))
    verbs.send(b"x")
    verbs.claim()
    verbs.now += 110
    assert verbs.bodies() == [b"x"]
    verbs.now += 10
    assert verbs.bodies() == []
    assert verbs.bodies(queue="dead") == [b"x"]
