"""Rows to a queue from Spark's tasks, in chunks whose keys depend on nothing but the rows and where they are.

A chunk's key is made of the place that its rows have, a part of a file or a shipment of the lake, and of its number
there. Which task sends it, and beside which others, does not matter: a task that is retried or speculated, and a whole
run that is repeated on another cluster, stores nothing twice, as long as the same place has the same rows in the same
order. Only counts come back from the tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, VariantType

from penstock.client import Client, ClientError, SendConflict
from penstock.spark.errors import InvalidOption, JobFailed
from penstock.spark.folders import File
from penstock.spark.jobs.parts import Part
from penstock.spark.server import Server
from penstock.spark.tasks import mapped
from penstock.spark.writer import chunks, drafts_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Part of every key: a change in which rows are in which chunk must change it.
_KEY_VERSION = 2
# Given, not left to the session: the same row must become the same bytes wherever the job runs.
_AS_JSON = {"ignoreNullFields": "false", "timeZone": "UTC"}
_PLACE = "_place"


@dataclass(frozen=True)
class Sent:
    messages: int
    stored: int
    repeated: int  # messages of chunks that had been stored before

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.messages + other.messages, self.stored + other.stored, self.repeated + other.repeated)


NOTHING = Sent(0, 0, 0)
# Reads one part of a file as messages.
Read = Callable[[Part], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Item:
    """One piece of work: a part of a file, how to read it, and the key of its file. It can be pickled."""

    part: Part
    read: Read
    key: str


def send_parts(spark: SparkSession, items: Sequence[Item], tasks: int, server: Server, queue: str) -> Sent:
    """All of them in one job of at most so many tasks, whose rows never pass through the JVM. Raises JobFailed."""
    if not items:
        return NOTHING
    # The largest first, and by turns: so that tasks end at about the same time.
    dealt = sorted(items, key=lambda item: item.part.size, reverse=True)
    count = min(len(dealt), tasks)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with server.client() as client:
            for batch in batches:
                for number in batch["id"].to_pylist():
                    for item in dealt[number::count]:
                        yield _told(partial(_sent_part, item, client, queue), item.part.file.path)

    return _run(spark.range(0, count, 1, count), task)


def send_places(messages: DataFrame, place: Sequence[str], server: Server, queue: str, key: str) -> Sent:
    """Send the columns `body` (binary), `content_type`, `attributes` and `group` of rows that have an `id`: those of
    each place, which these columns name, in the order of their ids. Raises JobFailed."""
    known = F.sha2(F.to_json(F.struct(*place), _AS_JSON), 256)
    placed = messages.select("id", "body", "content_type", "attributes", "group", known.alias(_PLACE))
    sorted_ = placed.repartition(_PLACE).sortWithinPartitions(_PLACE, "id")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with server.client() as client:
            for name, runs in groupby(_runs(batches), itemgetter(0)):
                drafts = (drafts_of(run.drop_columns(["id", _PLACE])) for _, run in runs)
                yield _told(partial(_sent, drafts, client, queue, f"{key}/{name[:32]}"))

    return _run(sorted_, task)


def key_of(file: File, queue: str, more: Sequence[object]) -> str:
    """The same for the same file, on any machine and any number of cores."""
    return digest_of([queue, file.path, file.bytes, file.modified_at, *more])


def digest_of(known: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([_KEY_VERSION, *known], sort_keys=True).encode()).hexdigest()[:40]


def _run(work: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Sent:
    answers = [json.loads(row.told) for row in mapped(work, task, "told string").collect()]
    for answer in answers:
        if "error" in answer:
            raise JobFailed(answer["error"])
    return sum((Sent(**answer) for answer in answers), NOTHING)


def _told(send: Callable[[], Sent], path: str | None = None) -> pa.RecordBatch:
    try:
        answer: dict[str, Any] = vars(send())
    except (ClientError, InvalidOption, JobFailed, pa.ArrowInvalid, FileNotFoundError) as error:
        # Told, not raised: the request was retried already, so another attempt of the task would not help.
        answer = {"error": str(error) if path is None else f"{path}: {error}"}
    return pa.RecordBatch.from_pydict({"told": pa.array([json.dumps(answer)], pa.string())})


def _sent_part(item: Item, client: Client, queue: str) -> Sent:
    drafts = (drafts_of(batch) for batch in item.read(item.part) if batch.num_rows)
    return _sent(drafts, client, queue, f"{item.key}/{item.part.number}")


def _sent(drafts: Iterator[pa.RecordBatch], client: Client, queue: str, key: str) -> Sent:
    total = NOTHING
    for number, chunk in enumerate(chunks(drafts)):
        try:
            sent = client.arrow.send(queue, chunk, f"{key}/{number}")
        except SendConflict as error:
            error.args = (f"{error}: these are not the rows that were sent before under the same key",)
            raise
        total += Sent(sent.count, 0, sent.count) if sent.repeated else Sent(sent.count, sent.stored, 0)
    return total


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches, cut where the place changes."""
    for batch in batches:
        runs = pc.run_end_encode(batch[_PLACE])
        start = 0
        for stop, name in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            yield name, batch.slice(start, stop - start)
            start = stop


# Bodies


def body_bytes(messages: DataFrame) -> Column:
    """The body as bytes, whichever way it was drained; a body that did not decode as it came."""
    kind = messages.schema["body"].dataType
    body = F.col("body") if isinstance(kind, BinaryType) else _as_bytes(F.col("body"), kind)
    return F.coalesce(body, F.col("bad_record")) if "bad_record" in messages.columns else body


def _as_bytes(column: Column, kind: DataType) -> Column:
    """Text as it is, what has parts as JSON, and anything else as Spark writes it."""
    if isinstance(kind, StructType | ArrayType | MapType | VariantType):
        column = F.to_json(column, _AS_JSON)
    return column.cast("string").cast("binary")
