"""Streams: a micro-batch is a shipment, and is settled once Spark is done with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from penstock.client import ShipmentRef
from tests.spark.conftest import Queue


class Sink:
    """What each micro-batch held, as a store that overwrites a batch that comes again would have it."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.runs = 0
        self.before: Callable[[int], None] = lambda batch: None
        self.after: Callable[[int], None] = lambda batch: None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.runs += 1
        self.before(batch)
        self.batches[batch] = sorted(bytes(row.body).decode() for row in frame.collect())
        self.after(batch)

    @property
    def bodies(self) -> list[str]:
        return sorted(body for batch in self.batches.values() for body in batch)


class Streamed:
    """A query from the queue q to a sink, that can be run again and again with one checkpoint."""

    def __init__(self, queue: Queue, folder: Path) -> None:
        self.queue = queue
        self.sink = Sink()
        self.checkpoint = folder / "checkpoint"

    def start(self, once: bool = True, **options: object) -> StreamingQuery:
        options = {"consumer": "c", "maxMessagesPerTrigger": 10, **options}
        writer = self.queue.stream(**options).writeStream.foreachBatch(self.sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(availableNow=True) if once else writer).start()

    def run(self, **options: object) -> None:
        self.start(**options).awaitTermination()

    def states(self) -> list[str]:
        return [shipment.state for shipment in self.queue.client.shipments("q", "c")]


@pytest.fixture
def streamed(queue: Queue, tmp_path: Path) -> Streamed:
    return Streamed(queue, tmp_path)


def numbers(start: int, stop: int) -> list[str]:
    return [f"{number:03}" for number in range(start, stop)]


def test_available_now(streamed: Streamed) -> None:
    """In batches of the limit, to the end; and the last batch is settled like the others."""
    streamed.queue.send(*numbers(0, 25))
    streamed.run()
    assert [len(batch) for batch in streamed.sink.batches.values()] == [10, 10, 5]
    assert streamed.sink.bodies == numbers(0, 25)
    assert streamed.states() == ["settled"] * 3
    assert streamed.queue.tally() == (25, 25)


def test_available_now_ends_although_more_arrives(streamed: Streamed) -> None:
    streamed.queue.send(*numbers(0, 12))
    streamed.sink.after = lambda batch: streamed.queue.send(*numbers(100 + 10 * batch, 110 + 10 * batch))
    streamed.run()
    assert len(streamed.sink.bodies) == 12
    assert streamed.queue.tally() == (32, 12)


def test_available_now_with_nothing_there(streamed: Streamed) -> None:
    streamed.run()
    assert streamed.sink.bodies == []
    assert list(streamed.queue.client.shipments("q")) == []
    streamed.queue.send(*numbers(0, 2))
    streamed.run()
    assert streamed.sink.bodies == numbers(0, 2)
    assert streamed.queue.tally() == (2, 2)


def test_a_new_query_begins_where_its_consumer_is(streamed: Streamed) -> None:
    streamed.queue.send(*numbers(0, 5))
    streamed.queue.client.claim_shipment(ShipmentRef("q", "c", 1), 2, 60_000)
    streamed.queue.client.settle_shipment(ShipmentRef("q", "c", 1))
    streamed.run()
    assert streamed.sink.bodies == numbers(2, 5)
    assert streamed.states() == ["settled", "settled"]


def test_a_restart_goes_on_where_it_ended(streamed: Streamed) -> None:
    streamed.queue.send(*numbers(0, 12))
    streamed.run()
    streamed.queue.send(*numbers(12, 17))
    streamed.run()
    assert streamed.sink.batches == {0: numbers(0, 10), 1: numbers(10, 12), 2: numbers(12, 17)}
    assert streamed.queue.tally() == (17, 17)


def test_a_driver_that_ends_in_the_middle_of_a_batch(streamed: Streamed) -> None:
    def die(batch: int) -> None:
        if batch == 1:
            raise RuntimeError("the driver ended")

    streamed.queue.send(*numbers(0, 25))
    streamed.sink.after = die
    with pytest.raises(PySparkException):
        streamed.run()
    assert streamed.states() == ["settled", "open"]
    before = dict(streamed.sink.batches)

    streamed.sink.after = lambda batch: None
    streamed.run()
    assert streamed.sink.runs == 4
    assert streamed.sink.batches == before | {2: numbers(20, 25)}
    assert streamed.queue.tally() == (25, 25)


def test_a_driver_that_ends_between_two_batches(streamed: Streamed) -> None:
    """Spark has noted the batch as done and it is not settled: the next run does."""
    streamed.queue.send(*numbers(0, 5))
    streamed.run()
    # What that leaves behind: a batch in the commit log, and its shipment open.
    streamed.queue.send(*numbers(5, 9))
    streamed.sink.after = lambda batch: streamed.queue.client.claim_shipment(
        ShipmentRef("q", "c", batch + 1), 10, 60_000
    )
    streamed.run()
    assert streamed.states() == ["settled", "settled"]
    assert streamed.queue.tally() == (9, 9)


def test_a_batch_that_spark_replays_after_it_was_settled(streamed: Streamed) -> None:
    """The last settled shipment is kept, because Spark may have lost its note of it."""
    streamed.queue.send(*numbers(0, 5))
    streamed.run()
    assert streamed.states() == ["settled"]
    forget_commit(streamed.checkpoint, 0)
    streamed.queue.send(*numbers(5, 8))
    streamed.run()
    assert streamed.sink.runs == 3
    assert streamed.sink.batches == {0: numbers(0, 5), 1: numbers(5, 8)}
    assert streamed.queue.tally() == (8, 8)


def test_running_on(streamed: Streamed) -> None:
    query = streamed.start(once=False)
    try:
        streamed.queue.send(*numbers(0, 15))
        query.processAllAvailable()
        streamed.queue.send(*numbers(15, 18))
        query.processAllAvailable()
    finally:
        query.stop()
    assert streamed.sink.bodies == numbers(0, 18)
    assert streamed.queue.tally() == (18, 18)
    assert set(streamed.states()) == {"settled"}


def test_a_shipment_of_the_checkpoint_that_was_given_back(streamed: Streamed) -> None:
    def die(batch: int) -> None:
        raise RuntimeError("the driver ended")

    streamed.queue.send(*numbers(0, 5))
    streamed.sink.before = die
    with pytest.raises(PySparkException):
        streamed.run()
    streamed.queue.client.release_shipment(ShipmentRef("q", "c", 1))
    streamed.sink.before = lambda batch: None
    with pytest.raises(PySparkException, match=r"(?s)it was released.*onLostShipment=continue.*a new consumer"):
        streamed.run()
    assert streamed.sink.batches == {}


def test_a_number_that_was_given_back_before_spark_noted_it(streamed: Streamed) -> None:
    streamed.queue.send(*numbers(0, 5))
    streamed.run()
    streamed.queue.send(*numbers(5, 8))
    streamed.queue.client.claim_shipment(ShipmentRef("q", "c", 2), 10, 60_000)
    streamed.queue.client.release_shipment(ShipmentRef("q", "c", 2))
    streamed.run()
    assert streamed.sink.batches == {0: numbers(0, 5), 1: numbers(5, 8)}
    assert streamed.states() == ["settled", "released", "settled"]


def test_a_consumer_that_somebody_else_uses(streamed: Streamed) -> None:
    streamed.queue.send(*numbers(0, 5))
    streamed.run()
    streamed.queue.send(*numbers(5, 8))
    streamed.queue.client.claim_shipment(ShipmentRef("q", "c", 2), 1, 60_000)
    streamed.queue.client.settle_shipment(ShipmentRef("q", "c", 2))
    with pytest.raises(PySparkException, match=r"(?s)another query uses the consumer 'c'"):
        streamed.run()


def test_a_batch_that_was_lost_after_it_was_processed(streamed: Streamed) -> None:
    """Its messages are in the queue once more: going on would read them twice in silence."""
    streamed.queue.send(*numbers(0, 5))
    streamed.sink.after = lambda batch: streamed.queue.client.release_shipment(ShipmentRef("q", "c", 1)) and None
    with pytest.raises(
        PySparkException, match=r"(?s)shipment 1 of .q. was processed, but released before it could be settled"
    ):
        streamed.run()


def test_a_consumer_is_needed(streamed: Streamed) -> None:
    with pytest.raises(PySparkException, match="the option consumer is missing"):
        streamed.queue.stream().writeStream.foreachBatch(streamed.sink).start().awaitTermination()


def test_decoding(queue: Queue, tmp_path: Path) -> None:
    queue.send('{"a": 1}', "broken")
    frame = queue.stream(consumer="c", format="json", bodySchema="a INT").select("body.a", "bad_record")
    writer = frame.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    rows = queue.spark.read.schema("a int, bad_record binary").json(str(tmp_path / "out")).collect()
    assert sorted((row.a, row.bad_record and bytes(row.bad_record)) for row in rows if row.a) == [(1, None)]
    assert [bytes(row.bad_record) for row in rows if row.a is None] == [b"broken"]


def test_from_queue_to_queue(queue: Queue, tmp_path: Path) -> None:
    """With a batch that is read and written a second time: nothing is stored twice."""
    queue.client.create_queue("copy")
    queue.send(*numbers(0, 25))
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        frame = queue.stream(consumer="c", maxMessagesPerTrigger=20).select("body", "content_type", "attributes")
        writer = frame.writeStream.format("penstock").options(**queue.options(queue="copy"))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    assert queue.client.queue("copy").tally.arrived == 25
    forget_commit(checkpoint, 1)
    run()
    assert queue.client.queue("copy").tally.arrived == 25
    queue.send(*numbers(25, 30))
    run()
    batch = queue.client.arrow.peek("copy").batch
    assert sorted(body.decode() for body in batch["body"].to_pylist()) == numbers(0, 30)


def test_a_new_checkpoint_is_a_new_writer(queue: Queue, tmp_path: Path) -> None:
    """Its batches count from 0 again, and must not pass for those of the old one."""
    queue.client.create_queue("copy")
    for name in ("one", "two"):
        queue.send("same")
        frame = queue.stream(consumer="c").select("body")
        writer = frame.writeStream.format("penstock").options(**queue.options(queue="copy"))
        writer = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        writer.start().awaitTermination()
    assert queue.client.queue("copy").tally.arrived == 2


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had ended just before Spark noted the batch as done."""
    (checkpoint / "commits" / f"{batch}").unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
