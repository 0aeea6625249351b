"""Requests that no client would send: each is answered in a form that SDKs can read, and never as a fault of ours."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest

from penstock.faces.sqs import addresses
from tests.faces.sqs.conftest import NAMESPACE, Sqs, form
from tests.talk import Reply, Talk

ARN = "arn:aws:sqs:us-east-1:000000000000:q"
ATTRIBUTE = {"a": {"DataType": "String", "StringValue": "x"}}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}
ENTRY = {"Id": "a", "MessageBody": "b", "DelaySeconds": 0, "MessageAttributes": ATTRIBUTE, "MessageGroupId": "g"}

# A good request for each operation, to be spoilt part by part.
GOOD: dict[str, dict[str, Any]] = {
    "AddPermission": {"QueueUrl": "q", "Label": "l", "AWSAccountIds": ["0" * 12], "Actions": ["SendMessage"]},
    "CancelMessageMoveTask": {"TaskHandle": "x"},
    "ChangeMessageVisibility": {"QueueUrl": "q", "ReceiptHandle": "x", "VisibilityTimeout": 1},
    "ChangeMessageVisibilityBatch": {
        "QueueUrl": "q",
        "Entries": [{"Id": "a", "ReceiptHandle": "x", "VisibilityTimeout": 1}],
    },
    "CreateQueue": {"QueueName": "n", "Attributes": {"VisibilityTimeout": "1"}, "tags": {"k": "v"}},
    "DeleteMessage": {"QueueUrl": "q", "ReceiptHandle": "x"},
    "DeleteMessageBatch": {"QueueUrl": "q", "Entries": [{"Id": "a", "ReceiptHandle": "x"}]},
    "DeleteQueue": {"QueueUrl": "missing"},
    "GetQueueAttributes": {"QueueUrl": "q", "AttributeNames": ["All"]},
    "GetQueueUrl": {"QueueName": "q"},
    "ListDeadLetterSourceQueues": {"QueueUrl": "q", "MaxResults": 1, "NextToken": "cQ=="},
    "ListMessageMoveTasks": {"SourceArn": ARN, "MaxResults": 1},
    "ListQueueTags": {"QueueUrl": "q"},
    "ListQueues": {"QueueNamePrefix": "q", "MaxResults": 1, "NextToken": "cQ=="},
    "PurgeQueue": {"QueueUrl": "q"},
    "ReceiveMessage": {
        "QueueUrl": "q",
        "AttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
        "MaxNumberOfMessages": 1,
        "VisibilityTimeout": 0,
        "WaitTimeSeconds": 0,
        "ReceiveRequestAttemptId": "x",
    },
    "RemovePermission": {"QueueUrl": "q", "Label": "l"},
    "SendMessage": {"QueueUrl": "q", "MessageSystemAttributes": TRACE} | {k: v for k, v in ENTRY.items() if k != "Id"},
    "SendMessageBatch": {"QueueUrl": "q", "Entries": [ENTRY]},
    "SetQueueAttributes": {"QueueUrl": "q", "Attributes": {"DelaySeconds": "0"}},
    "StartMessageMoveTask": {"SourceArn": ARN, "DestinationArn": ARN, "MaxNumberOfMessagesPerSecond": 1},
    "TagQueue": {"QueueUrl": "q", "Tags": {"a": "b"}},
    "UntagQueue": {"QueueUrl": "q", "TagKeys": ["a"]},
}
VALUES: list[Any] = [
    *(None, True, 0, -1, 2**31, 2**64, 10**400, 1.5, 1e308),
    *("", " ", "\0", "\ud800", "é" * 300, "x" * 5_000, "/", "%", "%00", "http://[::1", "=", "AAAA", "null", "²", "+5"),
    *([], [None], [[]], [{}], [{"Id": "a"}, {"Id": "a"}], {}, {"": ""}, {"a": None}, {"a": {}}, {"\ud800": "x"}),
    "arn:aws:sqs:a:b:\0",
]
BODIES = [
    *(
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"QueueUrl":"\xff"}',
        b'{"QueueUrl":"\\ud800"}',
        b'"x"',
        b'{"a":1}x',
        b"{\0}",
    ),
    *(b'{"QueueUrl":"q","QueueUrl":null}', b'{"QueueUrl":"q","Else":[1,{"a":2}]}', b"\xef\xbb\xbf{}"),
    *(b'{"a":' + b"[" * 100_000, b'{"a":' * 50_000, b'{"QueueUrl":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
]
# What comes after the action. `%s` is the name of the entries, or of something else that is a list.
FORMS = [
    *(
        "",
        "&",
        "&=",
        "&.=1",
        "&..=1",
        "&QueueUrl",
        "&QueueUrl=%%ff",
        "&QueueUrl=%%",
        "&QueueUrl.1=q",
        "&a" + ".a" * 5_000,
    ),
    *(f"&QueueUrl=q&%s.{number}.Id=a" for number in ("0", "-1", "999999999", "9" * 40, "²", "x", "")),
    *("&QueueUrl=q&%s=a", "&QueueUrl=q&%s.1=a", "&QueueUrl=q&%s.1.Id=a&%s.1=b", "&QueueUrl=q&%s.1.Id.x=a"),
    *("&QueueUrl=q&QueueName=n&Attribute.1.Name=a", "&QueueUrl=q&Attribute.1.Value=a", "&QueueUrl=q&Attribute.1=a"),
    *("&QueueUrl=q&QueueName=n&Attribute.1.Name.x=a&Attribute.1.Value=b", "&QueueUrl=q&Attribute.1.Value.x=a"),
    *("&QueueUrl=q&Tag.1.Key.x=a&Tag.1.Value=b", "&QueueUrl=q&Tag.1.Value=a", "&QueueUrl=q&TagKey.1.x=1"),
    *("&QueueUrl=q&MessageBody=b&MessageAttribute.1.Name=a", "&QueueUrl=q&MessageBody=b&MessageAttribute.1.Value=a"),
    "&QueueUrl=q&MessageBody=b&MessageAttribute.1.Name.x=a&MessageAttribute.1.Value.DataType=String",
    "&QueueUrl=q&VisibilityTimeout=&MaxNumberOfMessages=&WaitTimeSeconds=&DelaySeconds=&MaxResults=x",
    "".join(f"&a{number}=1" for number in range(3_000)),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every part of a request."""
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from places(one, (*path, index))


def spoilt(request: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    made = copy.deepcopy(request)
    inner = made
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return made


def check(reply: Reply, is_json: bool, asked: object) -> None:
    about = f"{str(asked)[:300]} -> {reply.status} {reply.body[:300]!r}"
    assert reply.status < 500, about
    assert len(reply.headers["x-amzn-RequestId"]) == 36, about
    if is_json:
        said = json.loads(reply.body)
        if reply.status != 200:
            assert set(said) == {"__type", "message"}, about
            assert reply.headers["x-amzn-query-error"].endswith(";Sender"), about
    else:
        root = ElementTree.fromstring(reply.body)
        assert (root.tag == f"{NAMESPACE}ErrorResponse") == (reply.status != 200), about


def ask_json(talk: Talk, operation: str, body: bytes | str) -> Reply:
    headers = {"x-amz-target": f"AmazonSQS.{operation}", "content-type": "application/x-amz-json-1.0"}
    return talk("POST", "/", body, **headers)


def ask_form(talk: Talk, body: str | bytes) -> Reply:
    return talk("POST", "/", body, **{"content-type": "application/x-www-form-urlencoded"})


@pytest.fixture
def there(talk: Talk) -> Talk:
    """A server with the queue that most of these name."""
    Sqs(talk, "json").create()
    return talk


def test_json_with_a_part_that_is_wrong(there: Talk) -> None:
    for operation, good in GOOD.items():
        for path in places(good):
            for value in VALUES:
                body = json.dumps(spoilt(good, path, value))
                check(ask_json(there, operation, body), True, (operation, body))


def test_bodies_that_are_not_such_json(there: Talk) -> None:
    for operation in GOOD:
        for body in BODIES:
            check(ask_json(there, operation, body), True, (operation, body))


def test_forms_with_a_part_that_is_wrong(there: Talk) -> None:
    for operation, good in GOOD.items():
        for path in places(good):
            for value in VALUES:
                try:
                    flat = form(operation, spoilt(good, path, value))
                except (AttributeError, TypeError, ValueError):
                    continue  # nothing that a form could say
                body = urlencode(flat, errors="surrogatepass")
                check(ask_form(there, body), False, body)


def test_forms_whose_names_are_wrong(there: Talk) -> None:
    for operation in GOOD:
        listed = f"{operation}RequestEntry" if operation.endswith("Batch") else "AttributeName"
        for after in FORMS:
            body = f"Action={operation}" + after.replace("%s", listed).replace("%%", "%")
            check(ask_form(there, body.encode()), False, body)
            if len(body) < 2_000:
                check(there("GET", f"/?{quote(body, safe='&=%.')}"), False, body)


@pytest.mark.parametrize("target", ["", "AmazonSQS.", "AmazonSQS.Nothing", "Else.SendMessage", "AmazonSQS.sendmessage"])
def test_targets_that_name_nothing(talk: Talk, target: str) -> None:
    reply = talk("POST", "/", b"{}", **{"x-amz-target": target, "content-type": "application/x-amz-json-1.0"})
    check(reply, True, target)
    assert reply.status == 400


def test_a_policy_cannot_grow_without_end(sqs: Sqs) -> None:
    url = sqs.create()
    permission = {"QueueUrl": url, "Label": "l", "Actions": ["SendMessage"]}
    many = [f"{number:012}" for number in range(51)]
    assert sqs.refused("AddPermission", **permission, AWSAccountIds=many).code == "OverLimit"
    codes = []
    for number in range(20):
        reply = sqs.ask("AddPermission", **(permission | {"Label": f"l{number}"}), AWSAccountIds=many[:50])
        codes.append(reply.status)
    assert codes[0] == 200
    assert codes[-1] == 403
    assert len(sqs.attributes(url, "Policy")["Policy"]) <= 20 * 1024


def test_half_a_character_in_a_policy_is_refused(sqs: Sqs) -> None:
    url = sqs.create()
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:u:0:dlq","maxReceiveCount":"\\ud800"}'
    assert sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy}).status == 400


def test_bytes_that_are_not_text_change_no_message(sqs: Sqs) -> None:
    url = sqs.create()
    path = f"/?Action=SendMessage&QueueUrl={quote(url, safe='')}&MessageBody=gr%fcn"
    assert sqs.talk("GET", path).status == 400
    assert sqs.talk("POST", "/", f"Action=SendMessage&QueueUrl={quote(url, safe='')}&MessageBody=grün").status == 200
    assert sqs.bodies(url) == ["grün"]


def test_long_names_of_queues_are_not_remembered(sqs: Sqs) -> None:
    """Anybody may send as many as they like."""
    caches = (addresses._named, addresses._checked_lately)
    before = [cache.cache_info().currsize for cache in caches]
    for number in range(3):
        long = f"http://x/1/{number}" + "y" * 100_000
        assert sqs.refused("PurgeQueue", QueueUrl=long).code == "AWS.SimpleQueueService.NonExistentQueue"
    assert [cache.cache_info().currsize for cache in caches] == before
