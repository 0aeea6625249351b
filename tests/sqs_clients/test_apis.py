"""What is sent through one API is received through another: every pair of them, the SDKs for SQS included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from penstock import gq
from penstock.client import Client
from tests.servers import ThreadServer
from tests.sqs_clients.environments import GENERATIONS
from tests.sqs_clients.sdk import Sdk, Sqs
from tests.talk import Talk

QUEUE = "shared"
# JSON, because EmoDB sends nothing else, and in the form that every API leaves alone.
BODIES = ['{"order":7,"for":"Zoë"}', '"text"', "[1,2.50]"]


class Api(Protocol):
    """One API, as its users see it. Each asks for a queue, or makes it, in its own way."""

    def send(self, body: str) -> None: ...

    def receive(self) -> str:
        """The oldest message, which is finished as well."""


class ByNative:
    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def send(self, body: str) -> None:
        self._client.send(QUEUE, body.encode(), content_type="application/json")

    def receive(self) -> str:
        [message] = self._client.claim(QUEUE, limit=1)
        assert self._client.ack(QUEUE, [message.receipt]) == [True]
        return message.body.decode()

    def close(self) -> None:
        self._client.close()


class ByMqs:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def send(self, body: str) -> None:
        assert self._talk("POST", f"/messages/{QUEUE}", body, content_type="application/json").status == 201

    def receive(self) -> str:
        reply = self._talk("GET", f"/messages/{QUEUE}")
        assert self._talk("DELETE", f"/messages/{reply.headers['X-MQS-MESSAGE-ID']}").status == 204
        return reply.body.decode()


class ByEmodb:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def send(self, body: str) -> None:
        assert self._talk("POST", f"/queue/1/{QUEUE}/send", body, content_type="application/json").status == 200

    def receive(self) -> str:
        reply = self._talk("GET", f"/queue/1/{QUEUE}/poll?limit=1")
        [message] = json.loads(reply.body)
        assert self._talk("POST", f"/queue/1/{QUEUE}/ack", [message["id"]]).status == 200
        # The payload stands in the answer as the bytes that were sent.
        return reply.body.decode().partition('"payload":')[2].removesuffix("}]")


class ByMqcore:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def send(self, body: str) -> None:
        assert self._talk("POST", f"/{QUEUE}/messages", body, content_type="application/json").status == 201

    def receive(self) -> str:
        reply = self._talk("GET", f"/{QUEUE}/messages")
        assert self._talk("DELETE", f"/{QUEUE}/messages/{reply.headers['X-Message-Id']}").status == 202
        return reply.body.decode()


class BySqs:
    def __init__(self, sqs: Sqs) -> None:
        self._sqs = sqs

    def send(self, body: str) -> None:
        self._sqs.send_message(QueueUrl=QUEUE, MessageBody=body)

    def receive(self) -> str:
        [message] = self._sqs.receive_message(QueueUrl=QUEUE)["Messages"]
        self._sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=message["ReceiptHandle"])
        return message["Body"]


class ByGq:
    """On the same file, without the server."""

    def __init__(self, folder: Path) -> None:
        self._client = gq.Client(f"sqlite:///{folder}/data/penstock.db")

    def send(self, body: str) -> None:
        self._client.producer(QUEUE).push(body)

    def receive(self) -> str:
        received = []
        consumer = self._client.consumer(QUEUE, batch=1)

        def work(payload: bytes) -> None:
            received.append(payload.decode())
            consumer.stop()

        consumer.process(work)
        return received[0]

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def apis(server: ThreadServer, talk: Talk, tmp_path: Path, sdk_of: Callable[[str], Sdk]) -> Iterator[dict[str, Api]]:
    assert talk("PUT", f"/v1/queues/{QUEUE}", {}).status == 201
    native, library = ByNative(server.url), ByGq(tmp_path)
    yield {
        "native": native,
        "mqs": ByMqs(talk),
        "EmoDB": ByEmodb(talk),
        "MQ-Core": ByMqcore(talk),
        "gq": library,
        **{f"SQS, {protocol}": BySqs(sdk_of(protocol).connect(server.url)) for protocol in GENERATIONS},
    }
    native.close()
    library.close()


# Those that have no word for the type of a body.
UNTYPED = ["gq", *(f"SQS, {protocol}" for protocol in GENERATIONS)]
NAMES = ["native", "mqs", "EmoDB", "MQ-Core", *UNTYPED]


@pytest.mark.parametrize("sender", NAMES)
def test_what_is_sent_here_is_received_there(apis: dict[str, Api], sender: str) -> None:
    assert list(apis) == NAMES
    for receiver in NAMES:
        for body in BODIES:
            apis[sender].send(body)
        # Of what is not said to be JSON, EmoDB makes a string in JSON.
        is_text = receiver == "EmoDB" and sender in UNTYPED
        expected = [json.dumps(body, ensure_ascii=False) for body in BODIES] if is_text else BODIES
        assert [apis[receiver].receive() for _ in BODIES] == expected, receiver


@pytest.mark.parametrize("protocol", GENERATIONS)
def test_a_body_that_is_not_text_does_not_stop_a_queue(
    apis, talk: Talk, sdk_of, server: ThreadServer, protocol
) -> None:
    """It comes in base64, and says so."""
    sqs = sdk_of(protocol).connect(server.url)
    picture = b"\x89PNG\r\n\x1a\n"
    assert talk("POST", f"/messages/{QUEUE}", picture, content_type="image/png").status == 201
    apis["MQ-Core"].send("after it")
    received = sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=10, MessageAttributeNames=["All"])["Messages"]
    assert [message["Body"] for message in received] == ["iVBORw0KGgo=", "after it"]
    attributes = {name: one["StringValue"] for name, one in received[0]["MessageAttributes"].items()}
    assert attributes == {"penstock.body": "base64", "penstock.content_type": "image/png"}


@pytest.mark.parametrize("protocol", GENERATIONS)
def test_attributes_pass_in_both_directions(apis, server: ThreadServer, sdk_of, protocol: str) -> None:
    sqs = sdk_of(protocol).connect(server.url)
    with Client(server.url) as client:
        sqs.send_message(
            QueueUrl=QUEUE,
            MessageBody="there",
            MessageAttributes={
                "kind": {"DataType": "String", "StringValue": "mail"},
                "size": {"DataType": "Number", "StringValue": "7"},
            },
        )
        [message] = client.claim(QUEUE)
        assert {name: message.attributes[name] for name in ("kind", "size")} == {"kind": "mail", "size": "7"}
        client.ack(QUEUE, [message.receipt])
        client.send(QUEUE, "back", attributes={"kind": "order"})
    [received] = sqs.receive_message(QueueUrl=QUEUE, MessageAttributeNames=["All"])["Messages"]
    assert received["MessageAttributes"] == {"kind": {"DataType": "String", "StringValue": "order"}}
