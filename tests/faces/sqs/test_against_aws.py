"""Answers that AWS is known to give, in its words: what clients and their users compare with."""

from __future__ import annotations

import pytest

from tests.faces.sqs.conftest import Sqs
from tests.talk import Talk

HANDLE = "certainly-not-a-handle"


@pytest.mark.parametrize("operation", ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_a_batch_of_nothing_names_what_it_lacks(in_json: Sqs, operation: str) -> None:
    failure = in_json.refused(operation, QueueUrl=in_json.create(), Entries=[])
    assert (failure.status, failure.code) == (400, "AWS.SimpleQueueService.EmptyBatchRequest")
    assert failure.message == f"There should be at least one {operation}RequestEntry in the request."


@pytest.mark.parametrize(
    ("operation", "asked"),
    [("DeleteMessage", {}), ("ChangeMessageVisibility", {"VisibilityTimeout": 1})],
)
def test_without_its_queue_a_wrong_handle_is_not_the_error(sqs: Sqs, operation: str, asked: dict[str, int]) -> None:
    failure = sqs.refused(operation, QueueUrl="missing", ReceiptHandle=HANDLE, **asked)
    assert failure.code == "AWS.SimpleQueueService.NonExistentQueue"
    failure = sqs.refused(operation, QueueUrl=sqs.create(), ReceiptHandle=HANDLE, **asked)
    assert failure.code == "ReceiptHandleIsInvalid"


def test_an_entry_that_is_too_long_is_told_in_other_words_than_a_message(in_json: Sqs) -> None:
    sqs, url = in_json, in_json.create(MaximumMessageSize="1024")
    why = "Reason: Message must be shorter than 1024 bytes."
    long = "x" * 1025
    assert sqs.refused("SendMessage", QueueUrl=url, MessageBody=long).message == (
        f"One or more parameters are invalid. {why}"
    )
    entries = [{"Id": "long", "MessageBody": long}, {"Id": "fits", "MessageBody": long[1:]}]
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in sent["Successful"]] == ["fits"]
    [failed] = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("long", "InvalidParameterValue", True)
    assert f"One or more parameters cannot be validated. {why}" in failed.values()


def test_a_queue_with_too_many_tags_is_named(sqs: Sqs) -> None:
    tags = {f"key-{number}": "" for number in range(51)}
    assert sqs.refused("CreateQueue", QueueName="q", tags=tags).message == "Too many tags added for queue q."
    url = sqs.create()
    assert sqs.refused("TagQueue", QueueUrl=url, Tags=tags).message == "Too many tags added for queue q."
    assert sqs("ListQueueTags", QueueUrl=url) == {}


def test_a_permission_for_nobody_cannot_be_verified(in_json: Sqs) -> None:
    url = in_json.create()
    failure = in_json.refused("AddPermission", QueueUrl=url, Label="a", AWSAccountIds=[], Actions=["SendMessage"])
    assert failure.code == "InvalidParameterValue"
    assert failure.message == "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify."


def test_an_empty_name_is_a_wrong_name(sqs: Sqs) -> None:
    failure = sqs.refused("CreateQueue", QueueName="")
    assert failure.code == "InvalidParameterValue"
    assert failure.message == "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"


@pytest.mark.parametrize("every", ["All", ".*", "*"])
def test_all_attributes_of_a_message_can_be_asked_for_in_three_ways(sqs: Sqs, every: str) -> None:
    url = sqs.create()
    attributes = {name: {"DataType": "String", "StringValue": name} for name in ("one", "two.three")}
    sent = sqs.send(url, MessageAttributes=attributes)
    [message] = sqs.receive(url, MessageAttributeNames=[every])
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@pytest.mark.parametrize(("path", "place"), [("/", "web service"), ("/000000000000/q", "endpoint")])
def test_an_unknown_action_is_told_where_it_was_sent(talk: Talk, path: str, place: str) -> None:
    reply = talk("GET", f"{path}?Action=FooBar&Version=2012-11-05")
    failure = Sqs(talk, "query").failure(reply)
    assert (failure.status, failure.code) == (400, "InvalidAction")
    assert failure.message == f"The action FooBar is not valid for this {place}."


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FifoQueue", "false", "Unknown Attribute FifoQueue."),
        ("ContentBasedDeduplication", "true", "Unknown Attribute ContentBasedDeduplication."),
        ("DeduplicationScope", "queue", "You can specify the DeduplicationScope only when FifoQueue is set to true."),
        (
            "FifoThroughputLimit",
            "perQueue",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
    ],
)
def test_a_standard_queue_has_no_attributes_of_fifo_queues(sqs: Sqs, name: str, value: str, text: str) -> None:
    url = sqs.create()
    for failure in (
        sqs.refused("CreateQueue", QueueName="other", Attributes={name: value}),
        sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={name: value}),
    ):
        assert (failure.status, failure.code, failure.message) == (400, "InvalidAttributeName", text)
