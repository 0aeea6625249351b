"""A client of both protocols, written from the documentation of AWS and not from the face: the same calls go out as
JSON or as a form, and the same results come back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

from tests.servers import ThreadServer
from tests.talk import Reply, Talk

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
ACCOUNT = "000000000000"

# The names of lists and maps in forms, by those in JSON. A map has the name of its keys as well.
LISTS = {
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "StringListValues": "StringListValue",
}
MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "Tags": ("Tag", "Key"),
    "tags": ("Tag", "Key"),
}
# Elements that come more than once, by the names of the lists they make in JSON.
REPEATED = {
    "QueueUrl": "QueueUrls",
    "Message": "Messages",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
    "BatchResultErrorEntry": "Failed",
    "ListMessageMoveTasksResultEntry": "Results",
}
PAIRS = {"Attribute": "Attributes", "MessageAttribute": "MessageAttributes", "Tag": "Tags"}
ONE_URL = ("CreateQueue", "GetQueueUrl")


def form(operation: str, asked: dict[str, Any]) -> dict[str, str]:  # noqa: C901 - a table
    flat: dict[str, str] = {"Action": operation, "Version": "2012-11-05"}

    def put(path: str, name: str, value: Any) -> None:
        if name == "Entries":
            for number, entry in enumerate(value, 1):
                put_all(f"{path}{operation}RequestEntry.{number}.", entry)
        elif name in LISTS:
            put_all(f"{path}{LISTS[name]}.", {str(number): one for number, one in enumerate(value, 1)})
        elif name in MAPS:
            for number, pair in enumerate(value.items(), 1):
                put_pair(f"{path}{MAPS[name][0]}.{number}.", MAPS[name][1], *pair)
        else:
            flat[path + name] = plain(value)

    def put_pair(path: str, key_name: str, key: str, value: Any) -> None:
        flat[path + key_name] = key
        if isinstance(value, dict):
            put_all(f"{path}Value.", value)
        else:
            flat[f"{path}Value"] = value

    def put_all(path: str, values: dict[str, Any]) -> None:
        for name, value in values.items():
            put(path, name, value)

    put_all("", asked)
    return flat


def plain(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def in_base64(value: Any) -> Any:
    """For JSON, which has no bytes."""
    if isinstance(value, bytes):
        return plain(value)
    if isinstance(value, dict):
        return {name: in_base64(one) for name, one in value.items()}
    return [in_base64(one) for one in value] if isinstance(value, list) else value


def read_xml(element: ElementTree.Element, operation: str) -> Any:
    """What JSON would hold."""
    if not len(element):
        return element.text or ""
    made: dict[str, Any] = {}
    for child in element:
        name = child.tag.removeprefix(NAMESPACE)
        if name in PAIRS:
            key, value = child
            made.setdefault(PAIRS[name], {})[key.text or ""] = read_xml(value, operation)
        elif name in REPEATED and not is_one(child, name, operation):
            listed = "queueUrls" if operation == "ListDeadLetterSourceQueues" else REPEATED[name]
            made.setdefault(listed, []).append(read_xml(child, operation))
        else:
            made[name] = read_xml(child, operation)
    return made


def is_one(child: ElementTree.Element, name: str, operation: str) -> bool:
    """The text of an error in a batch, and the URL of one queue, are called like items of lists."""
    return (name == "Message" and not len(child)) or (name == "QueueUrl" and operation in ONE_URL)


def numbers(value: Any) -> Any:
    """XML has texts alone."""
    if isinstance(value, dict):
        return {name: numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return {"true": True, "false": False}.get(value, value)


@dataclass(frozen=True)
class Failure:
    """An error as a client sees it. `shape` is the class, which only JSON tells."""

    status: int
    code: str
    message: str
    sender: bool
    shape: str | None = None


class Sqs:
    """`sqs("SendMessage", QueueUrl=url, MessageBody="x")`."""

    def __init__(self, talk: Talk, protocol: str, **headers: str) -> None:
        self.talk = talk
        self.protocol = protocol
        self.headers = headers

    @property
    def is_json(self) -> bool:
        return self.protocol == "json"

    def ask(self, operation: str, path: str = "/", **asked: Any) -> Reply:
        if self.is_json:
            headers = {"x-amz-target": f"AmazonSQS.{operation}", "content-type": "application/x-amz-json-1.0"}
            body = json.dumps(in_base64(asked))
        else:
            headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
            body = urlencode(form(operation, asked))
        reply = self.talk("POST", path, body, **headers, **self.headers)
        assert len(reply.headers["x-amzn-RequestId"]) == 36
        return reply

    def __call__(self, operation: str, **asked: Any) -> dict[str, Any]:
        reply = self.ask(operation, **asked)
        assert reply.status == 200, reply.body
        if self.is_json:
            assert reply.headers["Content-Type"] == "application/x-amz-json-1.0"
            return json.loads(reply.body)
        assert reply.headers["Content-Type"] == "text/xml"
        root = ElementTree.fromstring(reply.body)
        assert root.tag == f"{NAMESPACE}{operation}Response"
        assert root.find(f"{NAMESPACE}ResponseMetadata/{NAMESPACE}RequestId") is not None
        result = root.find(f"{NAMESPACE}{operation}Result")
        return {} if result is None else numbers(read_xml(result, operation) or {})

    def refused(self, operation: str, **asked: Any) -> Failure:
        return self.failure(self.ask(operation, **asked))

    def failure(self, reply: Reply) -> Failure:
        assert reply.status >= 400, reply.body
        if self.is_json:
            assert reply.headers["Content-Type"] == "application/x-amz-json-1.0"
            code, fault = reply.headers["x-amzn-query-error"].split(";")
            said = json.loads(reply.body)
            assert set(said) == {"__type", "message"}
            return Failure(reply.status, code, said["message"], fault == "Sender", said["__type"])
        error = ElementTree.fromstring(reply.body).find(f"{NAMESPACE}Error")
        assert error is not None
        told = {child.tag.removeprefix(NAMESPACE): child.text for child in error}
        assert set(told) == {"Type", "Code", "Message", "Detail"}
        return Failure(reply.status, str(told["Code"]), told["Message"] or "", told["Type"] == "Sender")

    # In as many words as a test needs.

    def create(self, name: str = "q", **attributes: str) -> str:
        return self("CreateQueue", QueueName=name, **({"Attributes": attributes} if attributes else {}))["QueueUrl"]

    def create_fifo(self, name: str = "q.fifo", **attributes: str) -> str:
        return self.create(name, FifoQueue="true", **attributes)

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        shown = self("GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"]).get("Attributes", {})
        return {name: str(value).lower() if isinstance(value, bool) else value for name, value in shown.items()}

    def arn(self, url: str) -> str:
        return self.attributes(url, "QueueArn")["QueueArn"]

    def send(self, url: str, body: str = "hello", **asked: Any) -> dict[str, Any]:
        return self("SendMessage", QueueUrl=url, MessageBody=body, **asked)

    def receive(self, url: str, **asked: Any) -> list[dict[str, Any]]:
        asked = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 0} | asked
        return self("ReceiveMessage", QueueUrl=url, **asked).get("Messages", [])

    def bodies(self, url: str, **asked: Any) -> list[str]:
        return [message["Body"] for message in self.receive(url, **asked)]

    def delete(self, url: str, message: dict[str, Any]) -> None:
        assert self("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]) == {}

    def with_dead_letters(self, most: int = 1, **attributes: str) -> tuple[str, str]:
        """A queue, and the one where its dead letters go."""
        dead = self.create("dead")
        policy = json.dumps({"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": most})
        return self.create("source", RedrivePolicy=policy, **attributes), dead


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, talk: Talk) -> Sqs:
    return Sqs(talk, request.param)


@pytest.fixture
def url(sqs: Sqs) -> str:
    """Of a queue called q."""
    return sqs.create()


@pytest.fixture
def in_json(talk: Talk) -> Sqs:
    """For what does not depend on the protocol."""
    return Sqs(talk, "json")


@pytest.fixture
def settled() -> Iterator[list[ThreadServer]]:
    """Servers with settings of their own, stopped at the end."""
    servers: list[ThreadServer] = []
    yield servers
    for server in servers:
        server.stop()
