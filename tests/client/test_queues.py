"""Queues through the client."""

from __future__ import annotations

import pytest

from penstock.client import InvalidRequest, QueueExists, QueueNotFound

DEFAULTS = {
    "visibility_ms": 30_000,
    "retention_ms": 2_147_483_647_000,
    "delay_ms": 0,
    "dedup": "off",
    "redrive": None,
    "ledger": "outcomes",
    "backoff": None,
    "groups": "off",
    "dedup_window_ms": 300_000,
    "dedup_scope": "queue",
    "labels": {},
}


def test_create_makes_a_queue_with_defaults(client):
    created = client.create_queue("jobs")
    assert (created.name, created.settings, created.count) == ("jobs", DEFAULTS, None)
    assert created.modified_at == created.created_at > 0


def test_create_takes_settings(client):
    client.create_queue("dead")
    settings = {
        "visibility_ms": 1,
        "retention_ms": 2,
        "delay_ms": 3,
        "dedup": "claim",
        "redrive": {"max_receives": 4, "dead_letter_queue": "dead"},
        "ledger": "bodies",
        "backoff": {"first_ms": 5, "most_ms": 6},
        "groups": "off",
        "dedup_window_ms": 7_000,
        "dedup_scope": "group",
        "labels": {"team": "payments"},
    }
    assert client.create_queue("jobs", **settings).settings == settings
    # What comes back may be handed in again.
    assert client.create_queue("twin", **client.queue("jobs").settings).settings == settings


def test_create_refuses_a_name_that_is_taken(client):
    client.create_queue("jobs")
    with pytest.raises(QueueExists, match="jobs"):
        client.create_queue("jobs")


def test_create_refuses_bad_settings(client):
    with pytest.raises(InvalidRequest, match="visibility_ms") as caught:
        client.create_queue("jobs", visibility_ms=-1)
    assert caught.value.status == 400


def test_update_changes_what_is_named(client):
    client.create_queue("jobs", delay_ms=5)
    assert client.update_queue("jobs", visibility_ms=7).settings == DEFAULTS | {
        "delay_ms": 5,
        "visibility_ms": 7,
    }


def test_labels_change_one_by_one(client, server):
    client.create_queue("jobs", groups="fifo", dedup="window", labels={"team": "payments", "stage": "test"})
    server.clock.advance(60)
    changed = client.update_queue("jobs", labels={"team": None, "région": "Zürich"})
    assert changed.settings["labels"] == {"stage": "test", "région": "Zürich"}
    assert changed.modified_at >= changed.created_at + 60_000
    with pytest.raises(InvalidRequest, match="chosen when it is made"):
        client.update_queue("jobs", groups="off")
    with pytest.raises(InvalidRequest, match="reserved"):
        client.update_queue("jobs", labels={"aws:x": "y"})
    with pytest.raises(InvalidRequest, match="dedup_window_ms must be between 1000 and 86400000"):
        client.update_queue("jobs", dedup_window_ms=1)
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        client.update_queue("jobs", labels={"team": "\ud800"})
    assert client.queue("jobs").settings == changed.settings


def test_delete_returns_the_queue_as_it_was(client):
    client.create_queue("jobs", delay_ms=5)
    assert client.delete_queue("jobs").settings["delay_ms"] == 5
    with pytest.raises(QueueNotFound):
        client.queue("jobs")


@pytest.mark.parametrize("call", ["queue", "update_queue", "delete_queue", "claim", "peek", "purge"])
def test_a_missing_queue_is_an_error(client, call):
    with pytest.raises(QueueNotFound, match="nope") as caught:
        getattr(client, call)("nope")
    assert caught.value.status == 404


def test_queue_counts(client):
    client.create_queue("jobs")
    client.send_many("jobs", ["a", "b", "c"])
    client.send("jobs", "later", delay_ms=60_000)
    [message] = client.claim("jobs")
    count = client.queue("jobs").count
    assert (count.total, count.ready, count.delayed, count.claimed, count.exact) == (4, 2, 1, 1, True)
    assert count.oldest_sent_at == count.oldest_ready_sent_at == message.sent_at


def test_queues_goes_through_every_page(client):
    assert list(client.queues()) == []
    names = {f"q{number}" for number in range(5)}
    for name in names:
        client.create_queue(name)
    found = [queue.name for queue in client.queues(per_page=2)]
    assert len(found) == 5
    assert set(found) == names


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_a_name_that_no_path_can_carry_is_not_sent(client, name):
    with pytest.raises(InvalidRequest, match="is not a queue name") as caught:
        client.delete_queue(name)
    assert caught.value.status is None


@pytest.mark.parametrize("name", ["a/b", "a?b", "a#b", "a%2Fb", "ä b", "../../x"])
def test_a_name_stays_one_segment(client, name):
    with pytest.raises(QueueNotFound):
        client.queue(name)


def test_a_queue_is_made_where_there_is_none(client):
    assert client.ensure_queue("jobs", visibility_ms=5_000).settings["visibility_ms"] == 5_000
    assert client.ensure_queue("jobs", visibility_ms=9_000).settings["visibility_ms"] == 5_000
    with pytest.raises(InvalidRequest):
        client.ensure_queue("no name")


def test_health(client):
    assert client.health() == "green"


def test_pause_and_resume(client):
    client.create_queue("jobs")
    client.send("jobs", "x")
    paused = client.pause_queue("jobs")
    assert paused.paused_at >= paused.created_at
    assert client.pause_queue("jobs").paused_at == client.queue("jobs").paused_at == paused.paused_at
    assert [queue.paused_at for queue in client.queues()] == [paused.paused_at]
    assert client.update_queue("jobs", visibility_ms=1).paused_at == paused.paused_at
    assert client.claim("jobs") == []
    assert client.resume_queue("jobs").paused_at is None
    assert [message.body for message in client.claim("jobs")] == [b"x"]


def test_pause_and_resume_of_a_missing_queue(client):
    for change in (client.pause_queue, client.resume_queue):
        with pytest.raises(QueueNotFound, match="nope"):
            change("nope")
