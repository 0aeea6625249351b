"""The command `aws` of the package awscli, with `--endpoint-url` and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers import ThreadServer
from tests.sqs_clients.command import aws_sqs

Aws = Callable[..., Any]


@pytest.fixture
def aws(server: ThreadServer) -> Aws:
    """Run `aws sqs …`; the JSON that it prints, or None where it prints nothing."""

    def run(*words: str, fails: bool = False) -> Any:
        done = aws_sqs(server.url, *words)
        if fails:
            assert done.returncode != 0, done.stdout
            return done.stderr.strip()
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    return run


def test_a_day_with_the_command(aws: Aws, server: ThreadServer) -> None:
    url = aws("create-queue", "--queue-name", "jobs", "--attributes", "VisibilityTimeout=60", "--tags", "a=b")[
        "QueueUrl"
    ]
    assert url == f"{server.url}/000000000000/jobs"
    assert aws("get-queue-url", "--queue-name", "jobs") == {"QueueUrl": url}
    assert aws("list-queues") == {"QueueUrls": [url]}
    assert aws("list-queue-tags", "--queue-url", url) == {"Tags": {"a": "b"}}
    assert aws("set-queue-attributes", "--queue-url", url, "--attributes", "DelaySeconds=0") is None
    found = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "VisibilityTimeout")
    assert found == {"Attributes": {"VisibilityTimeout": "60"}}
    attributes = json.dumps({"kind": {"DataType": "String", "StringValue": "grüße"}})
    sent = aws("send-message", "--queue-url", url, "--message-body", "hello", "--message-attributes", attributes)
    entries = json.dumps([{"Id": "1", "MessageBody": "two"}, {"Id": "2", "MessageBody": "three"}])
    batch = aws("send-message-batch", "--queue-url", url, "--entries", entries)
    assert [entry["Id"] for entry in batch["Successful"]] == ["1", "2"]
    received = aws(
        "receive-message",
        *("--queue-url", url, "--max-number-of-messages", "10", "--message-attribute-names", "All"),
        *("--attribute-names", "All"),
    )["Messages"]
    assert [message["Body"] for message in received] == ["hello", "two", "three"]
    assert received[0]["MessageId"] == sent["MessageId"]
    assert received[0]["MessageAttributes"]["kind"]["StringValue"] == "grüße"
    first, second, third = (message["ReceiptHandle"] for message in received)
    receipt = ("--queue-url", url, "--receipt-handle")
    assert aws("delete-message", *receipt, first) is None
    assert aws("change-message-visibility", *receipt, second, "--visibility-timeout", "0") is None
    entries = json.dumps([{"Id": "x", "ReceiptHandle": third}])
    assert aws("delete-message-batch", "--queue-url", url, "--entries", entries) == {"Successful": [{"Id": "x"}]}
    assert [message["Body"] for message in aws("receive-message", "--queue-url", url)["Messages"]] == ["two"]
    assert aws("purge-queue", "--queue-url", url) is None
    assert aws("receive-message", "--queue-url", url) is None
    assert aws("delete-queue", "--queue-url", url) is None
    assert aws("list-queues") is None


def test_a_refusal_is_told_by_its_code(aws: Aws) -> None:
    told = aws("get-queue-url", "--queue-name", "never", fails=True)
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in told
    assert "The specified queue does not exist." in told
