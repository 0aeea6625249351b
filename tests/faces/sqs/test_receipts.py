"""Receipt handles: deleting and hiding messages, once, twice, too late, and with handles that are none."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.faces.sqs.conftest import Sqs
from tests.servers import ThreadServer
from tests.talk import Talk

GONE = "Message does not exist or is not available for visibility timeout change."
EXPIRED = "The receipt handle has expired."


def change(sqs: Sqs, url: str, message: dict[str, Any], seconds: int) -> None:
    handle = message["ReceiptHandle"]
    assert sqs("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds) == {}


@pytest.fixture
def fifo(sqs: Sqs) -> str:
    return sqs.create_fifo(ContentBasedDeduplication="true")


def send_and_receive(sqs: Sqs, url: str) -> dict[str, Any]:
    sqs.send(url, **({"MessageGroupId": "g"} if url.endswith(".fifo") else {}))
    [message] = sqs.receive(url, VisibilityTimeout=10)
    return message


def test_a_handle_needs_no_escaping(sqs: Sqs) -> None:
    url = sqs.create("a_long-name" * 7)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", send_and_receive(sqs, url)["ReceiptHandle"])


def test_delete(sqs: Sqs, url: str, server: ThreadServer) -> None:
    message = send_and_receive(sqs, url)
    sqs.delete(url, message)
    sqs.delete(url, message)  # what is gone is deleted
    server.clock.advance(100)
    assert sqs.receive(url) == []


def test_a_handle_stays_good_until_the_next_receipt(sqs: Sqs, url: str, server: ThreadServer) -> None:
    message = send_and_receive(sqs, url)
    server.clock.advance(11)
    sqs.delete(url, message)
    assert sqs.receive(url) == []


def test_hide_for_longer_and_for_less(sqs: Sqs, url: str, server: ThreadServer) -> None:
    server.clock.stop()
    message = send_and_receive(sqs, url)
    change(sqs, url, message, 20)
    server.clock.advance(19)
    assert sqs.receive(url) == []
    change(sqs, url, message, 5)
    server.clock.advance(5)
    assert len(sqs.receive(url)) == 1


def test_give_back(sqs: Sqs, url: str) -> None:
    message = send_and_receive(sqs, url)
    change(sqs, url, message, 0)
    [again] = sqs.receive(url, AttributeNames=["ApproximateReceiveCount"])
    assert again["Attributes"] == {"ApproximateReceiveCount": "2"}
    assert again["ReceiptHandle"] != message["ReceiptHandle"]


def test_a_stale_handle_does_nothing(sqs: Sqs, url: str, server: ThreadServer) -> None:
    server.clock.stop()
    stale = send_and_receive(sqs, url)
    server.clock.advance(11)
    [current] = sqs.receive(url, VisibilityTimeout=10)
    sqs.delete(url, stale)
    change(sqs, url, stale, 0)
    change(sqs, url, stale, 1000)
    assert sqs.receive(url) == []
    server.clock.advance(11)
    [again] = sqs.receive(url)
    assert again["MessageId"] == current["MessageId"]
    sqs.delete(url, again)


def test_a_message_that_is_gone_cannot_be_hidden(sqs: Sqs, url: str) -> None:
    message = send_and_receive(sqs, url)
    sqs.delete(url, message)
    for seconds in (0, 10):
        handle = message["ReceiptHandle"]
        failure = sqs.refused("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds)
        assert (failure.status, failure.code) == (400, "InvalidParameterValue")
        assert failure.message == f"Value {handle} for parameter ReceiptHandle is invalid. Reason: {GONE}"


def test_a_dead_letter_is_gone_from_its_queue(sqs: Sqs, server: ThreadServer) -> None:
    source, dead = sqs.with_dead_letters()
    message = send_and_receive(sqs, source)
    server.clock.advance(11)
    assert sqs.receive(source) == []
    sqs.delete(source, message)
    assert len(sqs.receive(dead)) == 1
    failure = sqs.refused(
        "ChangeMessageVisibility", QueueUrl=source, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1
    )
    assert failure.message.endswith(GONE)


def test_in_a_fifo_queue_a_handle_ends_with_its_time(sqs: Sqs, fifo: str, server: ThreadServer) -> None:
    message = send_and_receive(sqs, fifo)
    handle = message["ReceiptHandle"]
    server.clock.advance(11)

    def check() -> None:
        for operation, asked in (("DeleteMessage", {}), ("ChangeMessageVisibility", {"VisibilityTimeout": 5})):
            failure = sqs.refused(operation, QueueUrl=fifo, ReceiptHandle=handle, **asked)
            assert (failure.status, failure.code) == (400, "InvalidParameterValue")
            assert failure.message == f"Value {handle} for parameter ReceiptHandle is invalid. Reason: {EXPIRED}"

    check()
    [again] = sqs.receive(fifo)
    check()
    sqs.delete(fifo, again)
    sqs.delete(fifo, again)
    sqs.delete(fifo, message)


@pytest.mark.parametrize("seconds", [-1, 43201])
def test_visibility_out_of_its_bounds(sqs: Sqs, url: str, seconds: int) -> None:
    handle = send_and_receive(sqs, url)["ReceiptHandle"]
    failure = sqs.refused("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds)
    assert failure.code == "InvalidParameterValue"
    assert failure.message.startswith(f"Value {seconds} for parameter VisibilityTimeout is invalid.")


ID = "01980f3e-8a51-7c3a-8000-000000000001"


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "x",
        "rubbish",
        "ü",
        "=" * 4,
        "a" * 5000,
        encoded("x"),
        encoded(f"{ID}.1"),
        encoded(f"{ID}.1.other"),
        encoded(f"{ID}.x.q"),
        encoded(f"{ID}..q"),
        encoded(f"{ID}.-1.q"),
        encoded(f"{ID}.{'9' * 30}.q"),
        encoded(f"{ID}.1.q").rstrip("=") + "!",
        base64.urlsafe_b64encode(b"\xff" * 30).decode(),
    ],
)
def test_what_is_not_a_handle(sqs: Sqs, url: str, handle: str) -> None:
    for operation, asked in (("DeleteMessage", {}), ("ChangeMessageVisibility", {"VisibilityTimeout": 5})):
        failure = sqs.refused(operation, QueueUrl=url, ReceiptHandle=handle, **asked)
        assert (failure.status, failure.code) == (400, "ReceiptHandleIsInvalid")
        assert failure.shape in (None, "com.amazonaws.sqs#ReceiptHandleIsInvalid")
        assert failure.message == f'The input receipt handle "{handle[:1024]}" is not a valid receipt handle.'


def test_a_handle_of_another_queue(sqs: Sqs, url: str) -> None:
    other = sqs.create("other")
    handle = send_and_receive(sqs, other)["ReceiptHandle"]
    assert sqs.refused("DeleteMessage", QueueUrl=url, ReceiptHandle=handle).code == "ReceiptHandleIsInvalid"


@pytest.mark.parametrize("message_id", ["x", "", ID, ID.upper(), "0" * 36, "\0"])
def test_a_handle_of_no_message(sqs: Sqs, url: str, message_id: str) -> None:
    handle = encoded(f"{message_id}.1.q").rstrip("=")
    assert sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=handle) == {}
    failure = sqs.refused("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=1)
    assert failure.message.endswith(GONE)


def test_a_queue_that_is_gone(sqs: Sqs, url: str) -> None:
    handle = send_and_receive(sqs, url)["ReceiptHandle"]
    sqs("DeleteQueue", QueueUrl=url)
    entries = [{"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 1}]
    for operation, asked in (
        ("DeleteMessage", {"ReceiptHandle": handle}),
        ("ChangeMessageVisibility", {"ReceiptHandle": handle, "VisibilityTimeout": 1}),
        ("DeleteMessageBatch", {"Entries": [{"Id": "a", "ReceiptHandle": handle}]}),
        ("ChangeMessageVisibilityBatch", {"Entries": entries}),
        ("DeleteMessageBatch", {"Entries": [{"Id": "a", "ReceiptHandle": "x"}]}),
        ("ChangeMessageVisibilityBatch", {"Entries": [{"Id": "a", "ReceiptHandle": "x", "VisibilityTimeout": 1}]}),
    ):
        assert sqs.refused(operation, QueueUrl=url, **asked).code == "AWS.SimpleQueueService.NonExistentQueue"


# Batches


def test_delete_a_batch(sqs: Sqs, url: str, server: ThreadServer) -> None:
    for body in "abc":
        sqs.send(url, body)
    handles = [message["ReceiptHandle"] for message in sqs.receive(url)]
    entries = [{"Id": f"e{number}", "ReceiptHandle": handle} for number, handle in enumerate(handles)]
    entries += [{"Id": "again", "ReceiptHandle": handles[0]}, {"Id": "none", "ReceiptHandle": "x"}, {"Id": "missing"}]
    answer = sqs("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    assert answer["Successful"] == [{"Id": "e0"}, {"Id": "e1"}, {"Id": "e2"}, {"Id": "again"}]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in answer["Failed"]] == [
        ("none", "ReceiptHandleIsInvalid", True),
        ("missing", "MissingParameter", True),
    ]
    server.clock.advance(100)
    assert sqs.receive(url) == []


def test_hide_a_batch(sqs: Sqs, url: str, server: ThreadServer) -> None:
    server.clock.stop()
    for body in "abcd":
        sqs.send(url, body)
    messages = sqs.receive(url, VisibilityTimeout=10)
    sqs.delete(url, messages[3])
    seconds = [20, 0, 20, 5]
    entries: list[dict[str, Any]] = [
        {"Id": message["Body"], "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": time}
        for message, time in zip(messages, seconds, strict=True)
    ]
    entries += [
        {"Id": "e", "ReceiptHandle": messages[0]["ReceiptHandle"], "VisibilityTimeout": 43201},
        {"Id": "f", "ReceiptHandle": messages[0]["ReceiptHandle"]},
    ]
    answer = sqs("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=entries)
    assert answer["Successful"] == [{"Id": "a"}, {"Id": "b"}, {"Id": "c"}]
    assert [(one["Id"], one["Code"]) for one in answer["Failed"]] == [
        ("d", "InvalidParameterValue"),
        ("e", "InvalidParameterValue"),
        ("f", "MissingParameter"),
    ]
    assert sqs.bodies(url) == ["b"]
    server.clock.advance(15)
    assert sqs.bodies(url) == []
    server.clock.advance(5)
    assert sqs.bodies(url) == ["a", "c"]


def test_a_batch_in_a_fifo_queue(sqs: Sqs, fifo: str, server: ThreadServer) -> None:
    late = send_and_receive(sqs, fifo)
    server.clock.advance(11)
    sqs.send(fifo, "other", MessageGroupId="h")
    current = sqs.receive(fifo)
    entries = [{"Id": "late", "ReceiptHandle": late["ReceiptHandle"]}]
    entries += [{"Id": f"e{number}", "ReceiptHandle": one["ReceiptHandle"]} for number, one in enumerate(current)]
    answer = sqs("DeleteMessageBatch", QueueUrl=fifo, Entries=entries)
    # The late handle is of a message that the same batch deletes.
    assert [one["Id"] for one in answer["Successful"]] == ["late", "e0", "e1"]
    assert "Failed" not in answer


def test_the_same_message_through_another_api(sqs: Sqs, url: str, talk: Talk) -> None:
    message = send_and_receive(sqs, url)
    assert talk("DELETE", f"/messages/{message['MessageId']}").status == 204
    sqs.delete(url, message)
    [native] = [send_and_receive(sqs, url)]
    receipt = f"{native['MessageId']}.1"
    assert talk("POST", "/v1/queues/q/ack", {"receipts": [receipt]}).json == {"done": [True]}
