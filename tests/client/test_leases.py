"""Leases through the client."""

from __future__ import annotations

import pytest

from penstock.client import Client, InvalidRequest, LeaseHeld, QueueNotFound


@pytest.fixture
def jobs(client: Client) -> Client:
    client.create_queue("jobs")
    return client


def test_the_life_of_a_lease(jobs):
    assert jobs.lease("jobs", "drain") is None
    taken = jobs.take_lease("jobs", "drain", "me", 60_000)
    assert (taken.queue, taken.name, taken.holder) == ("jobs", "drain", "me")
    assert taken.until == taken.taken_at + 60_000
    assert jobs.lease("jobs", "drain") == taken
    again = jobs.take_lease("jobs", "drain", "me", 90_000)
    assert (again.taken_at, again.until > taken.until) == (taken.taken_at, True)
    assert jobs.drop_lease("jobs", "drain", "me") is None
    assert jobs.lease("jobs", "drain") is None
    assert jobs.drop_lease("jobs", "drain", "me") is None


def test_another_one_has_it(jobs):
    taken = jobs.take_lease("jobs", "drain", "größe & 🚰", 60_000)
    with pytest.raises(LeaseHeld, match="the lease 'drain' is held by") as caught:
        jobs.take_lease("jobs", "drain", "me", 60_000)
    error = caught.value
    assert (error.holder, error.until, error.status, error.code) == ("größe & 🚰", taken.until, 409, "lease-held")
    jobs.drop_lease("jobs", "drain", "me")
    assert jobs.lease("jobs", "drain") == taken
    jobs.drop_lease("jobs", "drain", "größe & 🚰")
    assert jobs.take_lease("jobs", "drain", "me", 60_000).holder == "me"


def test_a_missing_queue(jobs):
    with pytest.raises(QueueNotFound):
        jobs.lease("nowhere", "drain")
    with pytest.raises(QueueNotFound):
        jobs.take_lease("nowhere", "drain", "me", 60_000)
    assert jobs.drop_lease("nowhere", "drain", "me") is None


def test_what_is_refused(jobs):
    with pytest.raises(InvalidRequest, match="hold_ms must be between"):
        jobs.take_lease("jobs", "drain", "me", 999)
    with pytest.raises(InvalidRequest, match="by the same rules as a queue"):
        jobs.take_lease("jobs", "a/b", "me", 1_000)
    with pytest.raises(InvalidRequest, match="not a name of a lease"):
        jobs.take_lease("jobs", "..", "me", 1_000)
