"""Callbacks that return and callbacks that do not."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.errors import InvalidRequest
from penstock.gq.backoff import pause_ms
from tests.gq.conftest import at_work, bodies, consumers, process, until

BOTH = pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])


@BOTH
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_each_message_once_and_in_order(client, delivery, batch):
    with client.producer(batch=7) as producer:
        pushed = [producer.push(f"{number}") for number in range(20)]
    assert bodies(client, 20, batch=batch, delivery=delivery) == [b"%d" % number for number in range(20)]
    assert {client.status(one) for one in pushed} == {"processed"}


def test_queues_are_separate(client):
    client.producer("a").push(b"a")
    client.producer("b").push(b"b")
    assert bodies(client, 1, queue="b") == [b"b"]
    assert bodies(client, 1, queue="a") == [b"a"]


def test_a_consumer_waits_for_a_queue_that_is_made_later(client):
    seen = []
    with at_work(client.consumer("later"), seen.append):
        until(lambda: consumers(client))
        client.producer("later").push(b"x")
        until(lambda: seen)
    assert seen == [b"x"]


@BOTH
def test_a_callback_that_raises_is_called_again(client, delivery, caplog):
    pushed = client.producer().push(b"x")
    tries = []

    def stumble(payload):
        tries.append((payload, consumer.current.receives))
        if len(tries) < 3:
            raise ValueError(f"try {len(tries)}")
        consumer.stop()

    consumer = client.consumer(delivery=delivery)
    with at_work(consumer, stumble):
        until(lambda: client.status(pushed) == "processed")
    assert tries == [(b"x", 1), (b"x", 2), (b"x", 3)]
    assert [record.exc_info[1].args[0] for record in caplog.records if record.exc_info] == ["try 1", "try 2"]


@BOTH
def test_a_callback_that_raises_is_called_again_after_a_growing_pause(client, clock, delivery):
    """The others do not wait for it, and meanwhile it is queued."""
    with client.producer(batch=2) as producer:
        poison, good = producer.push(b"poison"), producer.push(b"good")
    tries, done = [], []

    def raise_at_poison(payload):
        if payload == b"good":
            done.append(payload)
            return
        tries.append(payload)
        raise ValueError("always")

    with at_work(client.consumer(delivery=delivery), raise_at_poison):
        pauses: dict[int, int] = {}
        while max(pauses, default=0) < 10:
            until(lambda: tries and client.status(poison) == "queued")
            with client._access.unit(write=False) as (unit, now):
                due = unit.consumers.first_due("default")
                receives = {message.id: message.receives for message in unit.messages.peek("default", 10)}[poison]
            if due is not None:  # else a short pause is over already
                pauses.setdefault(receives, due - now)
                clock.advance(max(0, due - now) / 1000 + 0.01)
        until(lambda: done and client.status(good) == "processed")
    # The clock of the machine goes on meanwhile, so each is at most as long as it was made.
    assert all(pause <= 100 << receives - 1 for receives, pause in pauses.items())
    assert pauses[10] > 100 << 8


@pytest.mark.parametrize(
    ("receives", "left_ms", "pause"),
    [
        (1, None, 100),
        (2, None, 200),
        (5, None, 1600),
        (11, None, 60000),
        (10**9, None, 60000),
        (0, None, 100),
        (5, 10000, 1600),
        (5, 3000, 1500),
        (1, 1, 0),
        (1, -5, 0),
    ],
)
def test_a_pause_doubles_and_leaves_time_before_the_deadline(receives, left_ms, pause):
    assert pause_ms(receives, None if left_ms is None else 1_000_000 + left_ms, 1_000_000) == pause


@BOTH
def test_a_callback_that_raises_after_the_deadline_has_failed(client, clock, delivery):
    with client.producer() as producer:
        pushed, other = producer.push(b"late", clock() / 1000 + 60), producer.push(b"other")
    seen = []

    def late(payload):
        seen.append(payload)
        if payload == b"late":
            clock.advance(61)
            raise ValueError("too late")

    process(client, late, 2, delivery=delivery)
    assert client.status(pushed) == "failed"
    assert client.status(other) == "processed"
    assert seen == [b"late", b"other"]


@BOTH
def test_a_callback_that_returns_after_the_deadline_has_processed(client, clock, delivery):
    pushed = client.producer().push(b"x", clock() / 1000 + 60)
    process(client, lambda _: clock.advance(61), 1, delivery=delivery)
    assert client.status(pushed) == "processed"


def test_what_a_callback_returns_does_not_matter(client):
    pushed = client.producer().push(b"x")
    process(client, lambda _: False, 1)
    assert client.status(pushed) == "processed"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_end_of_the_program_in_a_callback(client, error):
    """The batch goes back, and the error comes out."""
    with client.producer(batch=5) as producer:
        pushed = [producer.push(f"{number}") for number in range(5)]

    def end(payload):
        if payload == b"1":
            raise error

    with pytest.raises(error), at_work(client.consumer(), end):
        until(lambda: client.status(pushed[0]) == "processed" and not consumers(client))
    assert [client.status(one) for one in pushed] == ["processed", *["queued"] * 4]
    assert bodies(client, 4) == [b"1", b"2", b"3", b"4"]


def test_the_message_at_hand(client, clock):
    pushed = client.producer("q").push(b"x", clock() / 1000 + 60)
    consumer = client.consumer("q")
    seen = []

    def look(payload):
        seen.append(consumer.current)
        consumer.stop()

    assert consumer.current is None
    with at_work(consumer, look):
        until(lambda: seen)
    [message] = seen
    assert (message.id, message.queue, message.body, message.receives) == (pushed, "q", b"x", 1)
    assert consumer.current is None


def test_a_consumer_processes_once(client):
    consumer = client.consumer()
    with at_work(consumer, print):
        until(lambda: consumers(client))
        with pytest.raises(InvalidRequest, match="already"):
            consumer.process(print)
    with pytest.raises(InvalidRequest, match="already"):
        consumer.process(print)


@pytest.mark.parametrize("callback", [None, b"x", 7])
def test_a_callback_that_is_none(client, callback):
    with pytest.raises(InvalidRequest, match="callback"):
        client.consumer().process(callback)


def test_a_queue_that_is_deleted_at_work(client):
    """What was at hand is lost, and the consumer goes on with a new queue of the name."""
    client.producer().push(b"old")
    seen = []

    def delete(payload):
        seen.append(payload)
        if payload == b"old":
            with client._access.unit() as (unit, now):
                unit.delete_queue("default", now)
            client.producer().push(b"new")

    with at_work(client.consumer(), delete) as consumer:
        until(lambda: seen == [b"old", b"new"] and consumers(client) == [consumer.id])
    assert consumer.lost == 1


def test_a_callback_may_push_and_ask(client):
    first = client.producer().push(b"1")
    made = []

    def chain(payload):
        if payload == b"1":
            made.append(client.producer("next").push(b"2"))
            assert client.status(made[0]) == "queued"

    process(client, chain, 1)
    assert client.status(first) == "processed"
    assert bodies(client, 1, queue="next") == [b"2"]


def test_threads_share_a_client(client):
    """Producers and consumers of one client, all at once."""
    seen, lock, count = [], threading.Lock(), 60

    def note(payload):
        with lock:
            seen.append(payload)

    def push(name):
        with client.producer(batch=4) as producer:
            for number in range(count):
                producer.push(f"{name}-{number}")

    # Long enough that none of them is declared dead because this machine is busy.
    one, two, three = (client.consumer(batch=batch, dead_after_s=600) for batch in (10, 2, 10))
    pushers = [threading.Thread(target=push, args=(name,)) for name in "ab"]
    with at_work(one, note), at_work(two, note), at_work(three, note):
        for thread in pushers:
            thread.start()
        for thread in pushers:
            thread.join()
        until(lambda: len(seen) >= 2 * count)
    assert sorted(seen) == sorted(f"{name}-{number}".encode() for name in "ab" for number in range(count))


def test_a_failed_message_is_logged_with_its_id(client, caplog):
    pushed = client.producer().push(b"x")
    with caplog.at_level(logging.WARNING, "penstock.gq"):
        process(client, lambda _: 1 / 0, 1)
    assert [pushed in record.getMessage() for record in caplog.records] == [True]
