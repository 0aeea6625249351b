"""Every operation × every kind of API key × a queue of one's own or somebody else's."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.faces.sqs.test_wire import ALL
from tests.keys.conftest import KeyStore, key_store, keyed
from tests.talk import Talk

__all__ = ["key_store", "keyed"]

# What each operation needs on the queue it is about; "any" is any of the four, None nothing at all.
NEEDS: dict[str, str | None] = {
    **dict.fromkeys(["SendMessage", "SendMessageBatch"], "post"),
    **dict.fromkeys(["ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "PurgeQueue"], "poll"),
    **dict.fromkeys(["ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "CancelMessageMoveTask"], "poll"),
    **dict.fromkeys(["GetQueueAttributes", "ListQueueTags", "ListDeadLetterSourceQueues"], "get_status"),
    "ListMessageMoveTasks": "get_status",
    **dict.fromkeys(["CreateQueue", "SetQueueAttributes", "DeleteQueue", "TagQueue", "UntagQueue"], "admin"),
    **dict.fromkeys(["AddPermission", "RemovePermission"], "admin"),
    "GetQueueUrl": "any",
    "ListQueues": None,
    "StartMessageMoveTask": "poll",  # and what is below
}
ACTIONS = ("post", "poll", "get_status", "admin")
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"


# The keys of these tests, by their names. They are made before the server is started: it would notice them only after
# a while.
RULES: dict[str, list[str]] = {
    "admin": ["queue|*|*"],
    **{f"own-{action}": [f"queue|{action}|own-*"] for action in ACTIONS},
    "poller": ["queue|poll|dead"],
    "sender": ["queue|post|source"],
    "wrong-way": ["queue|poll|*", "queue|post|dead"],
    "mover": ["queue|poll|dead", "queue|post|source"],
    "maker": ["queue|admin|*"],
    "maker-of-sources": ["queue|admin|*", "queue|post|dead"],
    "looker": ["queue|get_status|b-*", "queue|get_status|d-*", "queue|post|*"],
    "blind": ["queue|post|*"],
}


class Clients:
    """One for each key."""

    def __init__(self, talk: Talk, secrets: dict[str, str]) -> None:
        self.talk = talk
        self._secrets = secrets
        self.admin = self.holding("admin")

    def holding(self, name: str) -> Sqs:
        return Sqs(self.talk, "json", authorization=f"Bearer {self._secrets[name]}")


@pytest.fixture
def clients(key_store: KeyStore, keyed: Any) -> Iterator[Clients]:
    secrets = {name: key_store.create(name, *rules) for name, rules in RULES.items()}
    with keyed().talk() as talk:
        yield Clients(talk, secrets)


def parameters(operation: str, queue: str) -> dict[str, Any]:
    """Of a request that would succeed."""
    handle = base64.urlsafe_b64encode(f"none.1.{queue}".encode()).rstrip(b"=").decode()
    task = base64.b64encode(json.dumps({"taskId": "x", "sourceArn": ARN + queue}).encode()).decode()
    entry = {"Id": "a", "ReceiptHandle": handle}
    own: dict[str, dict[str, Any]] = {
        "CreateQueue": {"QueueName": queue},
        "GetQueueUrl": {"QueueName": queue},
        "ListQueues": {},
        "SendMessage": {"MessageBody": "x"},
        "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "x"}]},
        "DeleteMessage": {"ReceiptHandle": handle},
        "DeleteMessageBatch": {"Entries": [entry]},
        "ChangeMessageVisibility": {"ReceiptHandle": handle, "VisibilityTimeout": 1},
        "ChangeMessageVisibilityBatch": {"Entries": [entry | {"VisibilityTimeout": 1}]},
        "SetQueueAttributes": {"Attributes": {"VisibilityTimeout": "30"}},
        "TagQueue": {"Tags": {"a": "b"}},
        "UntagQueue": {"TagKeys": ["a"]},
        "AddPermission": {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["*"]},
        "RemovePermission": {"Label": "l"},
        "StartMessageMoveTask": {"SourceArn": ARN + queue},
        "ListMessageMoveTasks": {"SourceArn": ARN + queue},
        "CancelMessageMoveTask": {"TaskHandle": task},
    }
    return {"QueueUrl": queue} | own.get(operation, {})


def test_the_table_has_every_operation() -> None:
    assert sorted(NEEDS) == sorted(ALL)


def test_who_may_do_what(clients: Clients) -> None:
    clients.admin.create("own-q")
    clients.admin.create("foreign-q")
    for operation, action, queue in product(NEEDS, ACTIONS, ("own-q", "foreign-q")):
        needed = NEEDS[operation]
        allowed = needed is None or (queue == "own-q" and needed in ("any", action))
        reply = clients.holding(f"own-{action}").ask(operation, **parameters(operation, queue))
        denied = reply.headers.get("x-amzn-query-error") == "AccessDenied;Sender"
        # To take messages home, a key must be able to send anywhere.
        assert denied is (not allowed or operation == "StartMessageMoveTask"), (operation, action, queue, reply.body)
        if denied:
            assert (reply.status, reply.json["__type"]) == (403, "com.amazon.coral.service#AccessDeniedException")
        if operation == "DeleteQueue" and allowed:
            clients.admin.create("own-q")


def test_a_move_task_needs_both_ends(clients: Clients) -> None:
    source, dead = clients.admin.with_dead_letters()
    asked = {"SourceArn": clients.admin.arn(dead), "DestinationArn": clients.admin.arn(source)}
    for name in ("poller", "sender", "wrong-way"):
        assert clients.holding(name).refused("StartMessageMoveTask", **asked).code == "AccessDenied"
    mover = clients.holding("mover")
    assert mover.refused("StartMessageMoveTask", SourceArn=asked["SourceArn"]).code == "AccessDenied"
    assert mover("StartMessageMoveTask", **asked)["TaskHandle"]


def test_a_dead_letter_queue_must_be_one_that_the_caller_may_send_to(clients: Clients) -> None:
    source, _ = clients.admin.with_dead_letters()
    policy = clients.admin.attributes(source, "RedrivePolicy")
    maker = clients.holding("maker")
    assert maker.refused("CreateQueue", QueueName="new", Attributes=policy).code == "AccessDenied"
    assert maker.refused("SetQueueAttributes", QueueUrl=source, Attributes=policy).code == "AccessDenied"
    maker = clients.holding("maker-of-sources")
    assert maker("CreateQueue", QueueName="new", Attributes=policy)["QueueUrl"]
    assert maker("SetQueueAttributes", QueueUrl=source, Attributes=policy) == {}


def test_every_key_sees_the_queues_it_may_look_at(clients: Clients) -> None:
    for name in ("a-1", "b-1", "b-2", "c-1", "d-1", "d-2"):
        clients.admin.create(name)
    looker = clients.holding("looker")

    def names(page: dict[str, Any]) -> list[str]:
        return [url.rpartition("/")[2] for url in page.get("QueueUrls", [])]

    assert names(looker("ListQueues")) == ["b-1", "b-2", "d-1", "d-2"]
    first = looker("ListQueues", MaxResults=1)
    second = looker("ListQueues", MaxResults=2, NextToken=first["NextToken"])
    third = looker("ListQueues", MaxResults=2, NextToken=second["NextToken"])
    assert [names(first), names(second), names(third)] == [["b-1"], ["b-2", "d-1"], ["d-2"]]
    assert "NextToken" not in third
    assert clients.holding("blind")("ListQueues") == {}


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_without_a_key_and_with_a_wrong_one(clients: Clients, protocol: str) -> None:
    failure = Sqs(clients.talk, protocol).refused("ListQueues")
    assert (failure.status, failure.code) == (403, "MissingAuthenticationToken")
    failure = Sqs(clients.talk, protocol, authorization="Bearer psk_wrong").refused("ListQueues")
    assert (failure.status, failure.code) == (403, "InvalidClientTokenId")


def test_a_message_says_which_key_has_sent_it(clients: Clients) -> None:
    admin = clients.admin
    url = admin.create()
    admin.send(url)
    [message] = admin.receive(url, AttributeNames=["SenderId"], MessageAttributeNames=["All"])
    assert message["Attributes"] == {"SenderId": "admin"}
    assert "MessageAttributes" not in message
    identity = clients.talk("POST", "/", "Action=GetCallerIdentity", **admin.headers)
    assert f"<Arn>arn:aws:iam::{ACCOUNT}:user/admin</Arn>".encode() in identity.body


def test_no_key_learns_of_queues_that_it_may_not_see(clients: Clients) -> None:
    for name in ("b-1", "c-hidden", "d-1", "own-q"):
        clients.admin.create(name)
    looker, owner = clients.holding("looker"), clients.holding("own-admin")
    page = looker("ListQueues", MaxResults=1)
    assert [url.rpartition("/")[2] for url in page["QueueUrls"]] == ["b-1"]
    assert b"hidden" not in base64.urlsafe_b64decode(page["NextToken"] + "==")
    following = looker("ListQueues", MaxResults=1, NextToken=page["NextToken"])
    assert [url.rpartition("/")[2] for url in following["QueueUrls"]] == ["d-1"]
    for target in ("c-hidden", "none"):
        policy = json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": 1})
        asked = {"QueueUrl": "own-q", "Attributes": {"RedrivePolicy": policy}}
        assert owner.refused("SetQueueAttributes", **asked).code == "AccessDenied"
    clients.admin(
        "SetQueueAttributes",
        QueueUrl="c-hidden",
        Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": ARN + "d-1", "maxReceiveCount": 1})},
    )
    assert looker("ListDeadLetterSourceQueues", QueueUrl="d-1") == {}
    assert len(clients.admin("ListDeadLetterSourceQueues", QueueUrl="d-1")["queueUrls"]) == 1
