"""Queues: create, find, list, delete and purge."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.model import Dedup, DedupScope, Groups, Settings
from penstock.stores import open_store
from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.servers import ThreadServer
from tests.talk import Talk

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


@pytest.mark.parametrize("name", ["a", "A-Z_0-9", "-", "x" * 80])
def test_what_a_queue_may_be_called(sqs: Sqs, name: str) -> None:
    assert sqs.create(name).endswith(f"/{ACCOUNT}/{name}")
    assert sqs("GetQueueUrl", QueueName=name) == {"QueueUrl": sqs.create(name)}


@pytest.mark.parametrize("name", ["a b", "a.b", "a.fifo", "x" * 81, "ü", "a/b", ".fifo", "a:b"])
def test_what_a_queue_may_not_be_called(sqs: Sqs, name: str) -> None:
    failure = sqs.refused("CreateQueue", QueueName=name)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert failure.message == "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"


@pytest.mark.parametrize("name", ["a", ".fifo", "a.b.fifo", "x" * 76 + ".fifo"])
def test_what_a_fifo_queue_may_not_be_called(sqs: Sqs, name: str) -> None:
    failure = sqs.refused("CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"})
    assert failure.code == "InvalidParameterValue"
    assert failure.message.startswith("The name of a FIFO queue can only include")


def test_the_settings_of_a_queue_that_is_made_here(sqs: Sqs, tmp_path: Path) -> None:
    sqs.create("plain")
    sqs.create_fifo("line.fifo", DeduplicationScope="messageGroup", ContentBasedDeduplication="true")
    store = open_store(f"sqlite:///{tmp_path}/data/penstock.db")
    with store.unit(write=False) as unit:
        plain, line = unit.find_queue("plain"), unit.find_queue("line.fifo")
    store.close()
    assert plain is not None
    assert plain.settings == Settings(retention_ms=345_600_000)
    assert line is not None
    assert line.settings == Settings(
        retention_ms=345_600_000,
        dedup=Dedup.WINDOW,
        dedup_window_ms=300_000,
        dedup_scope=DedupScope.GROUP,
        groups=Groups.FIFO,
        labels={"aws:sqs:ContentBasedDeduplication": "true"},
    )


# Made again


def test_a_queue_that_is_made_again_is_the_same(sqs: Sqs) -> None:
    url = sqs.create(DelaySeconds="500", VisibilityTimeout="7")
    sqs.send(url)
    assert sqs.create() == url
    assert sqs.create(DelaySeconds="500") == url
    assert sqs.create(DelaySeconds="00500", VisibilityTimeout="7", MaximumMessageSize="1048576") == url
    assert sqs("CreateQueue", QueueName="q", tags={"a": "b"}) == {"QueueUrl": url}
    assert sqs.attributes(url, "ApproximateNumberOfMessagesDelayed") == {"ApproximateNumberOfMessagesDelayed": "1"}


@pytest.mark.parametrize(
    ("attributes", "differs"),
    [
        ({"DelaySeconds": "6"}, "DelaySeconds"),
        ({"DelaySeconds": "5", "VisibilityTimeout": "31", "MaximumMessageSize": "1024"}, "VisibilityTimeout"),
        ({"ReceiveMessageWaitTimeSeconds": "1"}, "ReceiveMessageWaitTimeSeconds"),
        ({"Policy": '{"Version": "2012-10-17"}'}, "Policy"),
        ({"KmsMasterKeyId": "other"}, "KmsMasterKeyId"),
        ({"SqsManagedSseEnabled": "true"}, "SqsManagedSseEnabled"),
        ({"RedriveAllowPolicy": '{"redrivePermission": "allowAll"}'}, "RedriveAllowPolicy"),
    ],
)
def test_made_again_with_other_attributes(sqs: Sqs, attributes: dict[str, str], differs: str) -> None:
    sqs.create(DelaySeconds="5", KmsMasterKeyId="key")
    failure = sqs.refused("CreateQueue", QueueName="q", Attributes=attributes)
    assert (failure.status, failure.code) == (400, "QueueAlreadyExists")
    assert failure.shape in (None, "com.amazonaws.sqs#QueueNameExists")
    expected = f"A queue already exists with the same name and a different value for attribute {differs}"
    assert failure.message == expected


def test_policies_are_compared_by_what_they_say(sqs: Sqs) -> None:
    policy = {"Version": "2012-10-17", "Statement": []}
    sqs.create("dead")
    arn = sqs.arn("dead")
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    url = sqs.create(Policy=json.dumps(policy), RedrivePolicy=redrive)
    again = {"maxReceiveCount": "3", "deadLetterTargetArn": arn.replace("us-east-1", "eu-west-1")}
    assert sqs.create(Policy=json.dumps(policy, indent=1), RedrivePolicy=json.dumps(again)) == url
    other = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 4})
    failure = sqs.refused("CreateQueue", QueueName="q", Attributes={"RedrivePolicy": other})
    assert failure.message.endswith("RedrivePolicy")


def test_booleans_in_any_case(sqs: Sqs) -> None:
    url = sqs.create("q.fifo", FifoQueue="True", ContentBasedDeduplication="TRUE")
    assert sqs.create("q.fifo", FifoQueue="true", ContentBasedDeduplication="true") == url
    assert sqs.attributes(url, "ContentBasedDeduplication") == {"ContentBasedDeduplication": "true"}
    failure = sqs.refused(
        "CreateQueue", QueueName="q.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "false"}
    )
    assert failure.message.endswith("ContentBasedDeduplication")


def test_a_queue_that_many_make_at_once(server: ThreadServer) -> None:
    def make(_number: int) -> str:
        with server.talk() as talk:
            return Sqs(talk, "json").create(DelaySeconds="1")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(make, range(16)))) == 1


def test_a_queue_of_another_api_is_found_and_kept(sqs: Sqs, talk: Talk) -> None:
    talk("PUT", "/v1/queues/a:b@c.d", {"visibility_ms": 1500})
    url = sqs("GetQueueUrl", QueueName="a:b@c.d")["QueueUrl"]
    assert url.endswith(f"/{ACCOUNT}/a:b@c.d")
    sqs.send(url, "x")
    assert sqs.ask("SendMessage", f"/{ACCOUNT}/a:b@c.d", MessageBody="y").status == 200
    assert sqs.bodies(url) == ["x", "y"]
    assert sqs.attributes(url, "VisibilityTimeout", "QueueArn") == {
        "VisibilityTimeout": "1",
        "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:a:b@c.d",
    }


def test_a_queue_in_a_name_space_of_another_api(sqs: Sqs, talk: Talk) -> None:
    talk("POST", "/dedupq/1/x/send", {"a": 1})
    [url] = sqs("ListQueues")["QueueUrls"]
    assert url.endswith(f"/{ACCOUNT}/dedupq%2Fx")
    assert json.loads(sqs.bodies(url)[0]) == {"a": 1}


# Listed


def test_lists_by_name_with_a_prefix(sqs: Sqs) -> None:
    for name in ("b-1", "a-2", "a-1", "B", "a_"):
        sqs.create(name)

    def names(**asked: object) -> list[str]:
        return [url.rpartition("/")[2] for url in sqs("ListQueues", **asked).get("QueueUrls", [])]

    assert names() == sorted(["B", "a-1", "a-2", "a_", "b-1"])
    assert names(QueueNamePrefix="a-") == ["a-1", "a-2"]
    assert names(QueueNamePrefix="a_") == ["a_"]
    assert names(QueueNamePrefix="none") == []
    assert names(QueueNamePrefix="a b%_\0") == []
    assert names(QueueNamePrefix="") == names()


def test_pages_of_queues(sqs: Sqs) -> None:
    for number in range(5):
        sqs.create(f"q{number}")
    first = sqs("ListQueues", MaxResults=2)
    second = sqs("ListQueues", MaxResults=2, NextToken=first["NextToken"])
    third = sqs("ListQueues", MaxResults=2, NextToken=second["NextToken"])
    pages = [[url[-2:] for url in page["QueueUrls"]] for page in (first, second, third)]
    assert pages == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    assert "NextToken" not in third
    assert "NextToken" not in sqs("ListQueues", MaxResults=5)
    assert "NextToken" not in sqs("ListQueues")


@pytest.mark.parametrize("most", [0, 1001, -1])
def test_how_many_may_be_listed(sqs: Sqs, url: str, most: int) -> None:
    for operation in ("ListQueues", "ListDeadLetterSourceQueues"):
        failure = sqs.refused(operation, QueueUrl=url, MaxResults=most)
        assert failure.code == "InvalidParameterValue"
        assert failure.message.startswith(f"Value {most} for parameter MaxResults is invalid. Reason: ")


@pytest.mark.parametrize("token", ["", "x", "!!!!", "AA==", "ü"])
def test_a_token_that_is_none(sqs: Sqs, token: str) -> None:
    assert sqs.refused("ListQueues", MaxResults=1, NextToken=token).code == "InvalidParameterValue"


# Gone


def test_a_deleted_queue_is_gone_and_may_be_made_again(sqs: Sqs, url: str) -> None:
    sqs.send(url)
    assert sqs("DeleteQueue", QueueUrl=url) == {}
    for operation in ("DeleteQueue", "PurgeQueue", "ListQueueTags", "GetQueueAttributes", "ReceiveMessage"):
        assert sqs.refused(operation, QueueUrl=url).code == NO_QUEUE
    assert sqs.refused("SendMessage", QueueUrl=url, MessageBody="x" * 2000).code == NO_QUEUE
    assert sqs.refused("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=0).code == NO_QUEUE
    assert sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "1"}).code == NO_QUEUE
    assert sqs.refused("TagQueue", QueueUrl=url, Tags={"a": "b"}).code == NO_QUEUE
    assert sqs.refused("UntagQueue", QueueUrl=url, TagKeys=["a"]).code == NO_QUEUE
    assert sqs.refused("ListDeadLetterSourceQueues", QueueUrl=url).code == NO_QUEUE
    assert sqs.refused("GetQueueUrl", QueueName="q").code == NO_QUEUE
    assert sqs.create() == url
    assert sqs.receive(url) == []


def test_a_purge_empties_a_queue_as_often_as_one_likes(sqs: Sqs, url: str) -> None:
    for _ in range(2):
        sqs.send(url)
        sqs.send(url, DelaySeconds=900)
        sqs.receive(url)
        assert sqs("PurgeQueue", QueueUrl=url) == {}
        assert set(sqs.attributes(url).values()) >= {"0"}
        assert sqs.attributes(url, "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed") == {
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesDelayed": "0",
        }


# Dead letters


def test_the_sources_of_a_dead_letter_queue(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters()
    policy = sqs.attributes(source, "RedrivePolicy")["RedrivePolicy"]
    urls = [sqs.create(name, RedrivePolicy=policy) for name in ("a", "z")]
    listed = [urls[0], source, urls[1]]
    assert sqs("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": listed}
    first = sqs("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2)
    assert first["queueUrls"] == listed[:2]
    second = sqs("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2, NextToken=first["NextToken"])
    assert second == {"queueUrls": listed[2:]}
    assert sqs("ListDeadLetterSourceQueues", QueueUrl=source) == {}


def test_a_message_that_is_received_too_often_dies(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters(2)
    sent = sqs.send(source, "x", MessageAttributes={"a": {"DataType": "Number", "StringValue": "1"}})
    for _ in range(2):
        assert len(sqs.receive(source, VisibilityTimeout=0)) == 1
    assert sqs.receive(source) == []
    [message] = sqs.receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == sqs.arn(source)
