"""What boto3 makes of a refusal: the class to catch, `Error.Code`, the status, and who is at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sqs_clients.sdk import Sqs, refusal

SERVICE = "AWS.SimpleQueueService."
ATTRIBUTE = {"DataType": "String", "StringValue": "x"}

# The method, its arguments, and what comes of it: `Error.Code`, and the class in `client.exceptions` where there is one
# for that code.
REFUSED: dict[str, tuple[str, dict[str, Any], str, str | None]] = {
    "no queue": ("get_queue_url", {"QueueName": "never"}, f"{SERVICE}NonExistentQueue", "QueueDoesNotExist"),
    "no queue to send to": (
        "send_message",
        {"QueueUrl": "{url}-never", "MessageBody": "x"},
        f"{SERVICE}NonExistentQueue",
        "QueueDoesNotExist",
    ),
    "no queue for a receipt": (
        "delete_message",
        {"QueueUrl": "{url}-never", "ReceiptHandle": "not a receipt"},
        f"{SERVICE}NonExistentQueue",
        "QueueDoesNotExist",
    ),
    "no queue to hide in": (
        "change_message_visibility",
        {"QueueUrl": "{url}-never", "ReceiptHandle": "not a receipt", "VisibilityTimeout": 5},
        f"{SERVICE}NonExistentQueue",
        "QueueDoesNotExist",
    ),
    "a name with a blank": ("create_queue", {"QueueName": "a b"}, "InvalidParameterValue", None),
    "a long name": ("create_queue", {"QueueName": "x" * 81}, "InvalidParameterValue", None),
    "a FIFO queue without the ending": (
        "create_queue",
        {"QueueName": "new", "Attributes": {"FifoQueue": "true"}},
        "InvalidParameterValue",
        None,
    ),
    "an attribute that there is not": (
        "set_queue_attributes",
        {"QueueUrl": "{url}", "Attributes": {"Colour": "red"}},
        "InvalidAttributeName",
        "InvalidAttributeName",
    ),
    "asked for an attribute that there is not": (
        "get_queue_attributes",
        {"QueueUrl": "{url}", "AttributeNames": ["Colour"]},
        "InvalidAttributeName",
        "InvalidAttributeName",
    ),
    "an attribute out of range": (
        "set_queue_attributes",
        {"QueueUrl": "{url}", "Attributes": {"VisibilityTimeout": "43201"}},
        "InvalidAttributeValue",
        "InvalidAttributeValue",
    ),
    "an attribute that is not a number": (
        "set_queue_attributes",
        {"QueueUrl": "{url}", "Attributes": {"DelaySeconds": "soon"}},
        "InvalidAttributeValue",
        "InvalidAttributeValue",
    ),
    "an empty body": ("send_message", {"QueueUrl": "{url}", "MessageBody": ""}, "MissingParameter", None),
    "a character that XML lacks": (
        "send_message",
        {"QueueUrl": "{url}", "MessageBody": "bell \x07"},
        "InvalidMessageContents",
        "InvalidMessageContents",
    ),
    "a long delay": (
        "send_message",
        {"QueueUrl": "{url}", "MessageBody": "x", "DelaySeconds": 901},
        "InvalidParameterValue",
        None,
    ),
    "eleven attributes": (
        "send_message",
        {"QueueUrl": "{url}", "MessageBody": "x", "MessageAttributes": {f"a{n}": ATTRIBUTE for n in range(11)}},
        "InvalidParameterValue",
        None,
    ),
    "a reserved attribute": (
        "send_message",
        {"QueueUrl": "{url}", "MessageBody": "x", "MessageAttributes": {"aws.x": ATTRIBUTE}},
        "InvalidParameterValue",
        None,
    ),
    "a number that is none": (
        "send_message",
        {
            "QueueUrl": "{url}",
            "MessageBody": "x",
            "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "seven"}},
        },
        "InvalidParameterValue",
        None,
    ),
    "an empty attribute": (
        "send_message",
        {
            "QueueUrl": "{url}",
            "MessageBody": "x",
            "MessageAttributes": {"n": {"DataType": "String", "StringValue": ""}},
        },
        "InvalidParameterValue",
        None,
    ),
    "eleven messages": (
        "receive_message",
        {"QueueUrl": "{url}", "MaxNumberOfMessages": 11},
        "InvalidParameterValue",
        None,
    ),
    "a long wait": ("receive_message", {"QueueUrl": "{url}", "WaitTimeSeconds": 21}, "InvalidParameterValue", None),
    "not a receipt": (
        "delete_message",
        {"QueueUrl": "{url}", "ReceiptHandle": "not a receipt"},
        "ReceiptHandleIsInvalid",
        "ReceiptHandleIsInvalid",
    ),
    "an empty batch": (
        "send_message_batch",
        {"QueueUrl": "{url}", "Entries": []},
        f"{SERVICE}EmptyBatchRequest",
        "EmptyBatchRequest",
    ),
    "a large batch": (
        "send_message_batch",
        {"QueueUrl": "{url}", "Entries": [{"Id": str(n), "MessageBody": "x"} for n in range(11)]},
        f"{SERVICE}TooManyEntriesInBatchRequest",
        "TooManyEntriesInBatchRequest",
    ),
    "a batch with an id twice": (
        "send_message_batch",
        {"QueueUrl": "{url}", "Entries": [{"Id": "same", "MessageBody": "x"}] * 2},
        f"{SERVICE}BatchEntryIdsNotDistinct",
        "BatchEntryIdsNotDistinct",
    ),
    "a batch with an odd id": (
        "delete_message_batch",
        {"QueueUrl": "{url}", "Entries": [{"Id": "a b", "ReceiptHandle": "x"}]},
        f"{SERVICE}InvalidBatchEntryId",
        "InvalidBatchEntryId",
    ),
    "a batch that is too long": (
        "send_message_batch",
        {"QueueUrl": "{url}", "Entries": [{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)]},
        f"{SERVICE}BatchRequestTooLong",
        "BatchRequestTooLong",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal(sqs: Sqs, create: Callable[..., str], case: str) -> None:
    method, arguments, code, kind = REFUSED[case]
    url = create("jobs")
    given = {name: value.format(url=url) if name == "QueueUrl" else value for name, value in arguments.items()}
    refused = refusal(getattr(sqs, method), **given)
    assert (refused.code, refused.kind) == (code, sqs.kind(kind))
    assert (refused.status, refused.fault) == (400, "Sender")
    assert refused.text


@pytest.mark.parametrize("protocol", ["query"], indirect=True)
def test_the_query_protocol_speaks_of_its_wsdl(sqs: Sqs) -> None:
    text = refusal(sqs.get_queue_url, QueueName="never").text
    assert text == "The specified queue does not exist for this wsdl version."


@pytest.mark.parametrize("protocol", ["json"], indirect=True)
def test_json_does_not(sqs: Sqs) -> None:
    assert refusal(sqs.get_queue_url, QueueName="never").text == "The specified queue does not exist."
