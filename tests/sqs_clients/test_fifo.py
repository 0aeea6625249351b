"""FIFO queues through boto3: order within a group, deduplication, and receives that may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.servers import ThreadServer
from tests.sqs_clients.digests import body_digest
from tests.sqs_clients.sdk import Sqs, answer_of, refusal
from tests.waiting import wait_until

Create = Callable[..., str]
WINDOW_S = 300


class Fifo:
    """A FIFO queue, and short words for what these tests do with it."""

    def __init__(self, sqs: Sqs, url: str) -> None:
        self.sqs, self.url = sqs, url
        self._sent = 0

    def send(self, body: str, group: str = "a", dedup: str | None = None) -> dict[str, Any]:
        self._sent += 1
        return self.sqs.send_message(
            QueueUrl=self.url,
            MessageBody=body,
            MessageGroupId=group,
            MessageDeduplicationId=dedup or f"{self._sent}-{body}",
        )

    def receive(self, most: int = 10, **more: object) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=most, AttributeNames=["All"], **more)
        return answer.get("Messages", [])

    def bodies(self, most: int = 10, **more: object) -> list[str]:
        return [message["Body"] for message in self.receive(most, **more)]

    def delete(self, message: dict[str, Any]) -> None:
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def hide(self, message: dict[str, Any], seconds: int) -> None:
        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )


@pytest.fixture
def fifo(sqs: Sqs, create: Create) -> Fifo:
    return Fifo(sqs, create("jobs.fifo"))


# Groups


def test_a_group_is_handed_out_in_its_order_and_held_as_a_whole(fifo: Fifo) -> None:
    for body in ("a1", "a2", "a3"):
        fifo.send(body)
    [head] = fifo.receive(1)
    assert head["Body"] == "a1"
    assert fifo.receive() == []
    fifo.send("a4")
    assert fifo.receive() == []
    fifo.delete(head)
    assert fifo.bodies() == ["a2", "a3", "a4"]


def test_one_receive_takes_what_it_can_of_one_group_and_then_the_next(fifo: Fifo) -> None:
    for number in range(1, 4):
        for group in "ab":
            fifo.send(f"{group}{number}", group)
    assert fifo.bodies(4) == ["a1", "a2", "a3", "b1"]
    assert fifo.bodies() == []


def test_a_group_that_is_held_does_not_hold_another(fifo: Fifo) -> None:
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        fifo.send(body, group)
    assert fifo.bodies(1) == ["a1"]
    assert fifo.bodies(1) == ["b1"]
    assert fifo.bodies(1) == []


@pytest.mark.parametrize(("held", "left"), [(0, []), (1, ["a1"]), (2, ["a1", "a2"])])
def test_what_may_be_taken_ends_at_the_first_that_is_hidden(fifo: Fifo, server: ThreadServer, held, left) -> None:
    """As AWS was seen to do it: three received, one of them held for longer than the others."""
    for body in ("a1", "a2", "a3"):
        fifo.send(body)
    received = fifo.receive(VisibilityTimeout=30)
    fifo.hide(received[held], 600)
    server.clock.advance(31)
    assert fifo.bodies() == left


def test_a_message_given_back_is_the_first_again(fifo: Fifo) -> None:
    for body in ("a1", "a2", "a3"):
        fifo.send(body)
    first, second = fifo.receive(2)
    fifo.hide(first, 0)
    assert fifo.bodies() == ["a1"]
    fifo.hide(second, 0)
    assert fifo.bodies() == []


def test_a_long_poll_is_woken_when_the_group_is_free(fifo: Fifo, sqs: Sqs, server: ThreadServer) -> None:
    fifo.send("a1")
    fifo.send("a2")
    [head] = fifo.receive(1)
    waiting = sqs.begin("receive_message", QueueUrl=fifo.url, WaitTimeSeconds=20)
    wait_until(server.waiting_claims)
    fifo.delete(head)
    assert [message["Body"] for message in answer_of(waiting)["Messages"]] == ["a2"]


def test_an_expired_receipt_is_refused(fifo: Fifo, server: ThreadServer) -> None:
    fifo.send("a1")
    [message] = fifo.receive(VisibilityTimeout=30)
    server.clock.advance(31)
    refused = refusal(fifo.sqs.delete_message, QueueUrl=fifo.url, ReceiptHandle=message["ReceiptHandle"])
    assert refused.code == "InvalidParameterValue"
    assert refused.text.endswith("The receipt handle has expired.")
    assert fifo.bodies() == ["a1"]


def test_what_a_message_tells_of_itself(fifo: Fifo) -> None:
    sent = [fifo.send("a1", "a", "first"), fifo.send("a2", "a", "second")]
    assert all(len(one["SequenceNumber"]) == 20 for one in sent)
    assert sent[0]["SequenceNumber"] < sent[1]["SequenceNumber"]
    received = fifo.receive()
    for message, told, dedup in zip(received, sent, ("first", "second"), strict=True):
        attributes = message["Attributes"]
        assert attributes["MessageGroupId"] == "a"
        assert attributes["MessageDeduplicationId"] == dedup
        assert attributes["SequenceNumber"] == told["SequenceNumber"]


def test_a_message_behind_another_counts_as_visible(fifo: Fifo) -> None:
    for number in range(3):
        fifo.send(str(number))
    fifo.receive(1)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = fifo.sqs.get_queue_attributes(QueueUrl=fifo.url, AttributeNames=names)["Attributes"]
    assert found == {names[0]: "2", names[1]: "1"}


def test_the_group_of_a_message_in_a_standard_queue_holds_nothing(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    for body in ("1", "2"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="tenant")
    first = sqs.receive_message(QueueUrl=url, AttributeNames=["MessageGroupId"])["Messages"]
    assert first[0]["Attributes"] == {"MessageGroupId": "tenant"}
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "2"


# Deduplication


def test_a_twin_is_answered_as_the_first_and_stored_once(fifo: Fifo) -> None:
    first = fifo.send("one", dedup="id")
    twin = fifo.send("another", dedup="id")
    assert (twin["MessageId"], twin["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert twin["MD5OfMessageBody"] == body_digest("another")
    assert fifo.bodies() == ["one"]


def test_an_id_is_remembered_for_five_minutes_and_no_longer(fifo: Fifo, server: ThreadServer) -> None:
    first = fifo.send("one", dedup="id")
    [message] = fifo.receive()
    fifo.delete(message)
    server.clock.advance(WINDOW_S - 60)
    assert fifo.send("one", dedup="id")["MessageId"] == first["MessageId"]
    assert fifo.bodies() == []
    server.clock.advance(61)
    assert fifo.send("one", dedup="id")["MessageId"] != first["MessageId"]
    assert fifo.bodies() == ["one"]


def test_a_purge_forgets_ids(fifo: Fifo) -> None:
    fifo.send("one", dedup="id")
    fifo.sqs.purge_queue(QueueUrl=fifo.url)
    fifo.send("two", dedup="id")
    assert fifo.bodies() == ["two"]


def test_deduplication_by_content(sqs: Sqs, create: Create) -> None:
    url = create("jobs.fifo", ContentBasedDeduplication="true")
    sent = [
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group)["MessageId"]
        for body, group in (("same", "a"), ("same", "b"), ("other", "a"))
    ]
    assert sent[0] == sent[1] != sent[2]
    with_id = sqs.send_message(QueueUrl=url, MessageBody="same", MessageGroupId="a", MessageDeduplicationId="own")
    assert with_id["MessageId"] not in sent


def test_deduplication_within_a_group(sqs: Sqs, create: Create) -> None:
    fifo = Fifo(
        sqs,
        create("jobs.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId"),
    )
    ids = [fifo.send("x", group, "id")["MessageId"] for group in ("a", "b", "a")]
    assert ids[0] == ids[2] != ids[1]


def test_twins_in_one_batch(fifo: Fifo) -> None:
    entry = {"MessageBody": "x", "MessageGroupId": "a", "MessageDeduplicationId": "id"}
    answer = fifo.sqs.send_message_batch(QueueUrl=fifo.url, Entries=[{"Id": word, **entry} for word in ("1", "2")])
    one, two = answer["Successful"]
    assert one["MessageId"] == two["MessageId"]
    assert fifo.bodies() == ["x"]


def test_a_batch_keeps_its_order(fifo: Fifo) -> None:
    bodies = [f"m{number}" for number in range(10)]
    entries = [
        {"Id": body, "MessageBody": body, "MessageGroupId": "a", "MessageDeduplicationId": body} for body in bodies
    ]
    fifo.sqs.send_message_batch(QueueUrl=fifo.url, Entries=entries)
    assert fifo.bodies() == bodies


# Attempts


def test_a_receive_whose_answer_was_lost_is_repeated(fifo: Fifo, server: ThreadServer) -> None:
    for body in ("a1", "a2"):
        fifo.send(body)
    first = fifo.receive(ReceiveRequestAttemptId="try", VisibilityTimeout=150)
    server.clock.advance(90)
    again = fifo.receive(ReceiveRequestAttemptId="try", VisibilityTimeout=150)
    assert [message["ReceiptHandle"] for message in again] == [message["ReceiptHandle"] for message in first]
    server.clock.advance(90)
    assert fifo.bodies() == [], "the time that they are hidden has begun again"
    assert fifo.bodies(ReceiveRequestAttemptId="another") == []


def test_an_attempt_that_was_dealt_with_is_a_new_one(fifo: Fifo) -> None:
    for body in ("a1", "a2"):
        fifo.send(body)
    [first] = fifo.receive(1, ReceiveRequestAttemptId="try")
    fifo.delete(first)
    assert fifo.bodies(ReceiveRequestAttemptId="try") == ["a2"]


def test_an_attempt_that_found_nothing_is_not_remembered(fifo: Fifo) -> None:
    assert fifo.bodies(ReceiveRequestAttemptId="try") == []
    fifo.send("a1")
    assert fifo.bodies(ReceiveRequestAttemptId="try") == ["a1"]


# What is refused


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({}, "MissingParameter", "MessageGroupId"),
        ({"MessageGroupId": "a"}, "InvalidParameterValue", "ContentBasedDeduplication"),
        ({"MessageGroupId": "a b", "MessageDeduplicationId": "1"}, "InvalidParameterValue", "MessageGroupId"),
        ({"MessageGroupId": "a", "MessageDeduplicationId": "x" * 129}, "InvalidParameterValue", "Deduplication"),
        (
            {"MessageGroupId": "a", "MessageDeduplicationId": "1", "DelaySeconds": 5},
            "InvalidParameterValue",
            "DelaySeconds",
        ),
    ],
    ids=["no group", "no id", "blank", "long", "delay"],
)
def test_a_send_to_a_fifo_queue_is_checked(fifo: Fifo, given: dict[str, Any], code: str, text: str) -> None:
    refused = refusal(fifo.sqs.send_message, QueueUrl=fifo.url, MessageBody="x", **given)
    assert refused.code == code
    assert text in refused.text


def test_a_queue_stays_of_its_kind(fifo: Fifo, create: Create) -> None:
    set_attributes = fifo.sqs.set_queue_attributes
    refused = refusal(set_attributes, QueueUrl=fifo.url, Attributes={"FifoQueue": "false"})
    assert (refused.kind, refused.code) == (fifo.sqs.kind("InvalidAttributeValue"), "InvalidAttributeValue")
    refused = refusal(set_attributes, QueueUrl=create("jobs"), Attributes={"ContentBasedDeduplication": "true"})
    assert (refused.kind, refused.code) == ("InvalidAttributeName", "InvalidAttributeName")
