"""Message move tasks: dead letters on their way back, or elsewhere."""

from __future__ import annotations

import base64
import json

import pytest

from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.servers import ThreadServer
from tests.waiting import wait_until

ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"


# At one a second, they are on their way for as long as any test takes.
MANY = [str(number) for number in range(120)]


def let_die(sqs: Sqs, source: str, *bodies: str) -> None:
    for start in range(0, len(bodies), 10):
        some = bodies[start : start + 10]
        entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(some)]
        sqs("SendMessageBatch", QueueUrl=source, Entries=entries)
        sqs.receive(source, VisibilityTimeout=0)
        assert sqs.receive(source) == []


def wait_for(sqs: Sqs, arn: str, status: str) -> dict[str, object]:
    def reached() -> bool:
        return sqs("ListMessageMoveTasks", SourceArn=arn)["Results"][0]["Status"] == status

    wait_until(reached)
    return {name: str(value) for name, value in sqs("ListMessageMoveTasks", SourceArn=arn)["Results"][0].items()}


def test_back_to_where_they_came_from(sqs: Sqs, server: ThreadServer) -> None:
    source, dead = sqs.with_dead_letters()
    other = sqs.create("other", RedrivePolicy=sqs.attributes(source, "RedrivePolicy")["RedrivePolicy"])
    let_die(sqs, source, "a", "b")
    let_die(sqs, other, "c")
    arn = sqs.arn(dead)
    started = server.clock()
    assert sqs("StartMessageMoveTask", SourceArn=arn)["TaskHandle"]
    task = wait_for(sqs, arn, "COMPLETED")
    assert started <= int(str(task.pop("StartedTimestamp"))) <= server.clock()
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": arn,
        "ApproximateNumberOfMessagesMoved": "3",
        "ApproximateNumberOfMessagesToMove": "3",
    }
    assert sqs.bodies(source) == ["a", "b"]
    [message] = sqs.receive(other, AttributeNames=["All"])
    assert message["Body"] == "c"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in message["Attributes"]


def test_to_a_queue_of_choice_as_if_sent_now(sqs: Sqs, server: ThreadServer) -> None:
    source, dead = sqs.with_dead_letters(MessageRetentionPeriod="60")
    target = sqs.create("target", MessageRetentionPeriod="60")
    sent = sqs.send(source, "x", MessageAttributes={"a": {"DataType": "Number", "StringValue": "1"}})
    sqs.receive(source, VisibilityTimeout=0)
    assert sqs.receive(source) == []
    server.clock.advance(100)  # by its old age it would expire on arrival
    sqs("StartMessageMoveTask", SourceArn=sqs.arn(dead), DestinationArn=sqs.arn(target))
    task = wait_for(sqs, sqs.arn(dead), "COMPLETED")
    assert task["DestinationArn"] == sqs.arn(target)
    [message] = sqs.receive(target, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message["Body"] == "x"
    assert message["MessageId"] != sent["MessageId"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert int(message["Attributes"]["SentTimestamp"]) >= server.clock() - 60_000


def test_a_task_can_be_cancelled(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters()
    let_die(sqs, source, *MANY)
    arn = sqs.arn(dead)
    handle = sqs("StartMessageMoveTask", SourceArn=arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    [task] = sqs("ListMessageMoveTasks", SourceArn=arn)["Results"]
    assert (task["Status"], task["TaskHandle"]) == ("RUNNING", handle)
    assert (str(task["MaxNumberOfMessagesPerSecond"]), str(task["ApproximateNumberOfMessagesToMove"])) == ("1", "120")
    failure = sqs.refused("StartMessageMoveTask", SourceArn=arn)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert failure.message == (
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
    )
    moved = int(sqs("CancelMessageMoveTask", TaskHandle=handle)["ApproximateNumberOfMessagesMoved"])
    cancelled = wait_for(sqs, arn, "CANCELLED")
    assert "TaskHandle" not in cancelled
    assert int(sqs.attributes(source)["ApproximateNumberOfMessages"]) == moved < 120
    assert sqs.refused("CancelMessageMoveTask", TaskHandle=handle).code == "ResourceNotFoundException"


def test_tasks_are_listed_the_latest_first(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters()
    arn = sqs.arn(dead)
    target = sqs.arn(sqs.create("target"))
    for destination in ({}, {"DestinationArn": target}):
        let_die(sqs, source, "x")
        sqs("StartMessageMoveTask", SourceArn=arn, **destination)
        wait_for(sqs, arn, "COMPLETED")
    listed = sqs("ListMessageMoveTasks", SourceArn=arn, MaxResults=10)["Results"]
    assert [one.get("DestinationArn") for one in listed] == [target, None]
    assert len(sqs("ListMessageMoveTasks", SourceArn=arn)["Results"]) == 1
    assert sqs("ListMessageMoveTasks", SourceArn=target) == {}


def test_a_task_whose_target_goes_away_has_failed(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters()
    target = sqs.create("target")
    let_die(sqs, source, *MANY)
    arn = sqs.arn(dead)
    sqs("StartMessageMoveTask", SourceArn=arn, DestinationArn=sqs.arn(target), MaxNumberOfMessagesPerSecond=1)
    sqs("DeleteQueue", QueueUrl=target)
    assert wait_for(sqs, arn, "FAILED")["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_what_a_task_needs(sqs: Sqs, url: str) -> None:
    _, dead = sqs.with_dead_letters()
    failure = sqs.refused("StartMessageMoveTask", SourceArn=sqs.arn(url))
    assert (failure.status, failure.code, failure.message) == (
        400,
        "InvalidParameterValue",
        "Source queue must be configured as a Dead Letter Queue.",
    )
    for operation, asked, parameter in (
        ("StartMessageMoveTask", {"SourceArn": f"{ARN}none"}, "SourceArn"),
        ("StartMessageMoveTask", {"SourceArn": sqs.arn(dead), "DestinationArn": f"{ARN}none"}, "DestinationArn"),
        ("ListMessageMoveTasks", {"SourceArn": f"{ARN}none"}, "SourceArn"),
    ):
        failure = sqs.refused(operation, **asked)
        assert (failure.status, failure.code) == (404, "ResourceNotFoundException")
        assert failure.shape in (None, "com.amazonaws.sqs#ResourceNotFoundException")
        assert failure.message == f"The resource that you specified for the {parameter} parameter doesn't exist."
    failure = sqs.refused("StartMessageMoveTask", SourceArn=sqs.arn(dead), DestinationArn=sqs.arn(dead))
    assert failure.code == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("StartMessageMoveTask", {"SourceArn": "dead"}),
        ("StartMessageMoveTask", {"SourceArn": f"{ARN}dead", "DestinationArn": "x"}),
        ("StartMessageMoveTask", {"SourceArn": f"{ARN}dead", "MaxNumberOfMessagesPerSecond": 0}),
        ("StartMessageMoveTask", {"SourceArn": f"{ARN}dead", "MaxNumberOfMessagesPerSecond": 501}),
        ("ListMessageMoveTasks", {"SourceArn": "arn:aws:sqs:x"}),
        ("ListMessageMoveTasks", {"SourceArn": f"{ARN}dead", "MaxResults": 0}),
        ("ListMessageMoveTasks", {"SourceArn": f"{ARN}dead", "MaxResults": 11}),
    ],
)
def test_parameters_that_are_refused(sqs: Sqs, operation: str, asked: dict[str, object]) -> None:
    sqs.with_dead_letters()
    failure = sqs.refused(operation, **asked)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")


def handle(**content: str) -> str:
    return base64.b64encode(json.dumps(content).encode()).decode()


@pytest.mark.parametrize("text", ["x", "!", "AAAA", handle(), handle(taskId="x"), handle(taskId="x", sourceArn="y")])
def test_a_task_handle_that_is_none(sqs: Sqs, text: str) -> None:
    failure = sqs.refused("CancelMessageMoveTask", TaskHandle=text)
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")


def test_a_task_that_is_none(sqs: Sqs, url: str) -> None:
    failure = sqs.refused("CancelMessageMoveTask", TaskHandle=handle(taskId="x", sourceArn=sqs.arn(url)))
    assert (failure.status, failure.code, failure.message) == (
        404,
        "ResourceNotFoundException",
        "Task does not exist.",
    )
    failure = sqs.refused("CancelMessageMoveTask", TaskHandle=handle(taskId="x", sourceArn=f"{ARN}none"))
    assert (failure.status, failure.message) == (
        404,
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    )


def test_a_task_that_leaves_some_behind_has_failed(sqs: Sqs) -> None:
    source, dead = sqs.with_dead_letters()
    let_die(sqs, source, "a")
    sqs.send(dead, "from nowhere")
    arn = sqs.arn(dead)
    sqs("StartMessageMoveTask", SourceArn=arn)
    task = wait_for(sqs, arn, "FAILED")
    assert task["FailureReason"] == "CouldNotDetermineMessageSource"
    assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == ("1", "2")
    assert (sqs.bodies(source), sqs.bodies(dead)) == (["a"], ["from nowhere"])


def test_messages_go_to_a_queue_of_the_same_kind(sqs: Sqs) -> None:
    _, dead = sqs.with_dead_letters()
    fifo = sqs.create_fifo()
    refused = sqs.refused("StartMessageMoveTask", SourceArn=sqs.arn(dead), DestinationArn=sqs.arn(fifo))
    assert (refused.status, refused.code) == (400, "InvalidParameterValue")
