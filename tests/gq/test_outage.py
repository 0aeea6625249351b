"""A database that goes away and comes back."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.errors import StoreUnavailable
from penstock.gq import Client
from tests.gq.conftest import PATIENCE_S, at_work, bodies, until


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request):
    return request.getfixturevalue({"postgresql": "own_postgres", "mariadb": "own_mariadb"}[request.param])


@pytest.fixture
def client(server):
    with Client(server.new_url()) as client:
        yield client


@pytest.mark.parametrize("outage", ["stop", "kill"])
def test_a_consumer_goes_on_when_the_database_is_back(server, client, outage, caplog):
    seen, lock = [], threading.Lock()

    def note(payload):
        with lock:
            seen.append(payload)

    with client.producer(batch=10) as producer, at_work(client.consumer(), note) as consumer:
        pushed = [producer.push(str(number)) for number in range(10)]
        until(lambda: len(seen) == 10)
        getattr(server, outage)()
        until(lambda: "consuming default fails" in caplog.text)
        server.start()
        pushed += [producer.push(str(number)) for number in range(10, 20)]
        until(lambda: len(set(seen)) == 20)
        until(lambda: {client.status(one) for one in pushed} == {"processed"})
    assert sorted(seen, key=int) == [str(number).encode() for number in range(20)]
    assert consumer.lost == 0
    assert "is tried again" in caplog.text


def test_an_outcome_is_told_late_rather_than_never(server, client):
    """The database goes away while the callback runs, for longer than a consumer may be silent."""
    pushed = client.producer().push(b"x")
    began, may_end = threading.Event(), threading.Event()

    def wait(_):
        began.set()
        may_end.wait(PATIENCE_S)

    with at_work(client.consumer(heartbeat_s=0.2, dead_after_s=1), wait) as consumer:
        assert began.wait(PATIENCE_S)
        server.stop()
        may_end.set()
        time.sleep(1.2)  # nothing tells that a consumer has been silent for too long but the time
        server.start()
        until(lambda: client.status(pushed) == "processed")
    assert consumer.lost == 0


def test_a_producer_keeps_what_it_has_taken(server, client):
    producer = client.producer(batch=3, linger_s=0.05)
    pushed = [producer.push(b"0")]
    producer.flush()
    server.stop()
    pushed += [producer.push(b"1"), producer.push(b"2"), producer.push(b"3")]
    with pytest.raises(StoreUnavailable):
        producer.push(b"refused")
    server.start()
    until(lambda: not any(producer.holds(one) for one in pushed))
    producer.close()
    assert bodies(client, 4) == [b"0", b"1", b"2", b"3"]


def test_a_database_that_hangs_for_a_while(server, client):
    seen = []
    with at_work(client.consumer(heartbeat_s=0.2, dead_after_s=20), seen.append) as consumer:
        with client.producer() as producer:
            producer.push(b"1")
            until(lambda: seen == [b"1"])
            server.pause()
            time.sleep(1)  # the hang itself: several heartbeats long, and shorter than a consumer may be silent
            server.resume()
            pushed = producer.push(b"2")
        until(lambda: client.status(pushed) == "processed")
    assert (seen, consumer.lost) == ([b"1", b"2"], 0)
