"""Rows of a DataFrame to a queue, in chunks whose keys depend on nothing but the rows and where they are.

A chunk's key is `<key>/<partition>/<chunk>`. So a task that is retried or speculated, and a whole run that is
repeated, stores nothing twice, as long as the same partition has the same rows in the same order. Making that so is
the caller's part; `STEADY` are the settings it needs. What a chunk became comes back as rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.spark.wire import Wire

_SPLIT_BYTES = 32 * 1024 * 1024
STEADY = {
    # Opening costs as much as the largest split: so a split never shares its partition, and the number of cores, which
    # otherwise takes part in the size of splits, does not matter.
    "spark.sql.files.maxPartitionBytes": str(_SPLIT_BYTES),
    "spark.sql.files.openCostInBytes": str(_SPLIT_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(256 * 1024 * 1024),
    # A file that is gone or broken must end the job, not shift the rows.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


@dataclass(frozen=True)
class Sent:
    messages: int
    stored: int
    repeated: int  # messages of chunks that had been stored before

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.messages + other.messages, self.stored + other.stored, self.repeated + other.repeated)


NOTHING = Sent(0, 0, 0)


def send(messages: DataFrame, wire: Wire, queue: str, key: str) -> Sent:
    """Sends the columns `body` (binary) and, where there are any, `content_type` and `attributes`. Raises JobFailed."""

    def task(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        from pyspark import TaskContext

        context = TaskContext.get()
        numbers = itertools.count()
        prefix = f"{key}/{0 if context is None else context.partitionId()}"
        return _told(batches, lambda batch: vars(_sent(batch, wire, queue, prefix, numbers)))

    return sum((Sent(**answer) for answer in _run(messages, task)), NOTHING)


def send_each(messages: DataFrame, wire: Wire, queue: str, key: str) -> tuple[Sent, set[str]]:
    """Sends every message by itself, under a key made of its `id`; and gives their `receipt`s back."""

    def one(batch: pa.RecordBatch) -> dict[str, Any]:
        total, receipts = NOTHING, []
        for row, (id_, receipt) in enumerate(zip(batch["id"].to_pylist(), batch["receipt"].to_pylist(), strict=True)):
            message = batch.slice(row, 1).select(["body", "content_type", "attributes"])
            total += _sent(message, wire, queue, f"{key}/{id_}", itertools.count())
            receipts.append(receipt)
        return {**vars(total), "receipts": receipts}

    def task(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return _told(batches, one)

    total, receipts = NOTHING, set()
    chosen = messages.select("id", "receipt", "body", "content_type", "attributes")
    for answer in _run(chosen, task):
        receipts |= set(answer.pop("receipts"))
        total += Sent(**answer)
    return total, receipts


def _run(messages: DataFrame, task: Callable[[Iterator[pa.Array]], Iterator[pa.Array]]) -> list[dict[str, Any]]:
    """What the task tells of the messages. Raises JobFailed."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.functions import arrow_udf

    # Spark asks the annotations which kind of function it is, and takes no names for types.
    task.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    # Said to be non-deterministic, since Spark may run others again for every place that uses the result.
    sending: Any = arrow_udf(task, "string")  # type: ignore[call-overload]
    sending = sending.asNondeterministic()
    told = messages.select(sending(F.struct(*messages.columns)).alias("told")).where("told IS NOT NULL")
    answers = [json.loads(row.told) for row in told.collect()]
    for answer in answers:
        if "error" in answer:
            raise JobFailed(answer["error"])
    return answers


def _told(batches: Iterator[pa.Array], tell: Callable[[pa.RecordBatch], dict[str, Any]]) -> Iterator[pa.Array]:
    """What became of each batch is told in its first row; the others are null."""
    import pyarrow as pa

    from penstock.spark.options import InvalidOption
    from penstock.spark.wire import WireError

    failed = False
    for batch in batches:
        answer: dict[str, Any] | None = None
        if not failed:
            try:
                answer = tell(pa.RecordBatch.from_struct_array(batch))
            except (WireError, InvalidOption) as error:
                # Told, not raised: the wire has been patient, so another attempt of the task would not help.
                answer, failed = {"error": str(error)}, True
        yield pa.array([answer and json.dumps(answer)] + [None] * (len(batch) - 1), pa.string())


def _sent(batch: pa.RecordBatch, wire: Wire, queue: str, key: str, numbers: Iterator[int]) -> Sent:
    from penstock.spark.wire import Conflict
    from penstock.spark.writing import chunks, drafts_of

    total = NOTHING
    for chunk in chunks(iter([drafts_of(batch)])):
        try:
            sent = wire.send(queue, chunk, f"{key}/{next(numbers)}")
        except Conflict as error:
            raise Conflict(f"{error}: these are not the rows that were sent before under the same key") from None
        total += Sent(sent.count, 0, sent.count) if sent.repeated else Sent(sent.count, sent.stored, 0)
    return total
