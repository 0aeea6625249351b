"""Messages through boto3: what was sent comes back as it was, with the digests that other SDKs compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import StoreUnavailable
from tests.servers import ServerProcess, ThreadServer
from tests.sqs_clients.digests import attributes_digest, body_digest
from tests.sqs_clients.sdk import SdkError, Sqs, answer_of, refusal
from tests.waiting import wait_until

Create = Callable[..., str]

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "text": {"DataType": "String", "StringValue": "plain"},
    "größe": {"DataType": "String", "StringValue": "käse 🧀"},
    "number": {"DataType": "Number", "StringValue": "-12.50"},
    "long": {"DataType": "Number.java.lang.Long", "StringValue": "1493147359900"},
    "bytes": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
    "picture": {"DataType": "Binary.png", "BinaryValue": b"\x89PNG"},
    "labelled": {"DataType": "String.custom", "StringValue": "<&>\"'"},
    "A.b-c_d": {"DataType": "String", "StringValue": " blanks at both ends "},
}
TRACE = "Root=1-5e3d83c1-e6a0db584850d61342823d4c;Parent=;Sampled=1"
FIFO_BY_CONTENT = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
SYSTEM = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}


def one(answer: dict[str, Any]) -> dict[str, Any]:
    [message] = answer["Messages"]
    return message


def test_the_digests_of_these_tests_are_those_of_aws() -> None:
    """As its SDKs for other languages have them in their own tests."""
    sent_at = {"StringValue": "1493147359900", "DataType": "Number"}
    assert attributes_digest({"timestamp": sent_at}) == "235c5c510d26fb653d073faed50ae77c"
    sent_at["DataType"] = "Number.java.lang.Long"
    assert attributes_digest({"timestamp": sent_at}) == "2e2e4876d8e0bd6b8c2c8f556831c349"


BODIES = [
    "hello",
    " ",
    "naïve ☃ 🧀",
    "a\r\nb\rc\td\n",
    "<a>&amp;'\"</a>",
    '{"n": 1}',
    "\ud7ff\ue000\ufffd",
    "x" * 100_000,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_body_comes_back_as_it_was(sqs: Sqs, create: Create, body: str) -> None:
    url = create("jobs")
    sent = sqs.send_message(QueueUrl=url, MessageBody=body)
    assert set(sent) == {"MessageId", "MD5OfMessageBody"}
    assert sent["MD5OfMessageBody"] == body_digest(body)
    message = one(sqs.receive_message(QueueUrl=url))
    assert set(message) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    assert (message["Body"], message["MD5OfBody"]) == (body, sent["MD5OfMessageBody"])
    assert message["MessageId"] == sent["MessageId"]


def test_attributes_of_all_types(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=ATTRIBUTES, MessageSystemAttributes=SYSTEM)
    assert sent["MD5OfMessageAttributes"] == attributes_digest(ATTRIBUTES)
    assert sent["MD5OfMessageSystemAttributes"] == attributes_digest(SYSTEM)
    message = one(sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]))
    assert message["MessageAttributes"] == ATTRIBUTES
    assert message["MD5OfMessageAttributes"] == attributes_digest(ATTRIBUTES)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], set()),
        (["text"], {"text"}),
        (["text", "never"], {"text"}),
        (["never"], set()),
        (["l.*"], {"long", "labelled"}),
        ([".*"], set(ATTRIBUTES)),
        (["All"], set(ATTRIBUTES)),
    ],
)
def test_attributes_are_answered_when_they_are_asked_for(sqs, create: Create, asked, found) -> None:
    """The digest is that of what is answered."""
    url = create("jobs")
    renamed = {"l.ong": ATTRIBUTES["long"], "l.abelled": ATTRIBUTES["labelled"]}
    rest = {name: value for name, value in ATTRIBUTES.items() if name not in ("long", "labelled")}
    names = {"long": "l.ong", "labelled": "l.abelled"}
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=rest | renamed)
    message = one(sqs.receive_message(QueueUrl=url, MessageAttributeNames=asked))
    expected = {name: (rest | renamed)[name] for name in (names.get(one, one) for one in found)}
    assert message.get("MessageAttributes", {}) == expected
    assert message.get("MD5OfMessageAttributes") == (attributes_digest(expected) if expected else None)


def test_system_attributes(sqs: Sqs, create: Create, server: ThreadServer) -> None:
    url = create("jobs")
    before = int(time.time() * 1000)
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes=SYSTEM)
    first = one(sqs.receive_message(QueueUrl=url, AttributeNames=["All"]))["Attributes"]
    assert set(first) == {
        "AWSTraceHeader",
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SenderId",
        "SentTimestamp",
    }
    assert first["AWSTraceHeader"] == TRACE
    assert first["ApproximateReceiveCount"] == "1"
    assert before <= int(first["SentTimestamp"]) <= int(first["ApproximateFirstReceiveTimestamp"])
    server.clock.advance(31)
    second = one(sqs.receive_message(QueueUrl=url, AttributeNames=["All"]))["Attributes"]
    assert second == first | {"ApproximateReceiveCount": "2"}
    server.clock.advance(31)
    some = one(sqs.receive_message(QueueUrl=url, AttributeNames=["SentTimestamp", "ApproximateReceiveCount"]))
    assert some["Attributes"] == {"SentTimestamp": first["SentTimestamp"], "ApproximateReceiveCount": "3"}


@pytest.mark.parametrize("protocol", ["json"], indirect=True)
def test_system_attributes_by_their_newer_name(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    message = one(sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["ApproximateReceiveCount"]))
    assert message["Attributes"] == {"ApproximateReceiveCount": "1"}


def test_a_batch_may_fail_in_part(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "good", "MessageAttributes": ATTRIBUTES},
            {"Id": "late", "MessageBody": "late", "DelaySeconds": 901},
            {"Id": "odd", "MessageBody": "odd \x01"},
            {"Id": "fine", "MessageBody": "fine", "DelaySeconds": 900},
        ],
    )
    good, fine = answer["Successful"]
    assert (good["Id"], good["MD5OfMessageBody"]) == ("good", body_digest("good"))
    assert good["MD5OfMessageAttributes"] == attributes_digest(ATTRIBUTES)
    assert (fine["Id"], "MD5OfMessageAttributes" in fine) == ("fine", False)
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("late", "InvalidParameterValue", True),
        ("odd", "InvalidMessageContents", True),
    ]
    assert all(entry["Message"] for entry in answer["Failed"])
    assert one(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10))["Body"] == "good"


def test_batches_of_receipts_may_fail_in_part(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    for word in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=word)
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    handles = {"one": received[0]["ReceiptHandle"], "two": received[1]["ReceiptHandle"], "odd": "not a receipt"}
    hidden = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[{"Id": name, "ReceiptHandle": handle, "VisibilityTimeout": 600} for name, handle in handles.items()],
    )
    assert [entry["Id"] for entry in hidden["Successful"]] == ["one", "two"]
    assert [(entry["Id"], entry["Code"]) for entry in hidden["Failed"]] == [("odd", "ReceiptHandleIsInvalid")]
    gone = sqs.delete_message_batch(
        QueueUrl=url, Entries=[{"Id": name, "ReceiptHandle": handle} for name, handle in handles.items()]
    )
    assert [entry["Id"] for entry in gone["Successful"]] == ["one", "two"]
    assert [(entry["Id"], entry["Code"]) for entry in gone["Failed"]] == [("odd", "ReceiptHandleIsInvalid")]
    assert sqs.receive_message(QueueUrl=url) == {}


def test_a_message_is_hidden_and_comes_back(sqs: Sqs, create: Create, server: ThreadServer) -> None:
    url = create("jobs", VisibilityTimeout=600)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    first = one(sqs.receive_message(QueueUrl=url))
    server.clock.advance(500)
    assert sqs.receive_message(QueueUrl=url) == {}
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=1_000)
    server.clock.advance(900)
    assert sqs.receive_message(QueueUrl=url) == {}
    server.clock.advance(101)
    second = one(sqs.receive_message(QueueUrl=url, VisibilityTimeout=5))
    server.clock.advance(6)
    third = one(sqs.receive_message(QueueUrl=url))
    assert len({message["ReceiptHandle"] for message in (first, second, third)}) == 3
    sqs.delete_message(QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])
    server.clock.advance(1_000)
    assert sqs.receive_message(QueueUrl=url) == {}


def test_a_receipt_that_is_out_of_date_does_nothing_and_says_nothing(sqs, create: Create, server) -> None:
    """Where AWS would delete what somebody else holds. Workers of kombu end when they are told of an error here."""
    url = create("jobs")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    old = one(sqs.receive_message(QueueUrl=url))["ReceiptHandle"]
    server.clock.advance(31)
    new = one(sqs.receive_message(QueueUrl=url))["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=old, VisibilityTimeout=0)
    assert sqs.receive_message(QueueUrl=url) == {}
    sqs.delete_message(QueueUrl=url, ReceiptHandle=new)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=new)
    refused = refusal(sqs.change_message_visibility, QueueUrl=url, ReceiptHandle=new, VisibilityTimeout=9)
    assert refused.code == "InvalidParameterValue"
    assert "Message does not exist or is not available for visibility timeout change" in refused.text


def test_a_receipt_that_ran_out_still_deletes_what_was_not_received_again(sqs, create: Create, server) -> None:
    url = create("jobs")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    receipt = one(sqs.receive_message(QueueUrl=url))["ReceiptHandle"]
    server.clock.advance(31)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    assert sqs.receive_message(QueueUrl=url) == {}


def test_delays(sqs: Sqs, create: Create, server: ThreadServer) -> None:
    url = create("jobs", DelaySeconds=100)
    sqs.send_message(QueueUrl=url, MessageBody="the queue's")
    sqs.send_message(QueueUrl=url, MessageBody="its own", DelaySeconds=900)
    sqs.send_message(QueueUrl=url, MessageBody="none", DelaySeconds=0)
    seen = []
    for seconds in (0, 101, 800):
        server.clock.advance(seconds)
        seen.append(one(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=9_000))["Body"])
    assert seen == ["none", "the queue's", "its own"]


def test_a_long_poll_is_woken_by_a_message(sqs: Sqs, create: Create, server: ThreadServer) -> None:
    url = create("jobs")
    waiting = sqs.begin("receive_message", QueueUrl=url, WaitTimeSeconds=20)
    wait_until(server.waiting_claims)
    sqs.send_message(QueueUrl=url, MessageBody="at last")
    assert one(answer_of(waiting))["Body"] == "at last"


def test_a_queue_may_have_a_wait_of_its_own(sqs: Sqs, create: Create, server: ThreadServer) -> None:
    url = create("jobs", ReceiveMessageWaitTimeSeconds=20)
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0) == {}
    waiting = sqs.begin("receive_message", QueueUrl=url)
    wait_until(server.waiting_claims)
    sqs.send_message(QueueUrl=url, MessageBody="at last")
    assert one(answer_of(waiting))["Body"] == "at last"


def test_a_long_poll_that_finds_nothing_answers_nothing(sqs: Sqs, create: Create) -> None:
    assert sqs.receive_message(QueueUrl=create("jobs"), WaitTimeSeconds=1) == {}


def test_every_answer_has_an_id(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    ids = set()
    for _ in range(3):
        sqs.send_message(QueueUrl=url, MessageBody="x")
        ids.add(sqs.request_id)
    assert len(ids) == 3
    assert all(ids)
    assert refusal(sqs.get_queue_url, QueueName="never").request_id


@pytest.mark.parametrize("megabytes", [1, 1.0001])
def test_a_message_may_have_one_mebibyte(sqs: Sqs, create: Create, megabytes: float) -> None:
    url = create("jobs")
    body = "x" * (int(megabytes * 1024 * 1024) - len("nString") - 1_000)
    attributes = {"n": {"DataType": "String", "StringValue": "y" * 1_000}}
    if megabytes == 1:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        assert len(one(sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]))["Body"]) == len(body)
    else:
        refused = refusal(sqs.send_message, QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        assert refused.code == "InvalidParameterValue"
        assert "Message must be shorter than 1048576 bytes" in refused.text


def test_a_store_that_is_away_is_asked_again_by_the_sdk(sdk, server: ThreadServer) -> None:
    sqs = sdk.connect(server.url, retries={"total_max_attempts": 5})
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    failures = iter([True, True])
    unit = server.store.unit

    def failing(*words: object, **named: object) -> object:
        if next(failures, False):
            raise StoreUnavailable("away")
        return unit(*words, **named)

    server.store.unit = failing
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert sqs.attempts == 3
    with pytest.raises(SdkError):
        sqs.get_queue_url(QueueName="never")


def test_what_was_answered_survives_a_server_that_is_killed(sdk, serve: type[ServerProcess]) -> None:
    """The SDK tries again by itself until the next server is there."""
    first = serve()
    sqs = sdk.connect(first.url, retries={"total_max_attempts": 30, "mode": "standard"})
    url = sqs.create_queue(QueueName="jobs.fifo", Attributes=FIFO_BY_CONTENT)["QueueUrl"]
    sent = [sqs.send_message(QueueUrl=url, MessageBody=f"m{n}", MessageGroupId="g")["MessageId"] for n in range(5)]
    [head] = sqs.receive_message(QueueUrl=url)["Messages"]
    first.kill()
    waiting = sqs.begin("delete_message", QueueUrl=url, ReceiptHandle=head["ReceiptHandle"])
    with first.kept_port() as port:
        serve(port=port)
    answer_of(waiting)
    # Sent again, as by a program that did not hear the answer.
    assert sqs.send_message(QueueUrl=url, MessageBody="m1", MessageGroupId="g")["MessageId"] == sent[1]
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["MessageId"] for message in received] == sent[1:]
