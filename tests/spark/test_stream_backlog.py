"""What the progress of a query tells of how far it is behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.spark import backlog
from penstock.spark.progress import Backlog
from tests.spark.conftest import Queue
from tests.spark.driven import Driven


def send(client: Client, queue: str, count: int) -> None:
    client.send_many(queue, [str(number) for number in range(count)])


def test_what_is_left_behind_the_batch(client: Client) -> None:
    client.create_queue("other")
    send(client, "q", 25)
    send(client, "other", 3)
    driven = Driven(client.url, queues="q,other", maxMessagesPerTrigger=10)
    assert driven.plan()
    told = driven.reader.reportLatestOffset()
    assert told is not None
    assert told["backlog"]["messages"] == 18
    assert told["backlog"]["oldest_ms"] >= 0
    assert {name: one["messages"] for name, one in told["queues"].items()} == {"other": 0, "q": 18}
    assert told["queues"]["other"]["oldest_ms"] == 0
    driven.end()


def test_the_age_of_the_oldest(client: Client) -> None:
    send(client, "q", 1)
    count = client.queue("q").count
    assert count is not None
    assert count.oldest_ready_sent_at is not None
    driven = Driven(client.url, queue="q")
    before = time.time_ns() // 1_000_000
    told = driven.reader.reportLatestOffset()
    after = time.time_ns() // 1_000_000
    assert told is not None
    assert before - count.oldest_ready_sent_at <= told["backlog"]["oldest_ms"] <= after - count.oldest_ready_sent_at
    driven.end()


def test_a_batch_larger_than_what_is_counted(client: Client) -> None:
    """Of claimed messages the server counts the first ten thousand only, and the others would be left over."""
    for _ in range(3):
        send(client, "q", 5_000)
    driven = Driven(client.url, queue="q", maxMessagesPerTrigger=14_000)
    assert driven.plan()
    told = driven.reader.reportLatestOffset()
    assert told is not None
    assert told["backlog"]["messages"] == 1_000
    driven.end()


def test_a_key_that_may_not_count(client: Client) -> None:
    send(client, "q", 1)
    admin = client.create_key("admin", ["queue|*|*"]).secret
    with Client(client.url, admin) as keyed:
        secret = keyed.create_key("reader", ["queue|poll|q"]).secret
    driven = Driven(client.url, queue="q", apiKey=secret)
    assert driven.batch() == ["q:0"]
    assert driven.reader.reportLatestOffset() is None
    driven.end()


def test_with_spark(queue: Queue, tmp_path: Path) -> None:
    queue.send(*(str(number) for number in range(25)))
    stream = queue.stream(consumer="c", maxMessagesPerTrigger=10)
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    seen = [backlog(progress) for progress in query.recentProgress if progress.numInputRows]
    assert [one and one.messages for one in seen] == [15, 5, 0]
    assert seen[0] is not None
    assert seen[0].oldest_ms > 0
    assert list(seen[0].queues) == ["q"]
    assert seen[-1] == Backlog(0, 0, {"q": Backlog()})


def test_a_progress_that_tells_nothing(queue: Queue, tmp_path: Path) -> None:
    writer = queue.spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert query.lastProgress is not None
    assert backlog(query.lastProgress) is None
    with pytest.raises(AttributeError):
        backlog("no progress")
    assert backlog(None) is None
