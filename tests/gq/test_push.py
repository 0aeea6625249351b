"""How messages get from a producer into the store: at once, in batches, late, again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from penstock.errors import InvalidRequest, MessageNotFound, StoreUnavailable
from penstock.gq import Client
from penstock.gq.timings import GqTimings
from penstock.model import Dedup, Settings
from tests.gq.conftest import bodies, until
from tests.gq.faults import make_faulty

NEVER_LINGERS = {"linger_s": 600, "close_s": 0}


def stored(client: Client, queue: str = "default") -> list[str]:
    with client._access.unit(write=False) as (unit, _now):
        return [message.id for message in unit.messages.peek(queue, 1_000)]


def test_a_batch_of_one_is_stored_at_once(client):
    producer = client.producer()
    first = producer.push(b"1")
    assert stored(client) == [first]
    second = producer.push(b"2")
    assert stored(client) == [first, second]


def test_a_batch_is_stored_when_it_is_full(client):
    producer = client.producer(batch=3, linger_s=600)
    pushed = [producer.push(b"x"), producer.push(b"x")]
    assert stored(client) == []
    assert [client.status(one) for one in pushed] == ["queued", "queued"]
    pushed.append(producer.push(b"x"))
    assert stored(client) == pushed
    pushed.append(producer.push(b"x"))
    assert stored(client) == pushed[:3]


def test_a_batch_is_stored_when_its_payloads_are_long(client):
    producer = client.producer(batch=1_000, linger_s=600)
    pushed = [producer.push(b"x" * 1_048_576) for _ in range(16)]
    with client._access.unit(write=False) as (unit, now):
        assert unit.count("default", now, 100).total == len(pushed)


def test_a_partial_batch_is_stored_after_a_short_time(client):
    producer = client.producer(batch=100, linger_s=0.05)
    for _ in range(2):
        began = time.monotonic()
        pushed = producer.push(b"x")
        until(lambda: stored(client)[-1:] == [pushed])  # noqa: B023
        assert time.monotonic() - began >= 0.05


def test_flush_and_close_store_what_is_left(client):
    producer = client.producer(batch=100, linger_s=600)
    pushed = [producer.push(b"1")]
    producer.flush()
    assert stored(client) == pushed
    producer.flush()
    pushed.append(producer.push(b"2"))
    producer.close()
    producer.close()
    assert stored(client) == pushed
    with pytest.raises(InvalidRequest, match="closed"):
        producer.push(b"3")


def test_closing_the_client_stores_what_its_producers_hold(opened):
    client, other = opened(), opened()
    pushed = client.producer(batch=100, linger_s=600).push(b"x")
    client.close()
    assert stored(other) == [pushed]


def test_ids_are_known_at_once_and_never_shared(client):
    producers = [client.producer(batch=batch, linger_s=600) for batch in (1, 2, 3, 50)]
    pushed = [producer.push(b"x") for _ in range(20) for producer in producers]
    for producer in producers:
        producer.close()
    assert len(set(pushed)) == 80
    assert sorted(stored(client)) == sorted(pushed)


def test_one_producer_keeps_its_order(client):
    with client.producer(batch=3) as producer:
        for number in range(10):
            producer.push(str(number))
    assert bodies(client, 10) == [str(number).encode() for number in range(10)]


def test_numbers_that_were_reserved_long_ago_are_not_used(opened):
    """They would put a message before those that others have sent meanwhile."""
    client = opened(timings=GqTimings(reservation_s=0))
    producer = client.producer(batch=3, linger_s=600)
    producer.push(b"1")
    producer.flush()
    client.producer().push(b"2")
    producer.push(b"3")
    producer.flush()
    assert bodies(client, 3) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_that_failed_is_stored_once(opened, when):
    """Also when it was stored although the store could not say so."""
    client = opened(timings=GqTimings(reservation_s=600))
    producer = client.producer(batch=3, linger_s=600)
    pushed = [producer.push(b"1"), producer.push(b"2")]
    setattr(make_faulty(client), when, 1)
    pushed.append(producer.push(b"3"))  # accepted: it is at hand
    with client._access.unit(write=False) as (unit, now):
        assert unit.count("default", now, 10).total == (3 if when == "after" else 0)
    producer.flush()
    assert stored(client) == pushed
    pushed.append(producer.push(b"4"))
    producer.flush()
    assert stored(client) == pushed


def test_what_was_processed_before_the_retry_is_not_stored_again(client):
    producer = client.producer(batch=2, linger_s=600)
    faulty = make_faulty(client)
    pushed = [producer.push(b"1")]
    faulty.after = 1
    pushed.append(producer.push(b"2"))
    assert bodies(client, 1, batch=1) == [b"1"]
    producer.flush()
    assert stored(client) == pushed[1:]


def test_a_push_that_raises_has_taken_nothing(client):
    producer = client.producer(batch=2, **NEVER_LINGERS)
    faulty = make_faulty(client)
    pushed = [producer.push(b"1")]
    faulty.before = 100
    pushed.append(producer.push(b"2"))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            producer.push(b"refused")
    with pytest.raises(StoreUnavailable):
        producer.flush()
    with pytest.raises(StoreUnavailable, match="2 messages are not stored"):
        producer.close()
    faulty.before = 0
    producer.close()
    assert stored(client) == pushed


def test_a_push_without_numbers_raises(client):
    producer = client.producer(batch=2)
    make_faulty(client).before = 1
    with pytest.raises(StoreUnavailable):
        producer.push(b"refused")
    pushed = producer.push(b"1")
    producer.flush()
    assert stored(client) == [pushed]


def test_a_single_push_that_raises(client):
    producer = client.producer()
    make_faulty(client).before = 1
    with pytest.raises(StoreUnavailable):
        producer.push(b"refused")
    assert stored(client) == []


def test_a_late_batch_is_tried_again_and_again(client, caplog):
    producer = client.producer(batch=10, linger_s=0.01)
    faulty = make_faulty(client)
    first = producer.push(b"0")
    until(lambda: stored(client) == [first])
    faulty.before = 3
    pushed = producer.push(b"1")
    until(lambda: stored(client)[1:] == [pushed])
    assert faulty.before == 0
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1  # one for an outage, not one for a try


def test_close_waits_for_a_store_that_comes_back(client):
    producer = client.producer(batch=10, linger_s=600, close_s=30)
    pushed = producer.push(b"1")
    make_faulty(client).before = 3
    producer.close()
    assert stored(client) == [pushed]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_queue_that_drops_twins(client, batch):
    with client._access.unit() as (unit, now):
        unit.create_queue("once", Settings(dedup=Dedup.SEND), now)
    with client.producer("once", batch=batch, linger_s=600) as producer:
        first = producer.push(b"x")
        twin = producer.push(b"x")
        other = producer.push(b"y")
    assert stored(client, "once") == [first, other]
    assert client.status(first) == client.status(other) == "queued"
    if batch == 1:
        assert twin == first
    else:
        with pytest.raises(MessageNotFound):
            client.status(twin)


@pytest.mark.parametrize("batch", [1, 2])
def test_the_name_space_of_the_dedup_service(client, batch):
    with client.producer("dedupq/x", batch=batch) as producer:
        for payload in (b"a", b"a", b"b", b"a"):
            producer.push(payload)
    assert bodies(client, 2, queue="dedupq/x") == [b"a", b"b"]
    assert stored(client, "dedupq/x") == []


@pytest.mark.parametrize("batch", [1, 2])
def test_a_queue_that_was_deleted_is_made_again(client, batch):
    producer = client.producer(batch=batch, linger_s=600)
    with client._access.unit() as (unit, now):
        unit.delete_queue("default", now)
    pushed = producer.push(b"x")
    producer.flush()
    assert stored(client) == [pushed]


def test_many_threads_push(client):
    with client.producer(batch=5) as producer:
        threads = [
            threading.Thread(target=lambda name=name: [producer.push(f"{name}-{number}") for number in range(30)])
            for name in "abcd"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(stored(client)) == 120


PROGRAM = """
import os, sys
from penstock.gq import Client
from penstock.gq.timings import GqTimings
client = Client(sys.argv[1])
producer = client.producer(batch=100, linger_s=600)
print(producer.push(b"x"), flush=True)
if sys.argv[2] == "fork" and os.fork() == 0:
    try:
        producer.flush()
    except Exception as error:
        print(error, flush=True)
    sys.exit()
if sys.argv[2] == "fork":
    os.wait()
"""


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_a_program_that_ends_without_closing(client, url, how):
    """Nothing pushed is lost; and what a fork has copied is stored by the parent alone."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, url, how], capture_output=True, text=True, env=os.environ)
    assert (run.returncode, run.stderr) == (0, "")
    [pushed, *told] = run.stdout.splitlines()
    assert stored(client) == [pushed]
    assert [line.partition(":")[0] for line in told] == (["a client does not survive a fork"] if how == "fork" else [])
