"""Writes: rows become messages, in chunks that are stored once however often they are sent.

Every chunk has a key made of the write, the partition and the chunk's number, and the server stores what comes under a
key once. So a task that is retried or speculated, and a micro-batch that is replayed, add nothing; they only have to
bring the same rows in the same order. Where a chunk ends depends on the rows alone, never on how Spark batches them.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock import limits
from penstock.client import QueueNotFound, SendConflict
from penstock.spark.codec import encode, is_plain
from penstock.spark.errors import InvalidOption, WriteConflict
from penstock.spark.options import Options

CHUNK_ROWS = limits.SEND_LIMIT
# Under the server's limit on a request with room to spare, for what Arrow adds to the values.
CHUNK_BYTES = 12 * 1024 * 1024
# Texts that a message may have or not, and that most have not.
_WORDS = ("group", "dedup_id")
_COLUMNS = ("body", "content_type", "attributes", "delay_ms", *_WORDS)
_TEXT_MAP = pa.map_(pa.string(), pa.string())
# What a row takes beside its values: offsets, and a share of the frame.
_ROW_BYTES = 32
_KEY_ROOM = 40


@dataclass
class Written(WriterCommitMessage):
    """What a task has sent, and how much of it was stored by this attempt or another."""

    messages: int
    stored: int


class Sender:
    """What both writers share. It can be pickled."""

    def __init__(self, options: Options, schema: spark.StructType) -> None:
        """Raises InvalidOption for columns that a message does not have."""
        self._options = options
        for name in schema.names:
            if name.lower() not in _COLUMNS:
                raise InvalidOption(
                    f"a message has no column {name!r} that could be written; select from {', '.join(_COLUMNS)}"
                )
        if "body" not in (name.lower() for name in schema.names):
            raise InvalidOption("a message needs a column body")

    def prepare(self) -> None:
        """On the driver, before any task runs."""
        with self._options.client() as client:
            if self._options.create:
                client.ensure_queue(self._options.queue)
                return
            try:
                client.queue(self._options.queue)
            except QueueNotFound:
                raise InvalidOption(
                    f"there is no queue {self._options.queue!r}; create it, or write with the option create=true"
                ) from None

    def send(self, batches: Iterator[pa.RecordBatch], write: str) -> Written:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        messages = stored = 0
        with self._options.client() as client:
            for number, chunk in enumerate(chunks(map(drafts_of, batches))):
                try:
                    sent = client.arrow.send(self._options.queue, chunk, f"{write}/{partition}/{number}")
                except SendConflict as error:
                    raise WriteConflict(
                        f"{error}. An earlier attempt of this write sent other rows as chunk {number} of partition "
                        f"{partition}, or sent them in another order. When a task is run again its rows must be the "
                        "same and in the same order: sort within partitions, or checkpoint the input before it is "
                        "written; and never use an idempotencyKey for two different writes",
                        error.status,
                    ) from None
                messages += sent.count
                stored += sent.stored
        return Written(messages, stored)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Options, schema: spark.StructType) -> None:
        self._sender = Sender(options, schema)
        self._sender.prepare()
        # Made once, here on the driver: every attempt of every task has it from here.
        self._write = short_key(options.idempotency_key or uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._sender.send(iterator, self._write)


class StreamWriter(DataSourceStreamArrowWriter):
    """A replayed micro-batch has the query's name and number of the first time."""

    def __init__(self, options: Options, schema: spark.StructType) -> None:
        self._sender = Sender(options, schema)
        self._sender.prepare()
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        # The query's id is kept in its checkpoint: a new checkpoint counts its batches from 0 again, under a new id.
        name = self._options.writer or query or self._options.checkpoint
        if batch is None or name is None:
            raise InvalidOption("this stream does not say which query it is: name it with the option writer")
        return self._sender.send(iterator, f"{short_key(name)}/{batch}")


def short_key(name: str) -> str:
    """The name itself, or a digest of it where it would not fit into a key."""
    if name.isascii() and name.isprintable() and len(name) <= limits.IDEMPOTENCY_KEY_LENGTH - _KEY_ROOM:
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def drafts_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that a send has, in its types."""
    found = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
    bodies = found["body"]
    if bodies.null_count:
        raise InvalidOption("a message has a body: the column body must not be null; filter such rows, or coalesce it")
    made: dict[str, Any] = {"body": encode(bodies)}
    if "content_type" in found:
        made["content_type"] = found["content_type"].cast(pa.string())
    elif not is_plain(bodies.type):
        made["content_type"] = pa.array(["application/json"] * len(bodies), pa.string())
    if "attributes" in found:
        made["attributes"] = _text_map(found["attributes"])
    if "delay_ms" in found:
        made["delay_ms"] = found["delay_ms"].cast(pa.int64())
    for name in _WORDS:
        if name in found:
            made[name] = found[name].cast(pa.string())
    return pa.RecordBatch.from_pydict(made)


def _text_map(values: Any) -> pa.Array:
    try:
        return values.cast(_TEXT_MAP)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise InvalidOption(f"the column attributes is map<string,string>, not {values.type}") from None


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in other batches: each chunk takes rows until one more would be too many, or too large. Columns of
    words that no row of a chunk has are left out: then it is the same as one that never had them."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        # ends[i] is how many bytes the rows before row i take.
        ends = [0, *pc.cumulative_sum(_sizes(batch)).to_pylist()]
        start = 0
        while start < batch.num_rows:
            fitting = bisect_right(ends, ends[start] + CHUNK_BYTES - size) - 1
            stop = min(max(fitting, start), start + CHUNK_ROWS - rows, batch.num_rows)
            if stop == start and not held:
                stop = start + 1  # larger than a chunk by itself: the server decides
            if stop > start:
                held.append(batch.slice(start, stop - start))
                rows += stop - start
                size += ends[stop] - ends[start]
                start = stop
            if start < batch.num_rows or rows == CHUNK_ROWS:
                yield _without_blanks(pa.concat_batches(held))
                held, rows, size = [], 0, 0
    if held:
        yield _without_blanks(pa.concat_batches(held))


def _without_blanks(chunk: pa.RecordBatch) -> pa.RecordBatch:
    blank = [name for name in _WORDS if name in chunk.schema.names and chunk[name].null_count == chunk.num_rows]
    return chunk.drop_columns(blank) if blank else chunk


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    """About how many bytes each row takes."""
    sizes = pc.add(pc.cast(pc.binary_length(batch["body"]), pa.int64()), _ROW_BYTES)
    for name in ("content_type", *_WORDS):
        if name in batch.schema.names:
            sizes = pc.add(sizes, pc.cast(pc.coalesce(pc.binary_length(batch[name]), 0), pa.int64()))
    if "attributes" in batch.schema.names:
        counted = [sum(8 + len(key.encode()) + len((value or "").encode()) for key, value in row or ()) for row in
                   batch["attributes"].to_pylist()]  # fmt: skip
        sizes = pc.add(sizes, pa.array(counted, pa.int64()))
    return sizes
