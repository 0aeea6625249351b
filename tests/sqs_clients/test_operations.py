"""A walk through SQS with boto3, in the words of its documentation, that leaves out none of its operations."""

from __future__ import annotations

import json
from typing import Any

from tests.servers import ThreadServer
from tests.sqs_clients.sdk import Sqs
from tests.waiting import wait_until


class Counting:
    """Notes which operations were called, by their names in the SDK's model."""

    def __init__(self, sqs: Sqs) -> None:
        self._sqs = sqs
        self.called: set[str] = set()

    def __getattr__(self, method: str) -> Any:
        self.called.add("".join(word.capitalize() for word in method.split("_")))
        return getattr(self._sqs, method)


def test_every_operation(sqs: Sqs, server: ThreadServer) -> None:
    client = Counting(sqs)
    queues_come_and_are_described(client, server)
    messages_pass(client)
    dead_letters_return(client)
    assert client.called == set(sqs.operations())


def queues_come_and_are_described(client: Any, server: ThreadServer) -> None:
    made = client.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "60"}, tags={"team": "orders"})
    url = made["QueueUrl"]
    assert url == f"{server.url}/000000000000/jobs"
    assert client.get_queue_url(QueueName="jobs") == {"QueueUrl": url}
    assert client.list_queues() == {"QueueUrls": [url]}
    client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "45"})
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert found == {"Attributes": {"VisibilityTimeout": "45"}}
    client.tag_queue(QueueUrl=url, Tags={"stage": "test", "owner": "Zoë"})
    client.untag_queue(QueueUrl=url, TagKeys=["stage"])
    assert client.list_queue_tags(QueueUrl=url) == {"Tags": {"team": "orders", "owner": "Zoë"}}
    client.add_permission(QueueUrl=url, Label="share", AWSAccountIds=["111122223333"], Actions=["SendMessage"])
    policy = json.loads(client.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"])
    [statement] = policy["Statement"]
    assert (statement["Sid"], statement["Effect"]) == ("share", "Allow")
    client.remove_permission(QueueUrl=url, Label="share")


def messages_pass(client: Any) -> None:
    url = client.get_queue_url(QueueName="jobs")["QueueUrl"]
    sent = client.send_message(QueueUrl=url, MessageBody="one")
    batch = client.send_message_batch(
        QueueUrl=url, Entries=[{"Id": word, "MessageBody": word} for word in ("two", "three", "four")]
    )
    assert [entry["Id"] for entry in batch["Successful"]] == ["two", "three", "four"]
    received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == ["one", "two", "three", "four"]
    assert received[0]["MessageId"] == sent["MessageId"]
    receipts = [message["ReceiptHandle"] for message in received]
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipts[0], VisibilityTimeout=0)
    hidden = client.change_message_visibility_batch(
        QueueUrl=url, Entries=[{"Id": "two", "ReceiptHandle": receipts[1], "VisibilityTimeout": 0}]
    )
    assert hidden == {"Successful": [{"Id": "two"}]}
    client.delete_message(QueueUrl=url, ReceiptHandle=receipts[2])
    gone = client.delete_message_batch(QueueUrl=url, Entries=[{"Id": "four", "ReceiptHandle": receipts[3]}])
    assert gone == {"Successful": [{"Id": "four"}]}
    again = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in again] == ["one", "two"]
    client.purge_queue(QueueUrl=url)
    assert client.receive_message(QueueUrl=url) == {}


def dead_letters_return(client: Any) -> None:
    dead = client.create_queue(QueueName="dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = client.create_queue(QueueName="fragile", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    assert client.list_dead_letter_source_queues(QueueUrl=dead) == {"queueUrls": [url]}
    for _ in range(3):
        client.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(10)])
    while client.receive_message(QueueUrl=url, MaxNumberOfMessages=10):
        pass
    handle = client.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    [task] = client.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["TaskHandle"], task["ApproximateNumberOfMessagesToMove"]) == ("RUNNING", handle, 30)
    client.cancel_message_move_task(TaskHandle=handle)
    wait_until(
        lambda: client.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] == "CANCELLED", every_s=0.1
    )
    client.delete_queue(QueueUrl=url)
    assert not client.list_dead_letter_source_queues(QueueUrl=dead).get("queueUrls")
