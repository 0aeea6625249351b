"""What a caller may get wrong, and what he is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock import limits
from penstock.errors import InvalidRequest, InvalidSetting, StoreForeign, TooLarge
from penstock.gq import Client
from tests.gq.conftest import bodies


@pytest.fixture
def url(sqlite_url):
    return sqlite_url


@pytest.mark.parametrize("bad", ["memory://", "mqcore:///x", "http://x", "x.db", "", None, 7])
def test_only_sql_stores(bad):
    with pytest.raises(InvalidSetting, match="SQL"):
        Client(bad)


def test_a_store_that_processes_cannot_share():
    with pytest.raises(InvalidSetting, match="a memory:// store cannot be shared by processes"):
        Client("memory://")


def test_a_file_that_is_not_a_store(tmp_path):
    (tmp_path / "x.db").write_text("not a database" * 100)
    with pytest.raises(StoreForeign):
        Client(f"sqlite:///{tmp_path}/x.db")


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä", "x" * 256, None, 3, "dedupq/"])
def test_names(client, name):
    with pytest.raises(InvalidRequest):
        client.producer(name)
    with pytest.raises(InvalidRequest):
        client.consumer(name)


@pytest.mark.parametrize("batch", [0, -1, True, 1.5, "1", None, 10_001])
def test_batches(client, batch):
    with pytest.raises(InvalidRequest, match="batch"):
        client.producer(batch=batch)
    with pytest.raises(InvalidRequest, match="batch"):
        client.consumer(batch=batch)


@pytest.mark.parametrize("delivery", ["exactly_once", "", None, 1])
def test_deliveries(client, delivery):
    with pytest.raises(InvalidRequest, match="at_least_once, at_most_once"):
        client.consumer(delivery=delivery)


@pytest.mark.parametrize("seconds", [0, -1, True, "2", None, float("nan"), float("inf"), 1e9])
def test_times_of_a_consumer(client, seconds):
    with pytest.raises(InvalidRequest, match="heartbeat_s"):
        client.consumer(heartbeat_s=seconds)
    with pytest.raises(InvalidRequest, match="dead_after_s"):
        client.consumer(dead_after_s=seconds)


def test_one_late_heartbeat_is_not_a_death(client):
    with pytest.raises(InvalidRequest, match="twice"):
        client.consumer(heartbeat_s=1, dead_after_s=1.5)


@pytest.mark.parametrize("payload", [None, 1, ["x"], object(), "\ud800"])
def test_payloads(client, payload):
    with client.producer() as producer, pytest.raises(InvalidRequest):
        producer.push(payload)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_payload_that_is_too_large_and_the_largest(client, batch):
    with client.producer(batch=batch) as producer:
        with pytest.raises(TooLarge, match=str(limits.BODY_BYTES)):
            producer.push(b"x" * (limits.BODY_BYTES + 1))
        producer.push(b"x" * limits.BODY_BYTES)
    assert [len(body) for body in bodies(client, 1)] == [limits.BODY_BYTES]


def test_a_text_is_stored_as_utf_8_and_bytes_as_they_are(client):
    with client.producer() as producer:
        producer.push("grün")
        producer.push(b"\x00\xff")
        producer.push(bytearray(b"b"))
        producer.push("")
    assert bodies(client, 4) == ["grün".encode(), b"\x00\xff", b"b", b""]


@pytest.mark.parametrize(
    "deadline", [float("nan"), float("inf"), -float("inf"), -1, True, "1", 1e300, 10**400, datetime(2030, 1, 1), b""]
)
@pytest.mark.parametrize("batch", [1, 5])
def test_bad_deadlines(client, deadline, batch):
    with client.producer(batch=batch) as producer, pytest.raises(InvalidRequest, match="deadline"):
        producer.push(b"x", deadline)


@pytest.mark.parametrize(
    ("deadline", "stored"),
    [
        (None, None),
        (0, 0),
        (1_900_000_000, 1_900_000_000_000),
        (1_900_000_000.123, 1_900_000_000_123),
        (datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC), 1_900_000_000_000),
        (datetime(2030, 3, 17, 19, 46, 40, tzinfo=timezone(timedelta(hours=2))), 1_900_000_000_000),
        (limits.NEVER // 1000, limits.NEVER),
    ],
)
@pytest.mark.parametrize("batch", [1, 5])
def test_deadlines(client, deadline, stored, batch):
    with client.producer(batch=batch) as producer:
        producer.push(b"x", deadline)
    with client._access.unit(write=False) as (unit, _):
        [message] = unit.messages.peek("default", 10)
    assert message.deadline_at == stored


def test_a_closed_client_and_a_closed_producer_say_so(opened):
    client = opened()
    producer = client.producer()
    late = client.producer(batch=5)
    consumer = client.consumer()
    client.close()
    client.close()
    for closed in (producer, late):
        with pytest.raises(InvalidRequest, match="closed"):
            closed.push(b"x")
        closed.close()
    for refused in (client.producer, lambda: client.status("00000000-0000-0000-0000-000000000000")):
        with pytest.raises(InvalidRequest, match="closed"):
            refused()
    consumer.process(print)  # it was stopped together with its client
