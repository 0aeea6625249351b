"""FIFO queues: order in groups, deduplication, and attempts to receive."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any

import pytest

from tests.faces.sqs.conftest import Sqs
from tests.servers import ThreadServer
from tests.waiting import wait_until


@pytest.fixture
def fifo(sqs: Sqs, server: ThreadServer) -> str:
    server.clock.stop()
    return sqs.create_fifo(ContentBasedDeduplication="true", VisibilityTimeout="10")


def send(sqs: Sqs, url: str, *bodies: str) -> None:
    """The first letter is the group."""
    for body in bodies:
        sqs.send(url, body, MessageGroupId=body[0])


# Groups


def test_a_receive_takes_as_much_of_one_group_as_it_can(sqs: Sqs, fifo: str) -> None:
    send(sqs, fifo, "a1", "b1", "a2", "b2", "a3")
    assert sqs.bodies(fifo, MaxNumberOfMessages=4) == ["a1", "a2", "a3", "b1"]
    assert sqs.bodies(fifo) == []


def test_a_group_waits_for_its_head(sqs: Sqs, fifo: str) -> None:
    send(sqs, fifo, "a1", "a2", "b1")
    [head] = sqs.receive(fifo, MaxNumberOfMessages=1)
    assert head["Body"] == "a1"
    assert sqs.bodies(fifo) == ["b1"]
    send(sqs, fifo, "a3")  # a new message frees nothing
    assert sqs.bodies(fifo) == []
    sqs.delete(fifo, head)
    assert sqs.bodies(fifo) == ["a2", "a3"]


def test_up_to_the_first_that_is_hidden(sqs: Sqs, fifo: str, server: ThreadServer) -> None:
    send(sqs, fifo, "a1", "a2", "a3")
    messages = {message["Body"]: message for message in sqs.receive(fifo)}
    for hidden, left in (("a3", ["a1", "a2"]), ("a2", ["a1"]), ("a1", [])):
        handle = messages[hidden]["ReceiptHandle"]
        sqs("ChangeMessageVisibility", QueueUrl=fifo, ReceiptHandle=handle, VisibilityTimeout=100)
        server.clock.advance(11)
        again = sqs.receive(fifo)
        assert [message["Body"] for message in again] == left
        server.clock.advance(100)
        messages |= {message["Body"]: message for message in sqs.receive(fifo)}
        assert set(messages) == {"a1", "a2", "a3"}


def test_a_head_that_is_given_back(sqs: Sqs, fifo: str) -> None:
    send(sqs, fifo, "a1", "a2", "a3")
    first, _ = sqs.receive(fifo, MaxNumberOfMessages=2)
    sqs("ChangeMessageVisibility", QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    assert sqs.bodies(fifo) == ["a1"]


def test_order_survives_a_timeout(sqs: Sqs, fifo: str, server: ThreadServer) -> None:
    send(sqs, fifo, "a1", "a2", "a3")
    assert sqs.bodies(fifo) == ["a1", "a2", "a3"]
    server.clock.advance(11)
    assert sqs.bodies(fifo) == ["a1", "a2", "a3"]


def test_a_delay_of_the_queue_does_not_mix_the_order(sqs: Sqs, server: ThreadServer) -> None:
    server.clock.stop()
    url = sqs.create_fifo(DelaySeconds="10", ContentBasedDeduplication="true")
    send(sqs, url, "a1")
    server.clock.advance(10)
    send(sqs, url, "a2")
    assert sqs.bodies(url, VisibilityTimeout=0) == ["a1"]
    server.clock.advance(10)
    assert sqs.bodies(url) == ["a1", "a2"]


def test_a_delete_wakes_those_who_wait(sqs: Sqs, server: ThreadServer) -> None:
    url = sqs.create_fifo(ContentBasedDeduplication="true")
    send(sqs, url, "a1", "a2")
    [head] = sqs.receive(url, MaxNumberOfMessages=1)
    found: list[Any] = []

    def wait() -> None:
        with server.talk() as talk:
            found.extend(Sqs(talk, sqs.protocol).bodies(url, WaitTimeSeconds=20))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: server.waiting_claims() == ["q.fifo"])
    sqs.delete(url, head)
    thread.join()
    assert found == ["a2"]


def test_a_dead_letter_frees_its_group(sqs: Sqs, server: ThreadServer) -> None:
    server.clock.stop()
    dead = sqs.create_fifo("dead.fifo")
    policy = json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": 1})
    url = sqs.create_fifo(RedrivePolicy=policy, VisibilityTimeout="10", ContentBasedDeduplication="true")
    send(sqs, url, "a1", "a2")
    assert sqs.bodies(url, MaxNumberOfMessages=1) == ["a1"]
    server.clock.advance(11)
    assert sqs.bodies(url) == ["a2"]
    [message] = sqs.receive(dead, AttributeNames=["All"])
    assert message["Body"] == "a1"
    assert message["Attributes"]["MessageGroupId"] == "a"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == sqs.arn(url)


def test_what_a_message_says_of_itself(sqs: Sqs, fifo: str) -> None:
    sent = sqs.send(fifo, "x", MessageGroupId="g", MessageDeduplicationId="d")
    by_content = sqs.send(fifo, "y", MessageGroupId="g")
    first, second = sqs.receive(fifo, AttributeNames=["All"])
    assert first["Attributes"]["MessageGroupId"] == "g"
    assert first["Attributes"]["MessageDeduplicationId"] == "d"
    assert first["Attributes"]["SequenceNumber"] == sent["SequenceNumber"] < by_content["SequenceNumber"]
    assert second["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"y").hexdigest()


# Deduplication


def test_a_twin_within_five_minutes_is_the_first_one(sqs: Sqs, server: ThreadServer) -> None:
    server.clock.stop()
    url = sqs.create_fifo()
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = sqs.send(url, "first", **ids)
    sqs.delete(url, sqs.receive(url)[0])
    server.clock.advance(299)
    twin = sqs.send(url, "twin", **ids)
    assert (twin["MessageId"], twin["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert twin["MD5OfMessageBody"] == hashlib.md5(b"twin").hexdigest()
    assert sqs.receive(url) == []
    server.clock.advance(2)
    assert sqs.send(url, "later", **ids)["MessageId"] != first["MessageId"]
    assert sqs.bodies(url) == ["later"]


def test_twins_by_their_content(sqs: Sqs, fifo: str) -> None:
    first = sqs.send(fifo, "x", MessageGroupId="g")
    assert sqs.send(fifo, "x", MessageGroupId="other")["MessageId"] == first["MessageId"]
    explicit = hashlib.sha256(b"x").hexdigest()
    assert sqs.send(fifo, "y", MessageGroupId="g", MessageDeduplicationId=explicit)["MessageId"] == first["MessageId"]
    # A message with an id of its own is not known by its content.
    assert sqs.send(fifo, "x", MessageGroupId="g", MessageDeduplicationId="d")["MessageId"] != first["MessageId"]
    long = sqs.send(fifo, "z" * 2000, MessageGroupId="g")
    assert sqs.send(fifo, "z" * 2000, MessageGroupId="g")["MessageId"] == long["MessageId"]


def test_the_scope_may_be_the_group(sqs: Sqs) -> None:
    url = sqs.create_fifo(DeduplicationScope="messageGroup", ContentBasedDeduplication="true")
    ids = {sqs.send(url, "x", MessageGroupId=group)["MessageId"] for group in "aabb"}
    assert len(ids) == 2
    ids = {sqs.send(url, "y", MessageGroupId=group, MessageDeduplicationId="d")["MessageId"] for group in "aabb"}
    assert len(ids) == 2


def test_a_purge_forgets(sqs: Sqs, fifo: str) -> None:
    sqs.send(fifo, "x", MessageGroupId="g")
    sqs("PurgeQueue", QueueUrl=fifo)
    sqs.send(fifo, "x", MessageGroupId="g")
    assert sqs.bodies(fifo) == ["x"]


def test_twins_in_one_batch(sqs: Sqs, fifo: str) -> None:
    entries = [{"Id": str(number), "MessageBody": "x", "MessageGroupId": "g"} for number in range(3)]
    sent = sqs("SendMessageBatch", QueueUrl=fifo, Entries=entries)["Successful"]
    assert len({one["MessageId"] for one in sent}) == 1
    assert sqs.bodies(fifo) == ["x"]


# Attempts


def test_an_attempt_that_is_repeated_gets_the_same(sqs: Sqs, fifo: str, server: ThreadServer) -> None:
    send(sqs, fifo, "a1", "a2")
    first = sqs.receive(fifo, ReceiveRequestAttemptId="one")
    server.clock.advance(5)
    again = sqs.receive(fifo, ReceiveRequestAttemptId="one")
    assert [(one["Body"], one["ReceiptHandle"]) for one in again] == [
        (one["Body"], one["ReceiptHandle"]) for one in first
    ]
    assert sqs.receive(fifo, ReceiveRequestAttemptId="other") == []
    server.clock.advance(9)  # held again from the second time on
    assert sqs.receive(fifo, ReceiveRequestAttemptId="other") == []
    sqs.delete(fifo, again[0])
    assert sqs.receive(fifo, ReceiveRequestAttemptId="one") == []


def test_an_attempt_that_found_nothing_is_not_remembered(sqs: Sqs, fifo: str) -> None:
    assert sqs.receive(fifo, ReceiveRequestAttemptId="one") == []
    send(sqs, fifo, "a1")
    assert len(sqs.receive(fifo, ReceiveRequestAttemptId="one")) == 1
