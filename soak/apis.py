"""The HTTP APIs as clients of the load speak them: send, claim, ack, renew, release, each noted in the history.

One file because the APIs differ in words alone, and stand side by side to be compared.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from soak.history import OK, PERHAPS, REFUSED, Event, Recorder, body_of, tag_of
from soak.talk import Reply, Talk, Unanswered, Unreachable

_RECEIVES = "ApproximateReceiveCount"


class Delivery(NamedTuple):
    tag: str
    id: str
    receipt: str | None
    receives: int | None
    group: str | None = None


class Api:
    """One client: a connection and its file in the history. Errors of the network are outcomes, not exceptions, except
    that `Unreachable` is raised where nothing was asked."""

    name: ClassVar[str]
    # How many messages one request can bring; one send of many is stored whole or not at all.
    most: ClassVar[int] = 1
    can_renew: ClassVar[bool] = False
    can_release: ClassVar[bool] = False
    can_group: ClassVar[bool] = False
    # Whether a claim says how long it holds, or the queue does.
    chooses_hold: ClassVar[bool] = True

    def __init__(self, talk: Talk, recorder: Recorder) -> None:
        self.talk = talk
        self.recorder = recorder

    def _ask(
        self, event: Event, read: Callable[[Reply], dict[str, Any]], method: str, path: str, body: Any = None,
        **headers: str,
    ) -> Event:  # fmt: skip
        try:
            reply = self.talk(method, path, body, **headers)
        except (Unanswered, Unreachable):
            # Refused before it was asked: that was certain before the event began, see `_begin`.
            return self.recorder.end(event, PERHAPS)
        if reply.status < 300:
            return self.recorder.end(event, OK, **read(reply))
        outcome = REFUSED if reply.status < 500 else PERHAPS
        return self.recorder.end(event, outcome, status=reply.status, said=reply.body[:200].decode(errors="replace"))

    def _begin(self, op: str, queue: str, **words: Any) -> Event:
        self.talk.connect()
        return self.recorder.begin(op, queue, api=self.name, **words)

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        raise NotImplementedError

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        raise NotImplementedError

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        raise NotImplementedError

    def renew(self, queue: str, deliveries: Sequence[Delivery], hold_s: float) -> Event:
        raise NotImplementedError

    def release(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        raise NotImplementedError

    def _claimed(self, event: Event) -> list[Delivery]:
        return [Delivery(*message) for message in event.get("messages", [])] if event["outcome"] == OK else []


def _named(deliveries: Sequence[Delivery], *, receipts: bool) -> list[list[str | None]]:
    return [[delivery.tag, delivery.id, delivery.receipt if receipts else None] for delivery in deliveries]


def _text(message: dict[str, Any]) -> str:
    return message["body"] if "body" in message else base64.b64decode(message["body_base64"]).decode(errors="replace")


def read_messages(messages: list[dict[str, Any]]) -> list[list[Any]]:
    """Of the native API, as the history has them."""
    return [[tag_of(_text(m)), m["id"], m.get("receipt"), m["receives"]] for m in messages]


class Native(Api):
    name = "native"
    most = 500
    can_renew = can_release = can_group = True

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None, key: str | None = None) -> Event:
        messages = [{"body": body_of(tag, size), **({"group": group} if group else {})} for tag in tags]
        event = self._begin("send", queue, messages=tags, group=group, key=key)
        path = f"/v1/queues/{quote(queue, safe='')}/messages"
        if key is None:

            def read(reply: Reply) -> dict[str, Any]:
                sent = reply.json["sent"]
                return {"ids": [one["id"] for one in sent], "stored": [one["stored"] for one in sent]}

            return self._ask(event, read, "POST", path, {"messages": messages})
        lines = "\n".join(map(json.dumps, messages))
        return self._ask(
            event, lambda _: {}, "POST", path, lines, content_type="application/x-ndjson", idempotency_key=key
        )

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float, attempt: str | None = None) -> list[Delivery]:
        event = self._begin("claim", queue, hold_s=hold_s, name=attempt)
        body = {"limit": limit, "hold_ms": round(hold_s * 1000), "wait_ms": round(wait_s * 1000)}
        if attempt:
            body["attempt"] = attempt  # type: ignore[assignment]

        def read(reply: Reply) -> dict[str, Any]:
            return {"messages": read_messages(reply.json["messages"])}

        return self._claimed(self._ask(event, read, "POST", f"/v1/queues/{quote(queue, safe='')}/claim", body))

    def _touch(self, op: str, queue: str, deliveries: Sequence[Delivery], words: dict[str, Any], **asked: Any) -> Event:
        event = self._begin(op, queue, messages=_named(deliveries, receipts=True), **words)
        body = {"receipts": [delivery.receipt for delivery in deliveries], **asked}
        path = f"/v1/queues/{quote(queue, safe='')}/{op}"
        return self._ask(event, lambda reply: {"done": reply.json["done"]}, "POST", path, body)

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        return self._touch("ack", queue, deliveries, {})

    def renew(self, queue: str, deliveries: Sequence[Delivery], hold_s: float) -> Event:
        return self._touch("renew", queue, deliveries, {"hold_s": hold_s}, hold_ms=round(hold_s * 1000))

    def release(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        return self._touch("release", queue, deliveries, {})


class Mqs(Api):
    name = "mqs"
    most = 50
    chooses_hold = False

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        event = self._begin("send", queue, messages=tags)
        if len(tags) == 1:
            # 200 is the answer where a twin was there.
            return self._ask(
                event, lambda reply: {"stored": [reply.status == 201]}, "POST", f"/messages/{queue}",
                body_of(tags[0], size), content_type="text/plain",
            )  # fmt: skip
        boundary = uuid.uuid4().hex
        parts = "".join(f"--{boundary}\r\n\r\n{body_of(tag, size)}\r\n" for tag in tags)
        return self._ask(
            event, lambda _: {}, "POST", f"/messages/{queue}", f"{parts}--{boundary}--\r\n",
            content_type=f"multipart/mixed; boundary={boundary}",
        )  # fmt: skip

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        event = self._begin("claim", queue, hold_s=hold_s)
        headers = {"x_mqs_max_messages": str(limit)} if limit > 1 else {}
        if wait_s >= 1:
            headers["x_mqs_max_wait_time"] = str(int(wait_s))
        return self._claimed(self._ask(event, _read_mqs, "GET", f"/messages/{queue}", **headers))

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        for delivery in deliveries:
            event = self._begin("ack", queue, messages=_named([delivery], receipts=False))
            try:
                reply = self.talk("DELETE", f"/messages/{delivery.id}")
            except (Unanswered, Unreachable):
                self.recorder.end(event, PERHAPS)
                continue
            outcome = OK if reply.status in (204, 404) else PERHAPS if reply.status >= 500 else REFUSED
            self.recorder.end(event, outcome, done=[reply.status == 204], status=reply.status)
        return event


def _read_mqs(reply: Reply) -> dict[str, Any]:
    if reply.status == 204:
        return {"messages": []}
    content_type = reply.headers["Content-Type"]
    if not content_type.startswith("multipart/mixed"):
        return {"messages": [_mqs_message(dict(reply.headers.items()), reply.body)]}
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    assert boundary is not None
    messages = []
    for part in reply.body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, body = part.strip(b"\r\n").partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        messages.append(_mqs_message(headers, body))
    return {"messages": messages}


def _mqs_message(headers: dict[str, str], body: bytes) -> list[Any]:
    known = {name.lower(): value for name, value in headers.items()}
    receives = int(known["x-mqs-message-receives"])
    return [tag_of(body.decode(errors="replace")), known["x-mqs-message-id"], None, receives]


class Emodb(Api):
    """The QueueService; with a name of `dedupq/…`, the DedupQueueService."""

    name = "emodb"
    most = 500
    can_renew = can_release = True

    @staticmethod
    def _path(queue: str, verb: str) -> str:
        service, _, name = queue.rpartition("/")
        return f"/{service or 'queue'}/1/{name}/{verb}"

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        event = self._begin("send", queue, messages=tags)
        bodies = [body_of(tag, size) for tag in tags]
        if len(bodies) == 1:
            body, verb = json.dumps(bodies[0]), "send"
        else:
            body, verb = json.dumps(bodies), "sendbatch"
        return self._ask(event, lambda _: {}, "POST", self._path(queue, verb), body, content_type="application/json")

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        hold = max(1, round(hold_s))
        event = self._begin("claim", queue, hold_s=hold)

        def read(reply: Reply) -> dict[str, Any]:
            return {"messages": [[tag_of(str(m["payload"])), m["id"], None, None] for m in reply.json]}

        return self._claimed(self._ask(event, read, "GET", self._path(queue, f"poll?ttl={hold}&limit={limit}")))

    def _touch(self, op: str, queue: str, deliveries: Sequence[Delivery], verb: str, **words: Any) -> Event:
        event = self._begin(op, queue, messages=_named(deliveries, receipts=False), **words)
        ids = [delivery.id for delivery in deliveries]
        return self._ask(event, lambda _: {}, "POST", self._path(queue, verb), ids)

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        return self._touch("ack", queue, deliveries, "ack")

    def renew(self, queue: str, deliveries: Sequence[Delivery], hold_s: float) -> Event:
        hold = max(1, round(hold_s))
        return self._touch("renew", queue, deliveries, f"renew?ttl={hold}", hold_s=hold)

    def release(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        return self._touch("release", queue, deliveries, "renew?ttl=0")


class SqsJson(Api):
    name = "sqs"
    most = 10
    can_renew = can_release = can_group = True

    def _call(self, event: Event, operation: str, read: Callable[[Any], dict[str, Any]], **words: Any) -> Event:
        return self._ask(
            event, lambda reply: read(reply.json if reply.body else {}), "POST", "/", json.dumps(words),
            content_type="application/x-amz-json-1.0", x_amz_target=f"AmazonSQS.{operation}",
        )  # fmt: skip

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        event = self._begin("send", queue, messages=tags[:1] if len(tags) == 1 else tags, group=group)
        in_line = {"MessageGroupId": group} if group else {}

        def entry(tag: str) -> dict[str, str]:
            id = {"MessageDeduplicationId": tag} if queue.endswith(".fifo") else {}
            return {"MessageBody": body_of(tag, size), **in_line, **id}

        if len(tags) == 1:
            return self._call(
                event, "SendMessage", lambda said: {"ids": [said["MessageId"]]}, QueueUrl=queue, **entry(tags[0])
            )

        def read(said: Any) -> dict[str, Any]:
            sent = {one["Id"]: one["MessageId"] for one in said.get("Successful", [])}
            assert len(sent) == len(tags), said
            return {"ids": [sent[str(n)] for n in range(len(tags))]}

        entries = [{"Id": str(n), **entry(tag)} for n, tag in enumerate(tags)]
        return self._call(event, "SendMessageBatch", read, QueueUrl=queue, Entries=entries)

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        hold = max(1, round(hold_s))
        event = self._begin("claim", queue, hold_s=hold)

        def message(m: Any) -> list[Any]:
            return [tag_of(m["Body"]), m["MessageId"], m["ReceiptHandle"], int(m["Attributes"][_RECEIVES])]

        def read(said: Any) -> dict[str, Any]:
            return {"messages": [message(m) for m in said.get("Messages", [])]}

        return self._claimed(
            self._call(
                event, "ReceiveMessage", read, QueueUrl=queue, MaxNumberOfMessages=min(limit, 10),
                VisibilityTimeout=hold, WaitTimeSeconds=int(wait_s), AttributeNames=[_RECEIVES],
            )
        )  # fmt: skip

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        for start in range(0, len(deliveries), 10):
            some = deliveries[start : start + 10]
            event = self._begin("ack", queue, messages=_named(some, receipts=True))

            def read(said: Any, some: Sequence[Delivery] = some) -> dict[str, Any]:
                failed = {one["Id"] for one in said.get("Failed", [])}
                # A stale receipt answers 200 in a standard queue.
                done = True if queue.endswith(".fifo") else None
                return {"done": [False if str(n) in failed else done for n in range(len(some))]}

            entries = [{"Id": str(n), "ReceiptHandle": one.receipt} for n, one in enumerate(some)]
            self._call(event, "DeleteMessageBatch", read, QueueUrl=queue, Entries=entries)
        return event

    def _hold(self, op: str, queue: str, deliveries: Sequence[Delivery], hold: int, **words: Any) -> Event:
        for delivery in deliveries:
            event = self._begin(op, queue, messages=_named([delivery], receipts=True), **words)
            self._call(
                event, "ChangeMessageVisibility", lambda _: {}, QueueUrl=queue, ReceiptHandle=delivery.receipt,
                VisibilityTimeout=hold,
            )  # fmt: skip
        return event

    def renew(self, queue: str, deliveries: Sequence[Delivery], hold_s: float) -> Event:
        return self._hold("renew", queue, deliveries, max(1, round(hold_s)), hold_s=0.0)

    def release(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        return self._hold("release", queue, deliveries, 0)


class SqsQuery(Api):
    """The older of the two protocols: forms, and XML."""

    name = "sqs-query"
    can_group = True

    def _call(self, event: Event, read: Callable[[ElementTree.Element], dict[str, Any]], **words: Any) -> Event:
        def parse(reply: Reply) -> dict[str, Any]:
            root = ElementTree.fromstring(reply.body)
            for element in root.iter():
                element.tag = element.tag.rpartition("}")[2]
            return read(root)

        return self._ask(
            event, parse, "POST", f"/000000000000/{event['queue']}", urlencode({**words, "Version": "2012-11-05"}),
            content_type="application/x-www-form-urlencoded",
        )  # fmt: skip

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        event = self._begin("send", queue, messages=tags, group=group)
        words = {"MessageGroupId": group} if group else {}
        if queue.endswith(".fifo"):
            words["MessageDeduplicationId"] = tags[0]
        return self._call(
            event, lambda said: {"ids": [said.findtext(".//MessageId")]}, Action="SendMessage",
            MessageBody=body_of(tags[0], size), **words,
        )  # fmt: skip

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        hold = max(1, round(hold_s))
        event = self._begin("claim", queue, hold_s=hold)

        def message(said: ElementTree.Element) -> list[Any]:
            receives = said.findtext("Attribute/Value") or "0"
            body = said.findtext("Body") or ""
            return [tag_of(body), said.findtext("MessageId"), said.findtext("ReceiptHandle"), int(receives)]

        return self._claimed(
            self._call(
                event, lambda said: {"messages": [message(m) for m in said.iter("Message")]}, Action="ReceiveMessage",
                MaxNumberOfMessages=min(limit, 10), VisibilityTimeout=hold, WaitTimeSeconds=int(wait_s),
                **{"AttributeName.1": _RECEIVES},
            )
        )  # fmt: skip

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        def read(_: ElementTree.Element) -> dict[str, Any]:
            return {"done": [True if queue.endswith(".fifo") else None]}

        for delivery in deliveries:
            event = self._begin("ack", queue, messages=_named([delivery], receipts=True))
            self._call(event, read, Action="DeleteMessage", ReceiptHandle=delivery.receipt)
        return event


class Mqcore(Api):
    name = "mqcore"
    chooses_hold = False

    def send(self, queue: str, tags: list[str], size: int, group: str | None = None) -> Event:
        event = self._begin("send", queue, messages=tags)
        return self._ask(
            event, lambda reply: {"ids": [reply.headers["X-Message-Id"]]}, "POST", f"/{queue}/messages",
            body_of(tags[0], size), content_type="text/plain",
        )  # fmt: skip

    def claim(self, queue: str, limit: int, hold_s: float, wait_s: float) -> list[Delivery]:
        event = self._begin("claim", queue, hold_s=hold_s)

        def read(reply: Reply) -> dict[str, Any]:
            if reply.status == 204:
                return {"messages": []}
            return {
                "messages": [[tag_of(reply.body.decode(errors="replace")), reply.headers["X-Message-Id"], None, None]]
            }

        return self._claimed(self._ask(event, read, "GET", f"/{queue}/messages"))

    def ack(self, queue: str, deliveries: Sequence[Delivery]) -> Event:
        for delivery in deliveries:
            event = self._begin("ack", queue, messages=_named([delivery], receipts=False))
            self._ask(event, lambda _: {}, "DELETE", f"/{queue}/messages/{delivery.id}")
        return event


APIS: dict[str, type[Api]] = {api.name: api for api in (Native, Mqs, Emodb, SqsJson, SqsQuery, Mqcore)}
