"""A function as a Spark task: it runs where the rows are, is tried again as tasks are, and hands back one value.

Rows that a function moves from one place to another with Arrow need not pass through the JVM. Where a session is one of
Spark Connect, this is also how a program looks at files that only the cluster can see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from penstock.spark.session import without_pandas_warning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

S = TypeVar("S")
T = TypeVar("T")


def is_connect(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def in_task(spark: SparkSession, function: Callable[[], T], kind: type[T]) -> T:
    """What the function returns, which must be a value of JSON or a struct, of this kind."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark keeps a worker for the next task only if it has read all that it was sent.
        deque(batches, maxlen=0)
        yield pa.RecordBatch.from_pydict({"told": [msgspec.json.encode(function())]})

    [row] = mapped(spark.range(0, 1, 1, 1), run, "told binary").collect()
    return msgspec.json.decode(bytes(row.told), type=kind)


def each_in_task(spark: SparkSession, function: Callable[[S], T], items: Sequence[S], kind: type[T]) -> list[T]:
    """What the function returns of each item, in any order: a task each. Items are values of JSON or structs."""
    if not items:
        return []
    of = type(items[0])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch["item"].to_pylist():
                told = msgspec.json.encode(function(msgspec.json.decode(item, type=of)))
                yield pa.RecordBatch.from_pydict({"told": [told]})

    listed = spark.createDataFrame(
        [(number, msgspec.json.encode(it)) for number, it in enumerate(items)], "n int, item binary"
    )
    spread = listed.repartitionByRange(len(items), "n").select("item")
    return [msgspec.json.decode(bytes(row.told), type=kind) for row in mapped(spread, run, "told binary").collect()]


def mapped(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`DataFrame.mapInArrow`, which looks at the version of pandas without using it, and complains."""
    with without_pandas_warning():
        given: Any = function
        return frame.mapInArrow(given, schema)
