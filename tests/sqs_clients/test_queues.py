"""Queues as boto3 sees them: their URLs, attributes, tags, permissions and lists."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.servers import ThreadServer
from tests.sqs_clients.sdk import Sqs, refusal

Create = Callable[..., str]
AttributesOf = Callable[..., dict[str, str]]

STANDARD = {
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp",
    "DelaySeconds",
    "LastModifiedTimestamp",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "QueueArn",
    "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
    "SqsManagedSseEnabled",
}
FIFO = {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}


def test_a_new_queue_has_the_defaults_of_aws(create: Create, attributes_of: AttributesOf) -> None:
    found = attributes_of(create("jobs"))
    assert set(found) == STANDARD
    assert found["VisibilityTimeout"] == "30"
    assert found["DelaySeconds"] == "0"
    assert found["MessageRetentionPeriod"] == "345600"
    assert found["MaximumMessageSize"] == "1048576"
    assert found["ReceiveMessageWaitTimeSeconds"] == "0"
    assert found["CreatedTimestamp"] == found["LastModifiedTimestamp"]
    assert found["QueueArn"].startswith("arn:aws:sqs:")
    assert found["QueueArn"].endswith(":000000000000:jobs")


def test_a_fifo_queue_says_so_and_a_standard_one_nothing_of_it(create: Create, attributes_of: AttributesOf) -> None:
    found = attributes_of(create("jobs.fifo"))
    assert set(found) == STANDARD | FIFO
    assert {name: found[name] for name in FIFO} == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }


ALLOW_ALL = json.dumps({"redrivePermission": "allowAll"})
GIVEN = {
    "DelaySeconds": "5",
    "MaximumMessageSize": "2048",
    "MessageRetentionPeriod": "3600",
    "ReceiveMessageWaitTimeSeconds": "7",
    "VisibilityTimeout": "120",
    "KmsMasterKeyId": "alias/aws/sqs",
    "KmsDataKeyReusePeriodSeconds": "600",
    "SqsManagedSseEnabled": "false",
    "Policy": json.dumps({"Version": "2012-10-17", "Statement": []}),
}


def test_what_is_given_is_kept(create: Create, attributes_of: AttributesOf) -> None:
    url = create("jobs", **GIVEN)
    assert attributes_of(url, *GIVEN) == GIVEN


def test_what_is_set_later_is_kept_too(sqs: Sqs, create: Create, attributes_of: AttributesOf, server) -> None:
    url = create("jobs")
    server.clock.advance(60)
    sqs.set_queue_attributes(QueueUrl=url, Attributes=GIVEN)
    found = attributes_of(url)
    assert {name: found[name] for name in GIVEN} == GIVEN
    assert int(found["LastModifiedTimestamp"]) - int(found["CreatedTimestamp"]) in (60, 61)


def test_a_policy_is_taken_away_by_an_empty_one(sqs: Sqs, create: Create, attributes_of: AttributesOf) -> None:
    url = create("jobs", Policy=GIVEN["Policy"])
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert "Policy" not in attributes_of(url)


def test_creating_again_is_the_same_queue_unless_something_differs(sqs: Sqs, create: Create) -> None:
    url = create("jobs", VisibilityTimeout=60)
    assert create("jobs") == url
    assert create("jobs", VisibilityTimeout=60) == url
    refused = refusal(sqs.create_queue, QueueName="jobs", Attributes={"VisibilityTimeout": "61"})
    assert (refused.kind, refused.code) == ("QueueNameExists", "QueueAlreadyExists")
    assert refused.text == (
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout"
    )


@pytest.mark.parametrize("given", [GIVEN, {"KmsDataKeyReusePeriodSeconds": "300"}, {"RedriveAllowPolicy": ALLOW_ALL}])
def test_creating_again_with_the_same_attributes_is_the_same_queue(sqs: Sqs, create: Create, given) -> None:
    url = create("jobs", **given)
    assert create("jobs", **given) == url
    fifo = {"ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup"}
    assert create("jobs.fifo", **given, **fifo) == create("jobs.fifo", **given, **fifo)


@pytest.mark.parametrize("said", ["true", "True", "TRUE"])
def test_a_boolean_may_be_written_in_any_case(sqs: Sqs, attributes_of: AttributesOf, said: str) -> None:
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": said})["QueueUrl"]
    assert attributes_of(url, "FifoQueue") == {"FifoQueue": "true"}


def test_lists_with_a_prefix_and_in_pages(sqs: Sqs, create: Create) -> None:
    urls = [create(f"orders-{number:02}") for number in range(5)]
    other = create("mail")
    assert sqs.list_queues() == {"QueueUrls": [other, *urls]}
    assert sqs.list_queues(QueueNamePrefix="orders-") == {"QueueUrls": urls}
    assert sqs.list_queues(QueueNamePrefix="nothing") == {}
    first = sqs.list_queues(QueueNamePrefix="orders-", MaxResults=2)
    assert first["QueueUrls"] == urls[:2]
    second = sqs.list_queues(QueueNamePrefix="orders-", MaxResults=2, NextToken=first["NextToken"])
    assert second["QueueUrls"] == urls[2:4]
    assert "NextToken" not in sqs.list_queues(QueueNamePrefix="orders-", MaxResults=5)


def test_the_sdk_turns_the_pages_itself(sqs: Sqs, create: Create) -> None:
    urls = [create(f"q{number}") for number in range(5)]
    pages = sqs.pages("list_queues", PaginationConfig={"PageSize": 2})
    assert [url for page in pages for url in page["QueueUrls"]] == urls
    assert len(pages) == 3


def test_tags(sqs: Sqs, create: Create) -> None:
    url = create("jobs")
    assert sqs.list_queue_tags(QueueUrl=url) == {}
    sqs.tag_queue(QueueUrl=url, Tags={"team": "orders", "größe": "groß", "empty": ""})
    sqs.tag_queue(QueueUrl=url, Tags={"team": "mail"})
    assert sqs.list_queue_tags(QueueUrl=url) == {"Tags": {"team": "mail", "größe": "groß", "empty": ""}}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "never", "empty", "größe"])
    assert sqs.list_queue_tags(QueueUrl=url) == {}


def test_permissions_are_kept_as_a_policy(sqs: Sqs, create: Create, attributes_of: AttributesOf) -> None:
    url = create("jobs")
    sqs.add_permission(
        QueueUrl=url, Label="two", AWSAccountIds=["111122223333"], Actions=["SendMessage", "ReceiveMessage"]
    )
    [statement] = json.loads(attributes_of(url, "Policy")["Policy"])["Statement"]
    assert statement["Sid"] == "two"
    assert statement["Resource"] == attributes_of(url, "QueueArn")["QueueArn"]
    assert statement["Action"] == ["SQS:SendMessage", "SQS:ReceiveMessage"]
    again = {"QueueUrl": url, "Label": "two", "AWSAccountIds": ["111122223333"], "Actions": ["SendMessage"]}
    assert refusal(sqs.add_permission, **again).code == "InvalidParameterValue"
    sqs.remove_permission(QueueUrl=url, Label="two")
    assert refusal(sqs.remove_permission, QueueUrl=url, Label="two").code == "InvalidParameterValue"


@pytest.mark.parametrize(
    "address",
    ["{url}/000000000000/jobs", "{url}/123456789012/jobs", "https://sqs.eu-central-1.amazonaws.com/000000000000/jobs"],
)
def test_a_queue_is_known_by_the_last_part_of_its_url(sqs: Sqs, server: ThreadServer, create, address: str) -> None:
    """A program may keep the URL that AWS gave it, and change the endpoint only."""
    create("jobs")
    sent = sqs.send_message(QueueUrl=address.format(url=server.url), MessageBody="hello")
    assert sent["MessageId"]


def test_the_counts(sqs: Sqs, create: Create, attributes_of: AttributesOf) -> None:
    url = create("jobs")
    for delay in (0, 0, 0, 300, 300):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay)
    sqs.receive_message(QueueUrl=url)
    names = ["", "NotVisible", "Delayed"]
    found = attributes_of(url, *(f"ApproximateNumberOfMessages{name}" for name in names))
    assert [found[f"ApproximateNumberOfMessages{name}"] for name in names] == ["2", "1", "2"]


def test_a_queue_that_was_deleted_can_be_made_again_at_once(sqs: Sqs, create: Create) -> None:
    url = create("jobs", VisibilityTimeout=60)
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    sqs.delete_queue(QueueUrl=url)
    assert refusal(sqs.get_queue_url, QueueName="jobs").kind == "QueueDoesNotExist"
    assert create("jobs", VisibilityTimeout=90) == url
    assert sqs.receive_message(QueueUrl=url) == {}
