"""Dead letters through boto3: who may have which dead-letter queue, what arrives there, and how it goes home."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers import ThreadServer
from tests.sqs_clients.sdk import Sqs, refusal
from tests.waiting import wait_until

Create = Callable[..., str]


class Letters:
    """A dead-letter queue and two sources; a message dies when it is received a second time."""

    def __init__(self, sqs: Sqs, create: Create, server: ThreadServer) -> None:
        self.sqs, self._server = sqs, server
        self.dead = create("dead")
        self.dead_arn = self.arn(self.dead)
        policy = json.dumps({"deadLetterTargetArn": self.dead_arn, "maxReceiveCount": "1"})
        self.sources = [create(name, RedrivePolicy=policy) for name in ("mail", "orders")]

    def arn(self, url: str) -> str:
        return self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def count(self, url: str) -> int:
        name = "ApproximateNumberOfMessages"
        return int(self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])

    def die(self, url: str, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=url, MessageBody=body)
        for _ in bodies:
            self.receive(url)
        self._server.clock.advance(31)
        assert self.receive(url) == []

    def receive(self, url: str) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MaxNumberOfMessages=10)
        return answer.get("Messages", [])

    def task(self) -> dict[str, Any]:
        return self.sqs.list_message_move_tasks(SourceArn=self.dead_arn)["Results"][0]

    def move(self, **more: object) -> str:
        """The handle of a move that has ended."""
        handle = self.sqs.start_message_move_task(SourceArn=self.dead_arn, **more)["TaskHandle"]
        wait_until(lambda: self.task()["Status"] != "RUNNING", every_s=0.05)
        return handle


@pytest.fixture
def letters(sqs: Sqs, create: Create, server: ThreadServer) -> Letters:
    return Letters(sqs, create, server)


def test_a_dead_letter_says_where_it_died_and_how_often_it_was_received(letters: Letters) -> None:
    letters.die(letters.sources[1], "poison")
    [message] = letters.receive(letters.dead)
    assert message["Body"] == "poison"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == letters.arn(letters.sources[1])
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_dead_letter_queue_knows_its_sources(letters: Letters, sqs: Sqs) -> None:
    assert sqs.list_dead_letter_source_queues(QueueUrl=letters.dead)["queueUrls"] == letters.sources
    first = sqs.list_dead_letter_source_queues(QueueUrl=letters.dead, MaxResults=1)
    assert first["queueUrls"] == letters.sources[:1]
    second = sqs.list_dead_letter_source_queues(QueueUrl=letters.dead, MaxResults=1, NextToken=first["NextToken"])
    assert second["queueUrls"] == letters.sources[1:]
    assert not sqs.list_dead_letter_source_queues(QueueUrl=letters.sources[0]).get("queueUrls")


def test_the_policy_is_answered_as_it_was_given(letters: Letters, sqs: Sqs) -> None:
    found = sqs.get_queue_attributes(QueueUrl=letters.sources[0], AttributeNames=["RedrivePolicy"])["Attributes"]
    policy = json.loads(found["RedrivePolicy"])
    assert policy["deadLetterTargetArn"] == letters.dead_arn
    assert int(policy["maxReceiveCount"]) == 1
    sqs.set_queue_attributes(QueueUrl=letters.sources[0], Attributes={"RedrivePolicy": ""})
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=letters.sources[0], AttributeNames=["RedrivePolicy"])


@pytest.mark.parametrize(
    "policy",
    [
        "not JSON",
        json.dumps({"maxReceiveCount": 1}),
        json.dumps({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:000000000000:dead"}),
        json.dumps({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:000000000000:dead", "maxReceiveCount": 0}),
        json.dumps({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:000000000000:dead", "maxReceiveCount": 1001}),
        json.dumps({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:000000000000:nothing", "maxReceiveCount": 3}),
    ],
    ids=["text", "no target", "no count", "zero", "many", "no queue"],
)
def test_a_policy_is_checked(letters: Letters, sqs: Sqs, policy: str) -> None:
    refused = refusal(sqs.create_queue, QueueName="new", Attributes={"RedrivePolicy": policy})
    assert (refused.status, refused.fault) == (400, "Sender")
    assert refusal(sqs.get_queue_url, QueueName="new").kind == "QueueDoesNotExist"


def test_a_queue_may_say_whose_dead_letters_it_takes(letters: Letters, sqs: Sqs, create: Create) -> None:
    def allow(**policy: object) -> None:
        sqs.set_queue_attributes(QueueUrl=letters.dead, Attributes={"RedriveAllowPolicy": json.dumps(policy)})

    def ask(name: str) -> dict[str, Any]:
        redrive = json.dumps({"deadLetterTargetArn": letters.dead_arn, "maxReceiveCount": 5})
        return {"QueueUrl": create(name), "Attributes": {"RedrivePolicy": redrive}}

    allow(redrivePermission="denyAll")
    assert refusal(sqs.set_queue_attributes, **ask("new")).status == 400
    allow(redrivePermission="byQueue", sourceQueueArns=[letters.arn(letters.sources[0])])
    assert refusal(sqs.set_queue_attributes, **ask("new")).status == 400
    allow(redrivePermission="byQueue", sourceQueueArns=[letters.arn(create("new"))])
    sqs.set_queue_attributes(**ask("new"))
    allow(redrivePermission="allowAll")
    sqs.set_queue_attributes(**ask("another"))


def test_messages_go_home_as_if_sent_now(letters: Letters, server: ThreadServer) -> None:
    letters.die(letters.sources[0], "m1", "m2")
    letters.die(letters.sources[1], "o1")
    [before, *_] = letters.receive(letters.dead)
    server.clock.advance(3_600)
    letters.move()
    task = letters.task()
    assert (task["Status"], task["SourceArn"]) == ("COMPLETED", letters.dead_arn)
    assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (3, 3)
    assert task["StartedTimestamp"] > 0
    assert "TaskHandle" not in task
    assert letters.count(letters.dead) == 0
    mail, orders = (letters.receive(url) for url in letters.sources)
    assert ([message["Body"] for message in mail], [message["Body"] for message in orders]) == (["m1", "m2"], ["o1"])
    assert mail[0]["MessageId"] != before["MessageId"]
    assert mail[0]["Attributes"]["ApproximateReceiveCount"] == "1"
    assert int(mail[0]["Attributes"]["SentTimestamp"]) - int(before["Attributes"]["SentTimestamp"]) >= 3_600_000
    assert "DeadLetterQueueSourceArn" not in mail[0]["Attributes"]


def test_messages_go_where_they_are_sent(letters: Letters, create: Create) -> None:
    letters.die(letters.sources[0], "m1")
    target = create("inspection")
    letters.move(DestinationArn=letters.arn(target))
    assert letters.task()["DestinationArn"] == letters.arn(target)
    assert [message["Body"] for message in letters.receive(target)] == ["m1"]


def test_a_move_is_slow_if_it_is_told_to_be_and_can_be_stopped(letters: Letters, sqs: Sqs) -> None:
    letters.die(letters.sources[0], *(str(number) for number in range(10)))
    handle = sqs.start_message_move_task(SourceArn=letters.dead_arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    running = letters.task()
    assert (running["Status"], running["TaskHandle"], running["MaxNumberOfMessagesPerSecond"]) == ("RUNNING", handle, 1)
    again = refusal(sqs.start_message_move_task, SourceArn=letters.dead_arn)
    assert again.code == "InvalidParameterValue"
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    wait_until(lambda: letters.task()["Status"] == "CANCELLED", every_s=0.05)
    assert moved <= letters.task()["ApproximateNumberOfMessagesMoved"] < 10
    done = letters.task()["ApproximateNumberOfMessagesMoved"]
    assert (letters.count(letters.dead), letters.count(letters.sources[0])) == (10 - done, done)
    over = refusal(sqs.cancel_message_move_task, TaskHandle=handle)
    assert (over.code, over.status) == ("ResourceNotFoundException", 404)


def test_what_cannot_be_moved(letters: Letters, sqs: Sqs, create: Create) -> None:
    refused = refusal(sqs.start_message_move_task, SourceArn=letters.arn(create("alone")))
    assert refused.code == "InvalidParameterValue"
    assert "Source queue must be configured as a Dead Letter Queue." in refused.text
    arn = f"{letters.dead_arn}-never"
    refused = refusal(sqs.start_message_move_task, SourceArn=arn)
    assert (refused.kind, refused.code, refused.status) == (
        "ResourceNotFoundException",
        "ResourceNotFoundException",
        404,
    )
    assert refusal(sqs.cancel_message_move_task, TaskHandle="never was one").status in (400, 404)
