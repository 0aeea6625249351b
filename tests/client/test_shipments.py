"""Shipments through the client: claimed by number, read by position, ended as a whole."""

from __future__ import annotations

import pytest

from penstock.client import (
    Client,
    InvalidRequest,
    QueueNotFound,
    ShipmentConflict,
    ShipmentEnded,
    ShipmentNotFound,
    ShipmentRef,
)

FIRST = ShipmentRef("jobs", "lake", 1)


@pytest.fixture
def jobs(client: Client) -> Client:
    client.create_queue("jobs")
    client.send_many("jobs", ["a", "b", "c", "d", "e"])
    return client


def texts(client: Client, ref: ShipmentRef, *args: int | None, **kwargs: int) -> list[str]:
    return [message.text for message in client.read_shipment(ref, *args, **kwargs)]


def test_the_life_of_a_shipment(jobs):
    assert jobs.next_shipment("jobs", "lake") == FIRST
    claimed = jobs.claim_shipment(FIRST, limit=3, hold_ms=60_000)
    assert (claimed.ref, claimed.state, claimed.messages, claimed.bytes) == (FIRST, "open", 3, 3)
    again = jobs.claim_shipment(FIRST)
    assert (again.claimed_at, again.messages) == (claimed.claimed_at, 3)
    assert jobs.next_shipment("jobs", "lake") == FIRST
    assert jobs.shipment(FIRST) == again
    assert texts(jobs, FIRST) == ["a", "b", "c"]
    settled = jobs.settle_shipment(FIRST)
    assert (settled.state, settled.has_ended) == ("settled", True)
    assert jobs.settle_shipment(claimed) == settled
    assert jobs.next_shipment("jobs", "lake").number == 2
    second = jobs.claim_shipment(jobs.next_shipment("jobs", "lake"))
    assert jobs.release_shipment(second).state == "released"
    assert [(one.number, one.state) for one in jobs.shipments("jobs")] == [(1, "settled"), (2, "released")]
    assert list(jobs.shipments("jobs", "other")) == []


def test_by_bytes(jobs):
    claimed = jobs.claim_shipment(FIRST, max_bytes=2)
    assert (claimed.messages, claimed.bytes) == (2, 2)
    with pytest.raises(InvalidRequest, match="max_bytes must be between 1 and"):
        jobs.claim_shipment(FIRST, max_bytes=0)


def test_it_says_where_it_is_stored(jobs):
    assert jobs.claim_shipment(FIRST).stored_in is None
    settled = jobs.settle_shipment(FIRST, stored_in="s3://lake/jobs")
    assert settled.stored_in == "s3://lake/jobs"
    assert jobs.settle_shipment(FIRST, stored_in="elsewhere") == settled
    assert [one.stored_in for one in jobs.shipments("jobs")] == ["s3://lake/jobs"]


def test_nothing_ready_is_no_shipment(client):
    client.create_queue("jobs")
    assert client.claim_shipment(FIRST) is None
    with pytest.raises(ShipmentNotFound) as caught:
        client.shipment(FIRST)
    assert (caught.value.status, caught.value.code) == (404, "shipment-not-found")


def test_a_missing_queue_is_told_from_a_missing_shipment(jobs):
    asks = (jobs.shipment, jobs.settle_shipment, jobs.release_shipment, jobs.beat_shipment,
            lambda ref: list(jobs.read_shipment(ref)), lambda ref: list(jobs.arrow.read_shipment(ref)))  # fmt: skip
    for ask in asks:
        with pytest.raises(ShipmentNotFound):
            ask(FIRST)
        with pytest.raises(QueueNotFound, match="queue 'nowhere' does not exist"):
            ask(ShipmentRef("nowhere", "lake", 1))


def test_messages_are_read_by_position(jobs):
    jobs.claim_shipment(FIRST)
    assert texts(jobs, FIRST, 1, 3) == ["b", "c"]
    assert texts(jobs, FIRST, 3, 99) == ["d", "e"]
    assert texts(jobs, FIRST, 3, 3) == texts(jobs, FIRST, 99) == []
    assert texts(jobs, FIRST, per_page=2) == ["a", "b", "c", "d", "e"]
    assert texts(jobs, FIRST, 1, 4, per_page=2) == ["b", "c", "d"]


def test_it_is_the_turn_of_another_number(jobs):
    jobs.claim_shipment(FIRST, limit=1)
    with pytest.raises(ShipmentConflict) as caught:
        jobs.claim_shipment(ShipmentRef("jobs", "lake", 2))
    assert (caught.value.expected, caught.value.status) == (1, 409)


def test_an_ended_shipment_says_how_it_ended(jobs):
    jobs.claim_shipment(FIRST)
    jobs.release_shipment(FIRST)
    for ask in (jobs.claim_shipment, jobs.settle_shipment, jobs.beat_shipment, lambda ref: texts(jobs, ref)):
        with pytest.raises(ShipmentEnded) as caught:
            ask(FIRST)
        assert caught.value.how == "released"


def test_a_settled_shipment_that_is_kept_can_be_read(jobs):
    jobs.claim_shipment(FIRST)
    jobs.settle_shipment(FIRST, keep=True)
    assert texts(jobs, FIRST, 0, 1) == ["a"]


def test_a_heartbeat_holds_it_longer(jobs):
    claimed = jobs.claim_shipment(FIRST, hold_ms=60_000)
    assert jobs.beat_shipment(FIRST, hold_ms=600_000).until > claimed.until


def test_shipments_come_page_by_page(jobs):
    for number in range(1, 6):
        jobs.claim_shipment(ShipmentRef("jobs", "lake", number), limit=1)
        jobs.release_shipment(ShipmentRef("jobs", "lake", number))
    assert [one.number for one in jobs.shipments("jobs", "lake", per_page=2)] == [1, 2, 3, 4, 5]
    assert [one.number for one in jobs.shipments("jobs", per_page=2)] == [1, 2, 3, 4, 5]


def test_more_than_a_page_has_the_shipments_of_every_consumer(jobs):
    for consumer in ("a", "b", "c"):
        for number in range(1, 4):
            jobs.claim_shipment(ShipmentRef("jobs", consumer, number), limit=1)
            jobs.release_shipment(ShipmentRef("jobs", consumer, number))
    found = [(consumer, number) for consumer in ("a", "b", "c") for number in range(1, 4)]
    for per_page in range(1, 11):
        assert [(one.consumer, one.number) for one in jobs.shipments("jobs", per_page=per_page)] == found


def test_what_cannot_be_a_shipment(jobs):
    with pytest.raises(QueueNotFound):
        jobs.claim_shipment(ShipmentRef("nowhere", "lake", 1))
    with pytest.raises(InvalidRequest, match="name of a consumer"):
        jobs.claim_shipment(ShipmentRef("jobs", "..", 1))
    with pytest.raises(InvalidRequest):
        jobs.claim_shipment(ShipmentRef("jobs", "lake", 0))
