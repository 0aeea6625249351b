"""A store that is busy, full or away, and errors that no one has foreseen."""

from __future__ import annotations

import pytest

from penstock.errors import FeatureMissing, PenstockError, StoreBusy, StoreFull, StoreUnavailable
from penstock.timings import Timings
from tests.faces.sqs.conftest import Sqs
from tests.servers import ThreadServer

OPERATIONS = {
    "SendMessage": {"QueueUrl": "q", "MessageBody": "x"},
    "ReceiveMessage": {"QueueUrl": "q", "WaitTimeSeconds": 0},
    "DeleteMessage": {"QueueUrl": "q", "ReceiptHandle": "bm9uZS4xLnE"},
    "CreateQueue": {"QueueName": "q"},
    "ListQueues": {},
}


def break_store(server: ThreadServer, error: Exception) -> None:
    def unit(*_args: object, **_named: object) -> object:
        raise error

    server.store.unit = unit


# An operation that finds the store busy tries again for a while.
IMPATIENT = pytest.mark.parametrize("timings", [Timings(busy_patience_s=0.1)], ids=["impatient"])


@IMPATIENT
@pytest.mark.parametrize(
    ("error", "retry_after"),
    [(StoreBusy("busy"), "1"), (StoreFull("full"), "10"), (StoreUnavailable("away"), "5")],
    ids=["busy", "full", "away"],
)
def test_what_may_succeed_later(
    sqs: Sqs, url: str, server: ThreadServer, error: PenstockError, retry_after: str
) -> None:
    break_store(server, error)
    for operation, asked in OPERATIONS.items():
        reply = sqs.ask(operation, **asked)
        failure = sqs.failure(reply)
        assert (failure.status, failure.code, failure.sender) == (503, "ServiceUnavailable", False)
        assert reply.headers["Retry-After"] == retry_after


@IMPATIENT
def test_a_batch_fails_as_a_whole(sqs: Sqs, url: str, server: ThreadServer) -> None:
    break_store(server, StoreBusy("busy"))
    failure = sqs.refused("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "x"}])
    assert failure.code == "ServiceUnavailable"


def test_what_a_store_does_not_have(sqs: Sqs, url: str, server: ThreadServer) -> None:
    break_store(server, FeatureMissing("this store keeps no such thing"))
    failure = sqs.refused("PurgeQueue", QueueUrl=url)
    assert (failure.status, failure.code) == (400, "AWS.SimpleQueueService.UnsupportedOperation")


def test_what_no_one_has_foreseen(sqs: Sqs, url: str, server: ThreadServer, caplog: pytest.LogCaptureFixture) -> None:
    break_store(server, ZeroDivisionError("a secret"))
    failure = sqs.refused("SendMessage", QueueUrl=url, MessageBody="x")
    assert (failure.status, failure.code, failure.sender) == (500, "InternalFailure", False)
    assert "secret" not in failure.message
    assert "a request failed" in caplog.text
