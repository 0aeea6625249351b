from __future__ import annotations

from penstock.model import Draft, Receipt


def test_a_renewed_claim_ends_later(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.renew(message, until=verbs.now + 100) == [True]
    verbs.now += 99
    assert verbs.bodies() == []
    verbs.now += 1
    assert verbs.bodies() == [b"x"]


def test_a_later_end_stays(verbs):
    verbs.create(visibility_ms=100)
    verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.renew(message, until=verbs.now + 10) == [True]
    assert verbs.peek() == [message]


def test_a_later_end_comes_nearer_when_shortening(verbs):
    verbs.create(visibility_ms=100)
    verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.renew(message, until=verbs.now + 10, shorten=True) == [True]
    verbs.now += 10
    assert verbs.bodies() == [b"x"]


def test_shortening_to_now_makes_ready(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.renew(message, until=verbs.now, shorten=True)
    assert verbs.bodies() == [b"x"]


def test_a_claim_that_has_run_out_comes_back_to_life(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.now += 50
    assert verbs.renew(message, until=verbs.now + 10) == [True]
    assert verbs.bodies() == []
    assert verbs.ack(message) == [True]


def test_a_renewal_is_not_a_delivery(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.renew(message, until=verbs.now + 99_999)
    [renewed] = verbs.peek()
    assert (renewed.receives, renewed.claim) == (1, 1)


def test_a_stale_receipt_renews_nothing(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [stale] = verbs.claim()
    verbs.now += 10
    [fresh] = verbs.claim()
    assert verbs.renew(stale, until=verbs.now + 1_000) == [False]
    assert verbs.peek() == [fresh]


def test_unknown_and_known_in_one_call(verbs):
    verbs.create()
    verbs.send(b"x", b"y")
    x, y = verbs.claim()
    verbs.ack(x)
    until = verbs.now + 99_999
    assert verbs.renew(x, y, Receipt("nothing"), Receipt(y.id, queue="other"), until=until) == [
        False,
        True,
        False,
        False,
    ]
    assert [message.ready_at for message in verbs.peek()] == [until]


def test_a_message_that_was_never_received_counts_as_received_once(verbs):
    verbs.create()
    ready, delayed = verbs.send(b"ready", Draft(b"delayed", delay_ms=10))
    until = verbs.now + 100
    assert verbs.renew(Receipt(ready.id), Receipt(delayed.id), until=until) == [True, True]
    assert [(message.ready_at, message.receives, message.claim) for message in verbs.peek()] == [
        (until, 1, 0),
        (until, 1, 0),
    ]
    assert verbs.count().claimed == 2


def test_a_longer_delay_stays_a_delay(verbs):
    verbs.create()
    [delayed] = verbs.send(Draft(b"x", delay_ms=100))
    assert verbs.renew(Receipt(delayed.id), until=verbs.now + 10) == [True]
    assert verbs.count().delayed == 1


def test_a_batch_of_a_thousand(verbs):
    verbs.create()
    verbs.send(*([b"x"] * 1_000))
    messages = verbs.claim(1_000)
    until = verbs.now + 99_999
    assert verbs.renew(*messages, until=until) == [True] * 1_000
    assert {message.ready_at for message in verbs.peek()} == {until}


def test_nothing(verbs):
    assert verbs.renew(until=verbs.now + 1) == []
