"""Messages by a filter and by their ids, through both clients."""

from __future__ import annotations

import pytest

from penstock.client import Draft, MessageNotFound, QueueNotFound


@pytest.fixture
def jobs(client):
    client.create_queue("jobs")
    client.send_many("jobs", [Draft('{"n": 1}', attributes={"kind": "test"}), '{"n": 2}', "three"])
    return client


def ids(client, queue="jobs") -> list[str]:
    return [message.id for message in client.peek(queue).messages]


def test_a_peek_with_a_filter(jobs):
    jobs.claim("jobs", 1)
    found = jobs.peek("jobs", state="claimed", attribute={"name": "kind"})
    assert ([message.text for message in found.messages], found.examined, found.after) == (['{"n": 1}'], 3, None)
    [message] = found.messages
    assert (message.state, message.shipped, message.claim) == ("claimed", False, 1)
    assert [message.text for message in jobs.peek("jobs", json={"path": "$.n", "value": 2}).messages] == ['{"n": 2}']
    assert jobs.peek("jobs", attribute={"name": "kind", "value": "other"}).messages == []
    assert jobs.peek("jobs").examined is None


def test_one_message(jobs):
    [one, *_] = ids(jobs)
    found = jobs.find_message("jobs", one)
    assert (found.id, found.text, found.state, found.last_claimed_at) == (one, '{"n": 1}', "ready", None)
    with pytest.raises(MessageNotFound):
        jobs.find_message("jobs", "x")
    with pytest.raises(QueueNotFound):
        jobs.find_message("none", one)


def test_messages_by_their_ids(jobs):
    jobs.create_queue("there")
    one, two, three = ids(jobs)
    jobs.claim("jobs", 1)
    assert jobs.release_messages("jobs", [one]) == ["done"]
    assert jobs.move_messages("jobs", [two, "x"], "there") == ["done", "missing"]
    assert jobs.delete_messages("jobs", one) == ["done"]
    resent = jobs.resend("jobs", three, {"n": 3})
    assert resent.outcome == "done"
    assert [(message.id, message.json) for message in jobs.peek("jobs").messages] == [(resent.id, {"n": 3})]
    latest = jobs.latest(queue="jobs", outcomes=["purged"])
    assert [row.id for row in latest.rows] == [three, one]
    assert (latest.examined, latest.below) == (3, None)
