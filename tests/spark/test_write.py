"""A write stores every row once, however often Spark runs a task."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock.spark
from penstock.client import Client
from penstock.limits import BODY_BYTES
from penstock.spark.writer import CHUNK_BYTES, CHUNK_ROWS, chunks, short_key
from tests.spark.conftest import Queue


def test_all_columns(queue: Queue, spark: SparkSession) -> None:
    rows = [("a", "text/plain", {"k": "v"}, 0), ("b", None, None, 3_600_000)]
    queue.write(
        spark.createDataFrame(rows, "body string, content_type string, attributes map<string,string>, delay_ms int")
    )
    found = {row["body"]: row for row in queue.client.arrow.peek("q").batch.to_pylist()}
    assert found[b"a"]["content_type"] == "text/plain"
    assert found[b"a"]["attributes"] == [("k", "v")]
    assert (found[b"b"]["content_type"], found[b"b"]["attributes"]) == (None, [])
    assert queue.count().delayed == 1


def test_groups_and_dedup_ids(queue: Queue, spark: SparkSession) -> None:
    queue.client.create_queue("line", groups="fifo", dedup="window")
    rows = [("1", 7, "x"), ("2", 7, None), ("3", None, "x"), ("4", 8, "y")]
    queue.write(spark.createDataFrame(rows, "body string, `group` int, dedup_id string").coalesce(1), queue="line")
    found = {message.text: message.group for message in queue.client.claim("line", 9)}
    assert found == {"1": "7", "2": "7", "4": "8"}
    for select in ("'' as `group`", "repeat('x', 129) as dedup_id"):
        with pytest.raises(PySparkException, match="has 1 to 128 printable characters"):
            queue.write(spark.sql(f"select 'a' as body, {select}"), queue="line")


def test_bytes(queue: Queue, spark: SparkSession) -> None:
    sent = [b"", b"\x00\xff", b"x" * 100]
    queue.write(spark.createDataFrame([(body,) for body in sent], "body binary"))
    assert sorted(queue.bodies()) == sorted(sent)


def test_structures_become_json(queue: Queue, spark: SparkSession) -> None:
    rows = [((1, [1.5, None], {"k": "v"}, None),)]
    schema = "body struct<a: int, l: array<double>, m: map<string,string>, missing: string>"
    queue.write(spark.createDataFrame(rows, schema))
    [row] = queue.client.arrow.peek("q").batch.to_pylist()
    assert json.loads(row["body"]) == {"a": 1, "l": [1.5, None], "m": {"k": "v"}, "missing": None}
    assert row["content_type"] == "application/json"


def test_a_written_structure_reads_back(queue: Queue, spark: SparkSession) -> None:
    frame = spark.sql(
        "select struct(timestamp'2024-01-02 03:04:05' as t, 12.50bd as d, date'2024-01-02' as day) as body"
    )
    queue.write(frame)
    [row] = queue.read("body struct<t: timestamp, d: decimal(4,2), day: date>").collect()
    assert row.body == frame.collect()[0].body


def test_a_task_that_fails_after_it_has_sent(queue: Queue, spark: SparkSession, tmp_path: Path) -> None:
    url, noted, rows = queue.client.url, tmp_path / "stored at the failure", 6 * CHUNK_ROWS + 500

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = 0
        for batch in batches:
            given += batch.num_rows
            yield batch
            if given == rows and TaskContext.get().attemptNumber() == 0:
                with Client(url) as client:
                    while not (stored := client.queue("q").tally.arrived):
                        time.sleep(0.05)
                noted.write_text(str(stored))
                raise RuntimeError("killed by the test, with a chunk stored")

    # Much more than one chunk: what Spark holds back in its buffers is in the later ones.
    wide = spark.range(0, rows, numPartitions=1).selectExpr("lpad(cast(id as string), 200, '0') as body")
    queue.write(wide.mapInArrow(fails_once, "body string"))
    assert int(noted.read_text()) >= CHUNK_ROWS
    found = Counter(queue.bodies())
    assert len(found) == rows
    assert set(found.values()) == {1}


def test_a_key_makes_a_second_run_harmless(queue: Queue, spark: SparkSession) -> None:
    frame = spark.range(0, 100, numPartitions=3).selectExpr("cast(id as string) as body")
    queue.write(frame, idempotencyKey="orders of May")
    queue.write(frame, idempotencyKey="orders of May")
    assert queue.tally() == (100, 0)
    queue.write(frame)
    queue.write(frame)
    assert queue.tally() == (300, 0)


def test_a_key_with_other_content(queue: Queue, spark: SparkSession) -> None:
    queue.write(spark.createDataFrame([("a",)], "body string").coalesce(1), idempotencyKey="k")
    with pytest.raises(PySparkException, match=r"(?s)same order: sort within partitions, or checkpoint the input"):
        queue.write(spark.createDataFrame([("b",)], "body string").coalesce(1), idempotencyKey="k")
    assert queue.bodies() == [b"a"]


def test_large_bodies_go_in_requests_that_fit(queue: Queue, spark: SparkSession) -> None:
    frame = spark.range(0, 30, numPartitions=1).selectExpr(f"repeat(char(65 + id), {BODY_BYTES}) as body")
    queue.write(frame)
    assert sorted(body[:1] for body in queue.bodies()) == [b"%c" % (65 + number) for number in range(30)]


def test_nothing_to_write(queue: Queue, spark: SparkSession) -> None:
    queue.write(spark.createDataFrame([], "body string"))
    assert queue.tally() == (0, 0)


def test_a_queue_that_is_not_there(queue: Queue, spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",)], "body string")
    with pytest.raises(
        PySparkException, match="there is no queue 'new'; create it, or write with the option create=true"
    ):
        queue.write(frame, queue="new")
    queue.write(frame, queue="new", create="true")
    queue.write(frame, queue="new", create="true")
    assert queue.client.queue("new").count.total == 2


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("'a' as body, 1 as colour", "no column 'colour'"),
        ("'a' as content_type", "needs a column body"),
        ("cast(null as string) as body", "must not be null"),
        ("'a' as body, map('k', 1) as attributes", None),
        ("'a' as body, array(1) as attributes", "attributes is map<string,string>"),
        ("'a' as body, map('k', cast(null as string)) as attributes", "must not be null"),
        (f"repeat('a', {BODY_BYTES} + 1) as body", "at most 1048576 bytes"),
    ],
)
def test_rows_that_are_no_messages(queue: Queue, spark: SparkSession, select: str, said: str | None) -> None:
    if said is None:
        queue.write(spark.sql(f"select {select}"))
        assert queue.tally() == (1, 0)
        return
    with pytest.raises(PySparkException, match=said):
        queue.write(spark.sql(f"select {select}"))
    assert queue.tally() == (0, 0)


def test_overwriting(queue: Queue, spark: SparkSession) -> None:
    queue.send("old")
    frame = spark.createDataFrame([("a",)], "body string")
    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        frame.write.format("penstock").options(**queue.options()).mode("overwrite").save()
    assert queue.bodies() == [b"old"]


def _cut(bodies: list[bytes], step: int) -> list[list[bytes]]:
    whole = pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})
    parts = (whole.slice(start, step) for start in range(0, len(bodies), step))
    return [chunk["body"].to_pylist() for chunk in chunks(parts)]


@pytest.mark.parametrize(
    "bodies",
    [
        [b"x"] * (2 * CHUNK_ROWS),
        [b"x"] * (CHUNK_ROWS + 1),
        [b"y" * 1_000_003] * 40,
        [b"z" * (size * 4_001) for size in range(300)],
        [b"w" * (CHUNK_BYTES + 1)] * 2 + [b"v"],
        [b"u"],
    ],
)
def test_where_a_chunk_ends_depends_on_the_rows_alone(bodies: list[bytes]) -> None:
    expected = _cut(bodies, len(bodies))
    assert [body for chunk in expected for body in chunk] == bodies
    for chunk in expected:
        assert len(chunk) <= CHUNK_ROWS
        assert len(chunk) == 1 or sum(map(len, chunk)) <= CHUNK_BYTES
    for step in (1, 7, 4_096) if len(bodies) < 1_000 else (999, 10_000):
        assert _cut(bodies, step) == expected


def test_words_that_no_row_of_a_chunk_has_are_not_sent() -> None:
    """Under the same key the same bytes are sent as before there were such words."""
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"x"] * (CHUNK_ROWS + 1), pa.binary()),
            "group": pa.array([None] * CHUNK_ROWS + ["a"], pa.string()),
            "dedup_id": pa.array([None] * (CHUNK_ROWS + 1), pa.string()),
        }
    )
    assert [chunk.schema.names for chunk in chunks(iter([batch]))] == [["body"], ["body", "group"]]


def test_attributes_count_by_their_bytes() -> None:
    attributes = pa.array([[("k", "€" * 300_000)]] * 30, pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b""] * 30, pa.binary()), "attributes": attributes})
    assert all(chunk.nbytes < 14 * 1024 * 1024 for chunk in chunks(iter([batch])))


def test_a_key_always_fits() -> None:
    assert short_key("orders/2024-05") == "orders/2024-05"
    for name in ("ü", "x" * 300, "a\nb"):
        made = short_key(name)
        assert made.isascii()
        assert len(made) == 64
        assert made != short_key(name + "!")


def test_a_write_from_a_new_thread(queue: Queue, spark: SparkSession, tmp_path: Path) -> None:
    """In which no session is active yet; a batch and a stream."""
    frame = spark.range(0, 3, numPartitions=1).selectExpr("cast(id as string) as body")

    def stream() -> None:
        rows = queue.stream(consumer="s").select("body").writeStream.format("penstock")
        rows = rows.options(**queue.options(queue="out")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        rows.trigger(availableNow=True).start().awaitTermination()

    queue.client.create_queue("out")
    with ThreadPoolExecutor(1) as new:
        new.submit(queue.write, frame).result()
    assert sorted(queue.bodies()) == [b"0", b"1", b"2"]
    with ThreadPoolExecutor(1) as new:
        new.submit(stream).result()
    assert queue.client.queue("out").count.total == 3


def test_a_write_leaves_the_active_session_as_it_is(queue: Queue, spark: SparkSession) -> None:
    other, frame = spark.newSession(), spark.range(0, 1, numPartitions=1).selectExpr("'a' as body")
    sessions = SparkSession._get_j_spark_session_class(spark._jvm)

    def write() -> bool:
        penstock.spark.register(other)
        sessions.setActiveSession(other._jsparkSession)
        queue.write(frame)
        return bool(sessions.getActiveSession().get().equals(other._jsparkSession))

    with ThreadPoolExecutor(1) as new:
        assert new.submit(write).result()
    assert queue.bodies() == [b"a"]
