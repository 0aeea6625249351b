"""A message sent through one API and received through another: SQS and each of the others, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.faces.sqs.conftest import Sqs
from tests.faces.sqs.test_send import text
from tests.servers import ThreadServer
from tests.talk import Talk

BODY = {"order": 1}
TEXT = json.dumps(BODY)
AS_JSON = {"content_type": "application/json"}

SENDERS: dict[str, Callable[[Talk], Any]] = {
    "native": lambda talk: talk("POST", "/v1/queues/q/messages", {"messages": [{"body": TEXT}]}),
    "mqs": lambda talk: talk("POST", "/messages/q", TEXT, content_type="text/plain"),
    "emodb": lambda talk: talk("POST", "/queue/1/q/send", TEXT, **AS_JSON),
    "mqcore": lambda talk: talk("POST", "/q/messages", TEXT),
}
RECEIVERS: dict[str, Callable[[Talk], object]] = {
    "native": lambda talk: json.loads(talk("POST", "/v1/queues/q/claim", {}).json["messages"][0]["body"]),
    "mqs": lambda talk: talk("GET", "/messages/q").json,
    # What does not say that it is JSON is a text to EmoDB.
    "emodb": lambda talk: json.loads(talk("GET", "/queue/1/q/poll").json[0]["payload"]),
    "mqcore": lambda talk: talk("GET", "/q/messages").json,
}


@pytest.mark.parametrize("api", SENDERS)
def test_from_another_api_to_sqs(sqs: Sqs, url: str, talk: Talk, api: str) -> None:
    assert SENDERS[api](talk).status in (200, 201)
    [message] = sqs.receive(url, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert json.loads(message["Body"]) == BODY
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "MessageAttributes" not in message
    sqs.delete(url, message)
    assert talk("GET", "/q/messages").status == 204


@pytest.mark.parametrize("api", RECEIVERS)
def test_from_sqs_to_another_api(sqs: Sqs, url: str, talk: Talk, api: str, server: ThreadServer) -> None:
    server.clock.stop()
    sqs.send(url, TEXT)
    assert RECEIVERS[api](talk) == BODY
    assert sqs.receive(url) == []


def test_attributes_cross_over_as_texts(sqs: Sqs, url: str, talk: Talk) -> None:
    given = {"n": text("1", "Number"), "s": text("x"), "b": {"DataType": "Binary", "BinaryValue": b"\xff"}}
    sqs.send(url, MessageAttributes=given)
    [message] = talk("POST", "/v1/queues/q/claim", {}).json["messages"]
    types = message["attributes"].pop("AWS.types")
    assert json.loads(types) == {"n": "Number", "b": "Binary"}
    assert message["attributes"] == {"n": "1", "s": "x", "b": "/w=="}


def test_a_plain_message_carries_nothing_of_sqs(sqs: Sqs, url: str, talk: Talk) -> None:
    sqs.send(url, "x")
    [message] = talk("POST", "/v1/queues/q/claim", {}).json["messages"]
    assert (message["attributes"], message["content_type"]) == ({}, None)


@pytest.mark.parametrize("body", ["x" * 3000, "ü"])
def test_a_queue_that_another_api_has_made(sqs: Sqs, talk: Talk, body: str) -> None:
    talk("PUT", "/queues/theirs", {"retention_timeout": 600, "visibility_timeout": 3, "message_deduplication": True})
    sqs.send("theirs", body)
    assert sqs.bodies("theirs", VisibilityTimeout=0) == [body]
    assert [message["Body"] for message in sqs("ReceiveMessage", QueueUrl="theirs")["Messages"]] == [body]
    shown = sqs.attributes("theirs")
    assert (shown["VisibilityTimeout"], shown["MaximumMessageSize"]) == ("3", "1048576")
    assert not shown.keys() & {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope"}
    sqs("TagQueue", QueueUrl="theirs", Tags={"a": "b"})
    assert talk("GET", "/v1/queues/theirs").json["settings"]["labels"] == {"a": "b"}


# FIFO queues that the native API has made, whatever they are called


@pytest.fixture
def native_fifo(talk: Talk) -> str:
    assert talk("PUT", "/v1/queues/line", {"groups": "fifo", "dedup": "window"}).status == 201
    return "line"


def test_a_native_fifo_queue_is_one_here(sqs: Sqs, native_fifo: str) -> None:
    shown = sqs.attributes(native_fifo)
    assert (shown["FifoQueue"], shown["ContentBasedDeduplication"]) == ("true", "true")
    for body in ("a1", "a2", "b1", "a1"):
        sqs.send(native_fifo, body, MessageGroupId=body[0])
    [head] = sqs.receive(native_fifo, MaxNumberOfMessages=1)
    assert (head["Body"], sqs.bodies(native_fifo)) == ("a1", ["b1"])
    sqs.delete(native_fifo, head)
    assert sqs.bodies(native_fifo) == ["a2"]


def test_ids_in_a_native_fifo_queue(sqs: Sqs, native_fifo: str) -> None:
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = sqs.send(native_fifo, "x", **ids)
    assert sqs.send(native_fifo, "y", **ids)["MessageId"] == first["MessageId"]
    [message] = sqs.receive(native_fifo, AttributeNames=["All"])
    assert message["Attributes"].items() >= {**ids, "SequenceNumber": first["SequenceNumber"]}.items()


def test_a_fifo_queue_of_sqs_is_one_natively(sqs: Sqs, talk: Talk) -> None:
    url = sqs.create_fifo()
    sqs.send(url, "x", MessageGroupId="g", MessageDeduplicationId="d")
    settings = talk("GET", "/v1/queues/q.fifo").json["settings"]
    assert (settings["groups"], settings["dedup"]) == ("fifo", "window")
    assert settings["labels"] == {"aws:sqs:ContentBasedDeduplication": "false"}
    [message] = talk("POST", "/v1/queues/q.fifo/claim", {}).json["messages"]
    assert (message["body"], message["group"]) == ("x", "g")
    twin = {"messages": [{"body": "y", "group": "g", "dedup_id": "d"}]}
    assert talk("POST", "/v1/queues/q.fifo/messages", twin).json["sent"] == [{"id": message["id"], "stored": False}]
