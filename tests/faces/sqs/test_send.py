"""Sending: one message, batches, attributes, sizes and MD5 sums."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

from penstock.faces.sqs import digests
from tests.faces.sqs.conftest import Sqs
from tests.talk import Talk

CHARACTERS = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "


def md5_of(attributes: dict[str, dict[str, Any]]) -> str:
    """As the documentation of AWS says it."""
    whole = b""
    for name in sorted(attributes):
        value = attributes[name]
        binary = "BinaryValue" in value
        content = value["BinaryValue"] if binary else value["StringValue"].encode()
        whole += struct.pack(">I", len(name.encode())) + name.encode()
        whole += struct.pack(">I", len(value["DataType"].encode())) + value["DataType"].encode()
        whole += (b"\x02" if binary else b"\x01") + struct.pack(">I", len(content)) + content
    return hashlib.md5(whole).hexdigest()


def text(value: str, data_type: str = "String") -> dict[str, str]:
    return {"DataType": data_type, "StringValue": value}


def binary(value: bytes, data_type: str = "Binary") -> dict[str, Any]:
    return {"DataType": data_type, "BinaryValue": value}


# MD5 sums. The values were recorded from AWS.


@pytest.mark.parametrize(
    ("attributes", "md5"),
    [
        ([("Hello", "String", "There"), ("General", "String", "Kenobi")], "fca026605781cb4126a1e9044df24232"),
        ([("Hello", "String", "There")], "a311262e065454b75da111d535b8dacd"),
        ([("Help.Me", "String", "Me"), ("Hello", "String", "There")], "83fee93c1bcd8b9a5a923ffacdc636c7"),
        ([("Foo", "String", "Bar")], "ae7155c6026991b6d54b11589678bf9c"),
        (
            [("attr1", "Binary", b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01")],
            "8cbe4db156db8a94db8b801b7addb984",
        ),
        ([], None),
    ],
)
def test_md5_of_attributes_as_aws_has_it(attributes: list[Any], md5: str | None) -> None:
    assert digests.of_attributes(attributes) == md5


def test_md5_of_a_body_as_aws_has_it() -> None:
    assert digests.of_body(b"msg") == "6e2baaf3b97dbeef01c0043275f9a0e7"
    assert digests.of_body(b"message-body-1") == "19c9e282d65f9733bc6b35d50062c7ee"


ATTRIBUTES = {
    "text": text("ü€\N{GRINNING FACE}"),
    "labelled": text("x", "String.own.label"),
    "number": text("-1.5e10", "Number"),
    "labelled.number": text("007", "Number.int"),
    "binary": binary(b"\x00\xff"),
    "Binary-labelled_": binary(b"x", "Binary.png"),
    "größe": text("1"),
}


@pytest.mark.parametrize("body", ["hello", "ü", "\N{GRINNING FACE}", "x" * 3000])
def test_md5_of_what_is_sent_and_received(sqs: Sqs, url: str, body: str) -> None:
    sent = sqs.send(url, body, MessageAttributes=ATTRIBUTES)
    [message] = sqs.receive(url, MessageAttributeNames=["All"])
    md5 = hashlib.md5(body.encode()).hexdigest()
    assert (sent["MD5OfMessageBody"], message["MD5OfBody"]) == (md5, md5)
    assert sent["MD5OfMessageAttributes"] == message["MD5OfMessageAttributes"] == md5_of(ATTRIBUTES)
    assert sent.keys() == {"MessageId", "MD5OfMessageBody", "MD5OfMessageAttributes"}


def test_system_attributes(sqs: Sqs, url: str) -> None:
    trace = {"AWSTraceHeader": text("Root=1-5759e988-bd862e3fe1be46a994272793")}
    sent = sqs.send(url, MessageSystemAttributes=trace)
    assert sent["MD5OfMessageSystemAttributes"] == md5_of(trace)
    assert "MD5OfMessageAttributes" not in sent
    [message] = sqs.receive(url, AttributeNames=["AWSTraceHeader"], MessageAttributeNames=["All"])
    assert message["Attributes"] == {"AWSTraceHeader": trace["AWSTraceHeader"]["StringValue"]}
    assert "MessageAttributes" not in message


def test_a_trace_may_come_in_a_header(talk: Talk, sqs: Sqs, url: str) -> None:
    traced = Sqs(talk, sqs.protocol, **{"x-amzn-trace-id": "Root=1"})
    assert "MD5OfMessageSystemAttributes" not in traced.send(url)
    [message] = sqs.receive(url, AttributeNames=["All"])
    assert message["Attributes"]["AWSTraceHeader"] == "Root=1"


@pytest.mark.parametrize(
    "attributes", [{"Other": text("x")}, {"AWSTraceHeader": text("1", "Number")}, {"AWSTraceHeader": binary(b"x")}]
)
def test_other_system_attributes_are_refused(sqs: Sqs, url: str, attributes: dict[str, Any]) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageSystemAttributes=attributes)
    assert failure.code == "InvalidParameterValue"


# Bodies


@pytest.mark.parametrize("body", ["\0", "a\x0b", "\x1f", "\ufffe", "ok\uffff"])
def test_characters_that_are_refused(sqs: Sqs, url: str, body: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody=body)
    assert (failure.status, failure.code) == (400, "InvalidMessageContents")
    assert failure.message.startswith(CHARACTERS)
    attributes = {"a": text(body)}
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
    assert (failure.code, failure.message.startswith(CHARACTERS)) == ("InvalidParameterValue", True)


@pytest.mark.parametrize("body", ["\t\n\r ", "\x7f\x85", "\ud7ff\ue000\ufffd", "\U00010000\U0010ffff"])
def test_characters_at_the_edges(sqs: Sqs, url: str, body: str) -> None:
    sqs.send(url, body)
    assert sqs.bodies(url) == [body]


def test_an_empty_body_is_a_missing_one(sqs: Sqs, url: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="")
    assert (failure.code, failure.message) == (
        "MissingParameter",
        "The request must contain the parameter MessageBody.",
    )


def test_a_message_of_one_mebibyte(sqs: Sqs, url: str) -> None:
    most = 1024 * 1024
    sqs.send(url, "x" * most)
    sqs.send(url, "ü" * (most // 2))
    sqs.send(url, "\n" * (most - 9), MessageAttributes={"ab": text("c")})
    for asked in (
        {"MessageBody": "x" * most + "x"},
        {"MessageBody": "x" * most, "MessageAttributes": {"a": text("b")}},
    ):
        failure = sqs.refused("SendMessage", QueueUrl=url, **asked)
        assert failure.code == "InvalidParameterValue"
        assert failure.message == (
            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."
        )
    assert [len(body) for body in sqs.bodies(url)] == [most, most // 2, most - 9]


def test_a_queue_may_take_less(sqs: Sqs) -> None:
    url = sqs.create(MaximumMessageSize="1024")
    sqs.send(url, "x" * 1024)
    for asked in ({"MessageBody": "x" * 1025}, {"MessageBody": "x" * 1017, "MessageAttributes": {"a": text("b")}}):
        failure = sqs.refused("SendMessage", QueueUrl=url, **asked)
        assert failure.message.endswith("Message must be shorter than 1024 bytes.")
    sqs.send(url, "x" * 1016, MessageAttributes={"a": text("b")})


@pytest.mark.parametrize("delay", [-1, 901])
def test_delays_out_of_their_bounds(sqs: Sqs, url: str, delay: int) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", DelaySeconds=delay)
    assert failure.message == (
        f"Value {delay} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    )


# Attributes


def test_ten_attributes(sqs: Sqs, url: str) -> None:
    sqs.send(url, MessageAttributes={f"a{number}": text("x") for number in range(10)})
    more = {f"a{number}": text("x") for number in range(11)}
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=more)
    assert failure.message == "Number of message attributes [11] exceeds the allowed maximum [10]."


@pytest.mark.parametrize(
    "name", ["AWS.x", "aws.x", "Amazon.x", "AMAZON.", ".a", "a.", "a..b", "a b", "a/b", "a*", "x" * 257, "☃"]
)
def test_names_that_are_refused(sqs: Sqs, url: str, name: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes={name: text("x")})
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")


@pytest.mark.parametrize("name", ["a", "A.b-c_d", "0", "awsx", "x" * 256, "ÄöÅ"])
def test_names_that_are_not(sqs: Sqs, url: str, name: str) -> None:
    sqs.send(url, MessageAttributes={name: text("x")})
    assert sqs.receive(url, MessageAttributeNames=["All"])[0]["MessageAttributes"] == {name: text("x")}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"StringValue": "x"}, "must contain a non-empty message attribute type"),
        ({"DataType": "", "StringValue": "x"}, "must contain a non-empty message attribute type"),
        (text("x", "Text"), "You must use only the following supported type prefixes: Binary, Number, String."),
        (text("x", "Stringy"), "You must use only the following supported type prefixes"),
        (text("x", "string"), "You must use only the following supported type prefixes"),
        (text("x", "String."), "You must use only the following supported type prefixes"),
        (text("x", "String." + "x" * 250), "types must be shorter than 256 Bytes"),
        (text(""), "Message (user) attribute 'a' must contain a non-empty value of type 'String'."),
        ({"DataType": "String"}, "Message (user) attribute 'a' must contain a non-empty value of type 'String'."),
        (binary(b"x", "String"), "must contain a non-empty value of type 'String'."),
        (text("x", "Binary"), "must contain a non-empty value of type 'Binary'."),
        (binary(b""), "must contain a non-empty value of type 'Binary'."),
        ({**text("x"), "BinaryValue": b"y"}, "must contain a non-empty value of type 'String'."),
        *[
            (text(number, "Number.x"), "Can't cast the value of message (user) attribute 'a' to a number.")
            for number in ("x", "1_000", "nan", "inf", " 1", "0x1", "1,5", "٣", "1" * 300)
        ],
    ],
)
def test_values_that_are_refused(sqs: Sqs, url: str, value: dict[str, Any], said: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes={"a": value})
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert said in failure.message


def test_lists_of_values_are_for_later(sqs: Sqs, url: str) -> None:
    value = {**text("x"), "StringListValues": ["a"]}
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes={"a": value})
    assert (failure.status, failure.code) == (400, "AWS.SimpleQueueService.UnsupportedOperation")


@pytest.mark.parametrize("parameter", ["MessageGroupId", "MessageDeduplicationId", "ReceiveRequestAttemptId"])
@pytest.mark.parametrize("value", ["", "a b", "x" * 129, "ü", "a\tb", "a\x7f"])
def test_ids_that_are_refused(sqs: Sqs, parameter: str, value: str) -> None:
    url = sqs.create_fifo()
    if parameter == "ReceiveRequestAttemptId":
        failure = sqs.refused("ReceiveMessage", QueueUrl=url, ReceiveRequestAttemptId=value)
    else:
        ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d", parameter: value}
        failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", **ids)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert f"for parameter {parameter} is invalid." in failure.message


def test_the_signs_that_ids_may_have(sqs: Sqs) -> None:
    url = sqs.create_fifo()
    signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    sqs.send(url, MessageGroupId=signs, MessageDeduplicationId=signs[::-1])
    [message] = sqs.receive(url, AttributeNames=["All"], ReceiveRequestAttemptId=signs)
    assert message["Attributes"]["MessageGroupId"] == signs
    assert message["Attributes"]["MessageDeduplicationId"] == signs[::-1]


# Kinds of queues


def test_what_a_plain_queue_does_not_take(sqs: Sqs, url: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")
    assert failure.message == (
        "Value d for parameter MessageDeduplicationId is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )
    sent = sqs.send(url, MessageGroupId="tenant")
    assert "SequenceNumber" not in sent
    [message] = sqs.receive(url, AttributeNames=["All"])
    assert message["Attributes"]["MessageGroupId"] == "tenant"
    assert not message["Attributes"].keys() & {"SequenceNumber", "MessageDeduplicationId"}


def test_what_a_fifo_queue_needs(sqs: Sqs) -> None:
    url = sqs.create_fifo()
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")
    assert (failure.code, failure.message) == (
        "MissingParameter",
        "The request must contain the parameter MessageGroupId.",
    )
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", MessageGroupId="g")
    assert (failure.code, failure.message) == (
        "InvalidParameterValue",
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
    )
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x", DelaySeconds=2, **ids)
    assert failure.message == (
        "Value 2 for parameter DelaySeconds is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )
    assert len(sqs.send(url, DelaySeconds=0, **ids)["SequenceNumber"]) == 20


# Batches


def entry(entry_id: str = "a", **changed: Any) -> dict[str, Any]:
    return {"Id": entry_id, "MessageBody": f"body {entry_id}", **changed}


def test_a_batch(sqs: Sqs, url: str) -> None:
    attributes = {"n": text("1", "Number")}
    entries = [entry(), entry("b", MessageAttributes=attributes), entry("c-_9", DelaySeconds=900)]
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [one["Id"] for one in sent["Successful"]] == ["a", "b", "c-_9"]
    assert sent["Successful"][1]["MD5OfMessageAttributes"] == md5_of(attributes)
    assert sqs.bodies(url) == ["body a", "body b"]


@pytest.mark.parametrize("operation", ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
@pytest.mark.parametrize(
    ("ids", "code", "message"),
    [
        ([], "EmptyBatchRequest", "There should be at least one "),
        (["a"] * 11, "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent 11."),
        (["a", "b", "a"], "BatchEntryIdsNotDistinct", "Id a repeated."),
        (["a b"], "InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and "),
        ([""], "InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and "),
        (["x" * 81], "InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and "),
    ],
)
def test_a_batch_that_is_wrong_as_a_whole(
    sqs: Sqs, url: str, operation: str, ids: list[str], code: str, message: str
) -> None:
    entries = [entry(one, ReceiptHandle="x", VisibilityTimeout=1) for one in ids]
    failure = sqs.refused(operation, QueueUrl=url, Entries=entries)
    assert (failure.status, failure.code) == (400, f"AWS.SimpleQueueService.{code}")
    assert failure.message.startswith(message)
    assert failure.shape in (None, f"com.amazonaws.sqs#{code}")
    assert sqs.receive(url) == []


def test_entries_fail_one_by_one(sqs: Sqs, url: str) -> None:
    entries = [
        entry("a"),
        entry("b", MessageBody=""),
        entry("c", MessageBody="\0"),
        entry("d", DelaySeconds=901),
        entry("e", MessageDeduplicationId="d"),
        entry("f", MessageAttributes={"AWS.x": text("y")}),
        entry("g"),
    ]
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [one["Id"] for one in sent["Successful"]] == ["a", "g"]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in sent["Failed"]] == [
        ("b", "MissingParameter", True),
        ("c", "InvalidMessageContents", True),
        ("d", "InvalidParameterValue", True),
        ("e", "InvalidParameterValue", True),
        ("f", "InvalidParameterValue", True),
    ]
    assert all(one["Message"] for one in sent["Failed"])
    assert sqs.bodies(url) == ["body a", "body g"]


def test_a_batch_of_nothing_good(sqs: Sqs, url: str) -> None:
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=[entry("a", MessageBody="")])
    assert list(sent) == ["Failed"]
    failure = sqs.refused("SendMessageBatch", QueueUrl="none", Entries=[entry("a", MessageBody="")])
    assert failure.code == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_batch_of_one_mebibyte(sqs: Sqs, url: str) -> None:
    half = "x" * (512 * 1024)
    sqs("SendMessageBatch", QueueUrl=url, Entries=[entry("a", MessageBody=half), entry("b", MessageBody=half)])
    failure = sqs.refused(
        "SendMessageBatch", QueueUrl=url, Entries=[entry("a", MessageBody=half), entry("b", MessageBody=half + "x")]
    )
    assert failure.code == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert failure.message == "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    assert len(sqs.receive(url)) == 2


def test_an_entry_that_is_too_long_for_its_queue(sqs: Sqs) -> None:
    url = sqs.create(MaximumMessageSize="1024")
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=[entry("a", MessageBody="x" * 1025), entry("b")])
    assert [one["Id"] for one in sent["Successful"]] == ["b"]
    assert sent["Failed"][0]["Message"].endswith("Message must be shorter than 1024 bytes.")


def test_what_entries_for_a_fifo_queue_lack_concerns_all(sqs: Sqs) -> None:
    url = sqs.create_fifo()
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    failure = sqs.refused(
        "SendMessageBatch", QueueUrl=url, Entries=[entry("a", **ids), entry("b", MessageDeduplicationId="e")]
    )
    assert (failure.code, failure.message) == (
        "InvalidParameterValue",
        "The request must contain the parameter MessageGroupId.",
    )
    failure = sqs.refused("SendMessageBatch", QueueUrl=url, Entries=[entry("a", **ids), entry("b", MessageGroupId="g")])
    assert failure.code == "InvalidParameterValue"
    assert failure.message.startswith("The queue should either have ContentBasedDeduplication enabled")
    assert sqs.receive(url) == []


def test_a_batch_keeps_its_order_in_a_fifo_queue(sqs: Sqs) -> None:
    url = sqs.create_fifo(ContentBasedDeduplication="true")
    entries = [entry(f"{number}", MessageGroupId="g") for number in range(10)]
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=entries)["Successful"]
    sequence = [one["SequenceNumber"] for one in sent]
    assert sequence == sorted(sequence)
    assert sqs.bodies(url) == [f"body {number}" for number in range(10)]
