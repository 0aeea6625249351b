"""Receiving: attributes, system attributes, long polls, visibility, and bodies of every kind."""

from __future__ import annotations

import base64
import hashlib
import threading
from typing import Any

import pytest

from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.faces.sqs.test_send import binary, md5_of, text
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

SYSTEM = {"SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"}


def test_one_message_unless_more_are_asked_for(sqs: Sqs, url: str) -> None:
    for body in "abc":
        sqs.send(url, body)
    assert [one["Body"] for one in sqs("ReceiveMessage", QueueUrl=url)["Messages"]] == ["a"]
    assert sqs.bodies(url, MaxNumberOfMessages=2) == ["b", "c"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"MaxNumberOfMessages": 11},
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        ),
        ({"MaxNumberOfMessages": 0}, "Value 0 for parameter MaxNumberOfMessages is invalid. Reason: Must be between"),
        ({"WaitTimeSeconds": 21}, "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20"),
        ({"WaitTimeSeconds": -1}, "Value -1 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20"),
        ({"VisibilityTimeout": 43201}, "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be >= 0"),
        ({"VisibilityTimeout": -1}, "Value -1 for parameter VisibilityTimeout is invalid. Reason: Must be >= 0"),
    ],
)
def test_numbers_out_of_their_bounds(sqs: Sqs, url: str, asked: dict[str, int], message: str) -> None:
    failure = sqs.refused("ReceiveMessage", QueueUrl=url, **asked)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert failure.message.startswith(message)


# System attributes


def test_all_system_attributes(sqs: Sqs, url: str, server: ThreadServer) -> None:
    before = server.clock()
    sqs.send(url)
    server.clock.advance(5)
    [message] = sqs.receive(url, AttributeNames=["All"], VisibilityTimeout=0)
    shown = message["Attributes"]
    assert shown.keys() == SYSTEM
    assert shown["SenderId"] == ACCOUNT
    assert shown["ApproximateReceiveCount"] == "1"
    assert before <= int(shown["SentTimestamp"]) <= int(shown["ApproximateFirstReceiveTimestamp"]) - 5000
    server.clock.advance(5)
    [again] = sqs.receive(url, MessageSystemAttributeNames=["All"])
    assert again["Attributes"] == shown | {"ApproximateReceiveCount": "2"}


@pytest.mark.parametrize("parameter", ["AttributeNames", "MessageSystemAttributeNames"])
def test_some_system_attributes(sqs: Sqs, url: str, parameter: str) -> None:
    sqs.send(url)
    [message] = sqs.receive(url, **{parameter: ["SenderId", "SequenceNumber", "VisibilityTimeout", "Nothing"]})
    assert message["Attributes"] == {"SenderId": ACCOUNT}


def test_both_parameters_count(in_json: Sqs) -> None:
    url = in_json.create()
    in_json.send(url)
    [message] = in_json.receive(url, AttributeNames=["SenderId"], MessageSystemAttributeNames=["SentTimestamp"])
    assert message["Attributes"].keys() == {"SenderId", "SentTimestamp"}


# Attributes


NAMED = {"Hello": text("There"), "General": text("Kenobi"), "Help.Me": text("Me")}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], set()),
        (["All"], set(NAMED)),
        ([".*"], set(NAMED)),
        (["Hello", "General"], {"Hello", "General"}),
        (["Hello", "Nothing"], {"Hello"}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Help.*"], {"Help.Me"}),
        (["*"], set(NAMED)),
        (["Nothing", "hello", "He", "AWS.*", ""], set()),
    ],
)
def test_attributes_by_their_names(sqs: Sqs, url: str, names: list[str], shown: set[str]) -> None:
    sqs.send(url, MessageAttributes=NAMED)
    [message] = sqs.receive(url, MessageAttributeNames=names)
    assert message.get("MessageAttributes", {}) == {name: NAMED[name] for name in shown}
    assert message.get("MD5OfMessageAttributes") == (md5_of({name: NAMED[name] for name in shown}) if shown else None)


def test_attributes_keep_their_types(sqs: Sqs, url: str) -> None:
    given = {"s": text("x", "String.a"), "n": text("1", "Number.b"), "b": binary(b"\0\xff", "Binary.c"), "p": text("y")}
    sqs.send(url, MessageAttributes=given)
    [message] = sqs.receive(url, MessageAttributeNames=["All"])
    shown = {
        name: {**value, **({"BinaryValue": base64.b64decode(value["BinaryValue"])} if "BinaryValue" in value else {})}
        for name, value in message["MessageAttributes"].items()
    }
    assert shown == given


# Visibility and waiting


def test_visibility(sqs: Sqs, server: ThreadServer) -> None:
    server.clock.stop()
    url = sqs.create(VisibilityTimeout="10")
    sqs.send(url)
    assert len(sqs.receive(url)) == 1
    server.clock.advance(9)
    assert sqs.receive(url) == []
    server.clock.advance(1)
    assert len(sqs.receive(url, VisibilityTimeout=43200)) == 1
    server.clock.advance(43199)
    assert sqs.receive(url) == []
    server.clock.advance(1)
    assert len(sqs.receive(url, VisibilityTimeout=0)) == 1
    assert len(sqs.receive(url)) == 1


def test_a_delay(sqs: Sqs, server: ThreadServer) -> None:
    server.clock.stop()
    url = sqs.create(DelaySeconds="10")
    sqs.send(url, "queue's")
    sqs.send(url, "own", DelaySeconds=20)
    sqs.send(url, "none", DelaySeconds=0)
    assert sqs.bodies(url) == ["none"]
    server.clock.advance(10)
    assert sqs.bodies(url) == ["queue's"]
    server.clock.advance(10)
    assert sqs.bodies(url) == ["own"]


def test_retention(sqs: Sqs, server: ThreadServer) -> None:
    url = sqs.create(MessageRetentionPeriod="60")
    sqs.send(url)
    server.clock.advance(61)
    assert sqs.receive(url) == []


def receive_in_background(server: ThreadServer, protocol: str, **asked: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def wait() -> None:
        with server.talk() as talk:
            found.extend(Sqs(talk, protocol)("ReceiveMessage", **asked).get("Messages", []))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: server.waiting_claims() == ["q"] or not thread.is_alive())
    return thread, found


def test_a_long_poll_waits_for_a_message(sqs: Sqs, url: str, server: ThreadServer) -> None:
    thread, found = receive_in_background(server, sqs.protocol, QueueUrl=url, WaitTimeSeconds=20)
    sqs.send(url, "x")
    thread.join()
    assert [one["Body"] for one in found] == ["x"]


def test_a_queue_may_make_its_receivers_wait(sqs: Sqs, server: ThreadServer) -> None:
    url = sqs.create(ReceiveMessageWaitTimeSeconds="20")
    thread, found = receive_in_background(server, sqs.protocol, QueueUrl=url)
    sqs.send(url, "x")
    thread.join()
    assert [one["Body"] for one in found] == ["x"]
    assert sqs("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=0) == {}


def test_a_receiver_that_has_gone_gets_nothing(in_json: Sqs, server: ThreadServer) -> None:
    url = in_json.create(ReceiveMessageWaitTimeSeconds="20")
    with server.talk() as gone:
        gone._connection.request("POST", "/", '{"QueueUrl": "q"}', {"X-Amz-Target": "AmazonSQS.ReceiveMessage"})
        wait_until(lambda: server.waiting_claims() == ["q"])
    wait_until(lambda: server.waiting_claims() == [])
    in_json.send(url, "x")
    assert in_json.bodies(url) == ["x"]


# What other APIs have sent


def send_natively(talk: Talk, **message: Any) -> None:
    assert talk("POST", "/v1/queues/q/messages", {"messages": [message]}).status == 201


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\0", b"a\x0bb", "\uffff".encode(), b"\xed\xa0\x80"])
def test_a_body_that_is_not_text(talk: Talk, sqs: Sqs, url: str, body: bytes) -> None:
    in_base64 = base64.b64encode(body).decode()
    send_natively(talk, body_base64=in_base64, content_type="image/png", attributes={"a": "b"})
    send_natively(talk, body_base64=in_base64)
    first, second = sqs.receive(url)
    assert first["Body"] == second["Body"] == in_base64
    assert first["MD5OfBody"] == hashlib.md5(in_base64.encode()).hexdigest()
    marks = {"penstock.body": text("base64"), "penstock.content_type": text("image/png")}
    assert first["MessageAttributes"] == marks
    assert first["MD5OfMessageAttributes"] == md5_of(marks)
    assert second["MessageAttributes"] == {"penstock.body": text("base64")}


def test_marks_join_the_attributes_that_were_asked_for(talk: Talk, sqs: Sqs, url: str) -> None:
    send_natively(talk, body_base64="/w==", attributes={"a": "b", "c": "d"})
    [message] = sqs.receive(url, MessageAttributeNames=["a"])
    shown = {"a": text("b"), "penstock.body": text("base64")}
    assert (message["MessageAttributes"], message["MD5OfMessageAttributes"]) == (shown, md5_of(shown))


def test_a_text_of_another_api_has_no_marks(talk: Talk, sqs: Sqs, url: str) -> None:
    send_natively(talk, body="text", content_type="text/plain", attributes={"trace_id": "t"})
    [message] = sqs.receive(url, MessageAttributeNames=["All"], AttributeNames=["SenderId"])
    assert message["Body"] == "text"
    assert message["MessageAttributes"] == {"trace_id": text("t")}
    assert message["Attributes"] == {"SenderId": ACCOUNT}


def test_an_empty_body_of_another_api(talk: Talk, sqs: Sqs, url: str) -> None:
    send_natively(talk, body="")
    [message] = sqs.receive(url)
    assert (message["Body"], message["MD5OfBody"]) == ("", "d41d8cd98f00b204e9800998ecf8427e")


def test_attributes_that_sqs_would_not_take(talk: Talk, sqs: Sqs, url: str) -> None:
    attributes = {"a b": "c", "AWS.types": "not JSON", "AWS.other": "x", "control": "\0", "bad\0name": "x", "empty": ""}
    many = {f"n{number}": "x" for number in range(20)}
    send_natively(talk, body="x", attributes=attributes | many)
    [message] = sqs.receive(url, MessageAttributeNames=["All"])
    shown = message["MessageAttributes"]
    assert shown.keys() == {"a b", "control", "empty", *many}
    assert shown["control"] == {"DataType": "Binary", "BinaryValue": "AA=="}
    assert shown["empty"] == text("")
    assert sqs.receive(url) == []


def test_types_that_do_not_fit_their_values(talk: Talk, sqs: Sqs, url: str) -> None:
    send_natively(talk, body="x", attributes={"AWS.types": '{"a": "Binary", "b": "Number"}', "a": "!", "b": "x"})
    [message] = sqs.receive(url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {"a": text("!"), "b": text("x", "Number")}
