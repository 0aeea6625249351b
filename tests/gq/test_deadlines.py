"""Deadlines of messages that wait, and of those in a batch behind a slow one."""

from __future__ import annotations

import pytest

from tests.gq.conftest import at_work, bodies, dead_consumer, process, until


def test_past_its_deadline_a_queued_message_is_still_delivered_at_least_once(client, clock):
    pushed = client.producer().push(b"x", clock() / 1000 + 5)
    clock.advance(10)
    assert client.status(pushed) == "queued"
    assert bodies(client, 1) == [b"x"]
    assert client.status(pushed) == "processed"


def test_past_its_deadline_a_queued_message_fails_at_most_once(client, clock):
    with client.producer() as producer:
        pushed, other = producer.push(b"x", clock() / 1000 + 5), producer.push(b"y", clock() / 1000 + 60)
    clock.advance(10)
    assert bodies(client, 1, delivery="at_most_once") == [b"y"]
    assert (client.status(pushed), client.status(other)) == ("failed", "processed")


def test_at_least_once_the_deadline_is_the_end_of_a_claim(client, clock):
    client.producer().push(b"x", clock() / 1000 + 60)
    [message] = dead_consumer(client)
    assert message.ready_at == message.deadline_at
    clock.advance(60)
    [again] = dead_consumer(client)
    assert (again.id, again.receives) == (message.id, 2)
    clock.advance(7200)
    assert dead_consumer(client) == []  # past its deadline it is held for good, until its consumer is found dead


def test_at_most_once_a_deadline_fails_what_is_held(client, clock):
    pushed = client.producer().push(b"x", clock() / 1000 + 60)
    dead_consumer(client, delivery="at_most_once")
    clock.advance(60)
    assert dead_consumer(client, delivery="at_most_once") == []
    assert client.status(pushed) == "failed"


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_deadline_that_passes_before_its_turn_comes(client, clock, delivery):
    """The batch holds two; the first takes so long that the claim of the second has ended."""
    with client.producer(batch=2) as producer:
        first, second = producer.push(b"1"), producer.push(b"2", clock() / 1000 + 60)
    receives = []

    def slow(payload):
        receives.append((payload, consumer.current.receives))
        if payload == b"1":
            clock.advance(61)

    consumer = client.consumer(delivery=delivery)
    with at_work(consumer, slow):
        until(lambda: client.status(second) in ("processed", "failed"))
    assert client.status(first) == "processed"
    if delivery == "at_least_once":
        assert receives == [(b"1", 1), (b"2", 2)]  # given back and claimed again
        assert client.status(second) == "processed"
    else:
        assert receives == [(b"1", 1)]
        assert client.status(second) == "failed"
    assert consumer.lost == 0


def test_a_consumer_slower_than_the_deadline_loses_to_another(client, opened, clock):
    pushed = client.producer().push(b"x", clock() / 1000 + 60)
    other, lost, seen = opened(), [], []

    def slow(_):
        clock.advance(61)
        seen.extend(bodies(other, 1))

    process(client, slow, 1, on_lost=lost.append)
    assert (seen, lost) == ([b"x"], [pushed])
    assert client.status(pushed) == "processed"


def test_at_most_once_no_other_gets_it(client, opened, clock):
    with client.producer() as producer:
        pushed, _ = producer.push(b"x", clock() / 1000 + 60), producer.push(b"y")
    other, lost, seen = opened(), [], []

    def slow(_):
        clock.advance(61)
        seen.extend(bodies(other, 1, delivery="at_most_once"))

    process(client, slow, 1, batch=1, delivery="at_most_once", on_lost=lost.append)
    assert (seen, lost) == ([b"y"], [pushed])
    assert client.status(pushed) == "failed"
