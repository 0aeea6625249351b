"""A read with a consumer takes a shipment, and takes the same one until it is settled or released."""

from __future__ import annotations

import pytest
from pyspark import RDD
from pyspark.errors import PySparkException

import penstock.spark
from tests.spark.conftest import Queue, bodies


def test_it_reads_the_same_until_it_is_settled(queue: Queue) -> None:
    queue.send("a", "b", "c")
    first = queue.read(consumer="c", limit=2)
    assert bodies(first) == [b"a", b"b"]
    assert bodies(queue.read(consumer="c", limit=2)) == [b"a", b"b"]
    assert bodies(first) == [b"a", b"b"]
    assert [(it.number, it.state, it.messages) for it in queue.client.shipments("q")] == [(1, "open", 2)]
    assert queue.count().claimed == 2

    assert penstock.spark.settle(queue.client.url, "q", "c", 1).state == "settled"
    assert penstock.spark.settle(queue.client.url, "q", "c", 1).state == "settled"
    assert queue.tally() == (3, 2)
    assert bodies(queue.read(consumer="c", limit=2)) == [b"c"]
    assert queue.client.next_shipment("q", "c").number == 2


def test_released_messages_come_again_with_the_next_number(queue: Queue) -> None:
    queue.send("a", "b")
    assert bodies(queue.read(consumer="c", limit=1)) == [b"a"]
    assert penstock.spark.release(queue.client.url, "q", "c", 1).state == "released"
    frame = queue.read(consumer="c")
    assert bodies(frame) == [b"a", b"b"]
    assert sorted(row.receives for row in frame.collect()) == [1, 2]
    assert queue.client.next_shipment("q", "c").number == 2


def test_planning_without_reading_claims_nothing_before_it_is_needed(queue: Queue) -> None:
    queue.send("a")
    frame = queue.read(consumer="c")
    assert frame.schema.names[0] == "id"
    assert list(queue.client.shipments("q")) == []


def test_slices_cover_it_once(queue: Queue) -> None:
    sent = [b"%04d" % number for number in range(1_003)]
    queue.send(*sent)
    frame = queue.read(consumer="c", partitions=7)
    assert frame.rdd.getNumPartitions() == 7
    assert bodies(frame) == sent
    assert bodies(queue.read(consumer="c", partitions=1)) == sent


def test_more_slices_than_messages(queue: Queue) -> None:
    queue.send("a", "b")
    assert bodies(queue.read(consumer="c", partitions=50)) == [b"a", b"b"]


def test_consumers_do_not_share(queue: Queue) -> None:
    queue.send("a", "b")
    assert bodies(queue.read(consumer="one", limit=1)) == [b"a"]
    assert bodies(queue.read(consumer="two")) == [b"b"]
    assert bodies(queue.read(consumer="one", limit=1)) == [b"a"]


def test_a_pinned_number(queue: Queue) -> None:
    queue.send("a", "b")
    assert bodies(queue.read(consumer="c", shipment=1, limit=1)) == [b"a"]
    with pytest.raises(PySparkException, match=r"(?s)number 1 was expected; leave out the option shipment"):
        queue.read(consumer="c", shipment=3).collect()
    penstock.spark.settle(queue.client.url, "q", "c", 1)
    with pytest.raises(PySparkException, match=r"(?s)shipment 1 of 'c'.*it was settled: its messages were stored"):
        queue.read(consumer="c", shipment=1).collect()
    assert bodies(queue.read(consumer="c", shipment=2)) == [b"b"]


def test_one_that_ends_while_it_is_read(queue: Queue) -> None:
    """Planned by Spark, then released behind its back: the tasks say so instead of returning what is left."""
    queue.send(*(f"{number}" for number in range(10)))
    planned = _planned(queue)
    penstock.spark.release(queue.client.url, "q", "c", 1)
    with pytest.raises(PySparkException, match=r"(?s)it was released: its messages are back in the queue"):
        planned.count()


def test_one_that_was_purged(queue: Queue) -> None:
    queue.send("a", "b")
    planned = _planned(queue)
    queue.client.purge("q")
    with pytest.raises(PySparkException, match=r"(?s)it was purged"):
        planned.count()


def test_the_time_it_is_held(queue: Queue) -> None:
    queue.send("a")
    queue.read(consumer="c", holdMs=1_800_000).collect()
    [shipment] = queue.client.shipments("q")
    assert shipment.until - shipment.claimed_at >= 1_800_000
    assert shipment.until - shipment.claimed_at < 3_600_000


def _planned(queue: Queue) -> RDD:
    """A read whose shipment is claimed and of which no task has run."""
    planned = queue.read(consumer="c").rdd
    assert planned.getNumPartitions() > 0
    assert next(queue.client.shipments("q")).state == "open"
    return planned
