"""Rows of a DataFrame to a queue, in chunks whose keys depend on nothing but the rows and where they are.

A chunk's key is `<key>/<partition>/<chunk>`. So a task that is retried or speculated, and a whole run that is repeated,
stores nothing twice, as long as the same partition has the same rows in the same order. The caller sees to that;
`STEADY` are the settings it needs. What became of a chunk comes back as rows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, VariantType

from penstock.client import Client, ClientError, SendConflict
from penstock.spark.errors import InvalidOption, JobFailed
from penstock.spark.folders import File
from penstock.spark.server import Server
from penstock.spark.writer import chunks, drafts_of
from penstock.terminal import Progress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SPLIT_BYTES = 32 * 1024 * 1024
# Files at once: more than one keeps the cores busy while a small file is planned.
_AT_ONCE = 4
# Part of every key: a change in which rows are in which chunk must change it.
_KEY_VERSION = 1
# Given, not left to the session: the same row must become the same bytes wherever the job runs.
AS_JSON = {"ignoreNullFields": "false", "timeZone": "UTC"}
STEADY = {
    # Opening costs as much as the largest split, so a split never shares its partition, and the number of cores, which
    # otherwise decides the size of splits as well, does not matter.
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


def send(messages: DataFrame, server: Server, queue: str, key: str) -> Sent:
    """Send the columns `body` (binary) and, where there are any, `content_type`, `attributes`, `group` and `dedup_id`.
    Raises JobFailed."""

    def task(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        context = TaskContext.get()
        numbers = itertools.count()
        prefix = f"{key}/{0 if context is None else context.partitionId()}"
        with server.client() as client:
            yield from _told(batches, lambda batch: vars(_sent(batch, client, queue, prefix, numbers)))

    return sum((Sent(**answer) for answer in _run(messages, task)), NOTHING)


def send_each(messages: DataFrame, server: Server, queue: str, key: str) -> tuple[Sent, set[str]]:
    """Send every message by itself, under a key made of its `id`; returns their `receipt`s as well."""

    def each(batch: pa.RecordBatch, client: Client) -> dict[str, Any]:
        total, receipts = NOTHING, []
        for row, (id_, receipt) in enumerate(zip(batch["id"].to_pylist(), batch["receipt"].to_pylist(), strict=True)):
            message = batch.slice(row, 1).select(["body", "content_type", "attributes", "group"])
            total += _sent(message, client, queue, f"{key}/{id_}", itertools.count())
            receipts.append(receipt)
        return {**vars(total), "receipts": receipts}

    def task(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        with server.client() as client:
            yield from _told(batches, lambda batch: each(batch, client))

    total, receipts = NOTHING, set()
    chosen = messages.select("id", "receipt", "body", "content_type", "attributes", "group")
    for answer in _run(chosen, task):
        receipts |= set(answer.pop("receipts"))
        total += Sent(**answer)
    return total, receipts


def send_files(
    files: Sequence[File],
    read: Callable[[File], DataFrame],
    key: Callable[[File], str],
    server: Server,
    queue: str,
    progress: Progress,
) -> Sent:
    """Each file on its own, since only then do its keys not depend on the files beside it."""
    total = NOTHING
    done = 0
    everything = sum(file.bytes for file in files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(lambda file: send(read(file), server, queue, key(file)), file): file for file in files}
        try:
            for ended in as_completed(running):
                try:
                    total += ended.result()
                except JobFailed as error:
                    raise JobFailed(f"{running[ended].path}: {error}") from None
                done += running[ended].bytes
                progress.show(f"loading {queue}: bytes", done, everything)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    progress.end()
    return total


def key_of(file: File, queue: str, more: Sequence[object]) -> str:
    """The same for the same file, on any machine and any number of cores."""
    known = json.dumps([_KEY_VERSION, queue, file.path, file.bytes, file.modified_at, *more], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()[:40]


def _run(messages: DataFrame, task: Callable[[Iterator[pa.Array]], Iterator[pa.Array]]) -> list[dict[str, Any]]:
    """What the task tells of the messages. Raises JobFailed."""
    # Spark reads from the annotations which kind of function it is, and they must be types, not names.
    task.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    # Declared non-deterministic, because Spark may run others once for every place that uses the result.
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
    failed = False
    for batch in batches:
        answer: dict[str, Any] | None = None
        if not failed:
            try:
                answer = tell(pa.RecordBatch.from_struct_array(batch))
            except (ClientError, InvalidOption) as error:
                # Told, not raised: the request was retried already, so another attempt of the task would not help.
                answer, failed = {"error": str(error)}, True
        yield pa.array([answer and json.dumps(answer)] + [None] * (len(batch) - 1), pa.string())


def _sent(batch: pa.RecordBatch, client: Client, queue: str, key: str, numbers: Iterator[int]) -> Sent:
    total = NOTHING
    for chunk in chunks(iter([drafts_of(batch)])):
        try:
            sent = client.arrow.send(queue, chunk, f"{key}/{next(numbers)}")
        except SendConflict as error:
            error.args = (f"{error}: these are not the rows that were sent before under the same key",)
            raise
        total += Sent(sent.count, 0, sent.count) if sent.repeated else Sent(sent.count, sent.stored, 0)
    return total


# Bodies


def as_bytes(column: Column, kind: DataType) -> Column:
    """Text and bytes as they are, what has parts as JSON, and anything else as Spark writes it."""
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType | ArrayType | MapType | VariantType):
        column = F.to_json(column, AS_JSON)
    return column.cast("string").cast("binary")


def body_bytes(messages: DataFrame) -> Column:
    """The body as bytes, whichever way it was drained; a body that did not decode as it came."""
    kind = messages.schema["body"].dataType
    body = F.col("body") if isinstance(kind, BinaryType) else as_bytes(F.col("body"), kind)
    return F.coalesce(body, F.col("bad_record")) if "bad_record" in messages.columns else body
