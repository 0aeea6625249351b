"""Consumers that are asked to stop: by a call, by a signal, by the end of a block."""

from __future__ import annotations

import signal
import threading

import pytest

from penstock.gq.timings import GqTimings
from tests.gq.conftest import PATIENCE_S, at_work, bodies, consumers, until
from tests.gq.faults import make_faulty
from tests.gq.workers import Worker


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_what_is_begun_is_finished_and_the_rest_goes_back(client, delivery):
    with client.producer(batch=5) as producer:
        pushed = [producer.push(str(number)) for number in range(5)]
    consumer = client.consumer(delivery=delivery)
    seen = []

    def stop_at_the_second(payload):
        seen.append(payload)
        if payload == b"1":
            consumer.stop()

    with at_work(consumer, stop_at_the_second):
        until(lambda: len(seen) == 2 and not consumers(client))
    assert seen == [b"0", b"1"]
    assert [client.status(one) for one in pushed] == ["processed"] * 2 + ["queued"] * 3
    assert bodies(client, 3, delivery=delivery) == [b"2", b"3", b"4"]


def test_a_stop_before_the_start(client):
    pushed = client.producer().push(b"x")
    consumer = client.consumer()
    consumer.stop()
    consumer.process(lambda _: pytest.fail("it was stopped"))
    assert client.status(pushed) == "queued"


def test_the_end_of_a_block_stops_a_consumer(client):
    with client.consumer() as consumer:
        thread = threading.Thread(target=consumer.process, args=(print,))
        thread.start()
        until(lambda: consumers(client) == [consumer.id])
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert consumers(client) == []


def test_closing_the_client_stops_its_consumers(opened):
    client, other = opened(timings=GqTimings(close_s=60, leave_s=60)), opened()
    pushed = client.producer().push(b"x")
    started = threading.Event()
    may_end = threading.Event()

    def wait(_):
        started.set()
        may_end.wait(PATIENCE_S)

    with at_work(client.consumer(), wait):
        assert started.wait(PATIENCE_S)
        threading.Timer(0.1, may_end.set).start()
        client.close()
        assert other.status(pushed) == "processed"
    assert consumers(other) == []


def test_a_store_that_is_away_when_the_consumer_stops(client):
    pushed = client.producer().push(b"x")
    consumer = client.consumer()
    faulty = make_faulty(client)

    def stop(_):
        faulty.before = 3
        consumer.stop()

    with at_work(consumer, stop):
        until(lambda: client.status(pushed) == "processed")
    assert consumers(client) == []


def test_a_store_that_stays_away(opened, clock, caplog):
    """The consumer gives up, and is missed by the others."""
    client = opened(timings=GqTimings(leave_s=0.2))
    with client.producer(batch=2) as producer:
        pushed = [producer.push(b"1"), producer.push(b"2")]
    consumer = client.consumer()
    faulty = make_faulty(client)

    def stop(_):
        faulty.before = 1_000_000
        consumer.stop()

    with at_work(consumer, stop):
        consumer.wait(30)
    faulty.before = 0
    assert "without a word" in caplog.text
    assert consumers(client) == [consumer.id]
    clock.advance(6)
    assert sorted(bodies(client, 2)) == [b"1", b"2"]
    assert [client.status(one) for one in pushed] == ["processed"] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_callback_finish(client, url, number):
    with client.producer(batch=3) as producer:
        pushed = [producer.push(b"finish"), producer.push(b"2"), producer.push(b"3")]
    with Worker(url) as worker:
        assert worker.line() == "begin finish"
        worker.send(number)
        assert worker.line() == "asked to stop"
        assert worker.line() == "end finish"
        assert worker.line() == "stopped, handlers restored"
        assert worker.wait() == 0
    assert [client.status(one) for one in pushed] == ["processed", "queued", "queued"]
    assert consumers(client) == []


def test_a_signal_ends_an_idle_consumer(client, url):
    with Worker(url) as worker:
        until(lambda: consumers(client))
        worker.send(signal.SIGTERM)
        assert worker.line() == "stopped, handlers restored"
        assert worker.wait() == 0
    assert consumers(client) == []


def test_a_second_signal_ends_a_callback_that_hangs(client, url):
    pushed = client.producer().push(b"stay")
    with Worker(url) as worker:
        assert worker.line() == "begin stay"
        worker.send(signal.SIGINT)
        assert worker.line() == "asked to stop"  # two signals at once may come as one
        worker.send(signal.SIGINT)
        assert worker.wait() != 0
    assert client.status(pushed) == "queued"
    assert consumers(client) == []


def test_signals_are_left_alone_outside_the_main_thread(client):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with at_work(client.consumer(), print):
        until(lambda: consumers(client))
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
