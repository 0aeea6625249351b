"""A message in every state that a user can ask for."""

from __future__ import annotations

import pytest

from penstock.errors import MessageNotFound
from penstock.model import LedgerMode, Redrive, Settings
from tests.gq.conftest import DEAD_AFTER_S, at_work, bodies, dead_consumer, process, until


@pytest.mark.parametrize("batch", [1, 3])
def test_the_life_of_a_message(client, batch):
    with client.producer(batch=batch) as producer:
        pushed = producer.push(b"x")
        assert client.status(pushed) == "queued"
    assert client.status(pushed) == "queued"
    seen = []
    process(client, lambda _: seen.append(client.status(pushed)), 1)
    assert seen == ["consumed"]
    assert client.status(pushed) == client.status(pushed.upper()) == "processed"


def test_a_callback_that_raises(client, clock):
    with client.producer() as producer:
        pushed = producer.push(b"x", clock() / 1000 + 60)

    def fail(_):
        raise ValueError("no")

    process(client, fail, 1)
    assert client.status(pushed) == "queued"

    def fail_late(_):
        clock.advance(61)
        raise ValueError("too late")

    process(client, fail_late, 1)
    assert client.status(pushed) == "failed"


@pytest.mark.parametrize(("delivery", "status"), [("at_least_once", "queued"), ("at_most_once", "failed")])
def test_a_consumer_that_was_lost(client, clock, delivery, status):
    with client.producer() as producer:
        pushed = producer.push(b"x")
    dead_consumer(client, delivery=delivery)
    assert client.status(pushed) == "consumed"
    clock.advance(DEAD_AFTER_S + 1)
    assert client.status(pushed) == "consumed"  # no consumer has noticed yet
    with client._access.unit() as (unit, now):
        assert unit.consumers.reap(now) == 1
    assert client.status(pushed) == status


def test_a_consumed_message_past_its_deadline(client, clock):
    with client.producer() as producer:
        pushed = producer.push(b"x", clock() / 1000 + 60)
    dead_consumer(client)
    assert client.status(pushed) == "consumed"
    clock.advance(60)
    assert client.status(pushed) == "queued"  # any consumer may take it


@pytest.mark.parametrize("unknown", ["", "x", "0199a8c2-51f4-7abc-9def-00000000002a", None, 7])
def test_an_unknown_id(client, unknown):
    client.producer().close()
    with pytest.raises(MessageNotFound):
        client.status(unknown)


def test_the_number_of_a_message_is_not_its_id(client):
    with client.producer() as producer:
        pushed = producer.push(b"x")
    forged = "f" + pushed[1:]
    with pytest.raises(MessageNotFound):
        client.status(forged)
    assert bodies(client, 1) == [b"x"]
    with pytest.raises(MessageNotFound):
        client.status(forged)


def test_other_ways_of_leaving_a_queue(client, clock):
    with client._access.unit() as (unit, now):
        unit.create_queue("dead", Settings(), now)
        unit.create_queue("strict", Settings(redrive=Redrive(1, "dead")), now)
        unit.create_queue("short", Settings(retention_ms=1_000), now)
        unit.create_queue("gone", Settings(), now)
    pushed = {name: client.producer(name).push(b"x") for name in ("strict", "short", "gone", "default")}
    process(client, lambda _: 1 / 0, 1, queue="strict")
    clock.advance(0.1)  # the pause after a callback that raised
    with client._access.unit() as (unit, now):
        assert unit.claim("strict", 1, now, 1).messages == []
        unit.delete_queue("gone", now)
        unit.messages.purge("default", now, 10, unit.messages.last_seq())
    assert client.status(pushed["strict"]) == "queued"  # in its dead-letter queue
    assert client.status(pushed["gone"]) == client.status(pushed["default"]) == "failed"
    clock.advance(2)
    with client._access.unit() as (unit, now):
        unit.sweep(now, 100, 0)
    assert client.status(pushed["short"]) == client.status(pushed["gone"]) == "failed"
    assert bodies(client, 1, queue="dead") == [b"x"]
    assert client.status(pushed["strict"]) == "processed"


def test_a_queue_that_keeps_no_ledger_forgets(client):
    with client._access.unit() as (unit, now):
        unit.create_queue("default", Settings(ledger=LedgerMode.OFF), now)
    pushed = client.producer().push(b"x")
    bodies(client, 1)
    with pytest.raises(MessageNotFound):
        client.status(pushed)


def test_a_message_is_consumed_while_its_batch_waits(client):
    with client.producer(batch=2) as producer:
        first, second = producer.push(b"1"), producer.push(b"2")
    seen = []

    def look(_):
        # Twice the time after which the outcome of the first is reported behind the back of a slow second one.
        if seen:
            until(lambda: client.status(first) == "processed")
        seen.append((client.status(first), client.status(second)))

    with at_work(client.consumer(), look):
        until(lambda: len(seen) == 2)
    assert seen == [("consumed", "consumed"), ("processed", "consumed")]
