"""Puts a shipment or an export into the lake: what one Spark task does, with Arrow, from the server to the file.

Its rows come page by page, the next page while this one is written, and leave as row groups: memory holds a few pages,
however large the shipment is. Doing it again, or twice at the same time, comes to the same file.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType, _parse_datatype_string

from penstock.client import ClientError, Export, Shipment, ShipmentEnded
from penstock.spark.codec import decoder_of
from penstock.spark.errors import ShipmentGone
from penstock.spark.lake import LEDGER_COLUMNS, LakeFile, Manifest, Place, read_manifest
from penstock.spark.server import Server
from penstock.spark.storage import Storage
from penstock.spark.tasks import in_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A row group: large enough for readers, small enough to be held.
_GROUP_ROWS = 128 * 1024
_GROUP_BYTES = 64 * 1024 * 1024
_PAGES_AHEAD = 2
_INSTANT = pa.timestamp("us", "UTC")
# What repeats from row to row. An attempt to find repetitions among ids and bodies takes longer than writing them.
_REPEATED = ["content_type", "receives", "claimed_at", "group", "queue", "outcome", "exported_at"]
_KEPT = ("id", "body", "content_type", "attributes", "sent_at", "receives", "claimed_at", "group")

_BYTES = BinaryType()

T = TypeVar("T")


@dataclass(frozen=True)
class Body:
    """What the lake's column `body` is: `binary`, `text`, or `json`, values of a schema (`a int, b string`)."""

    format: str = "binary"
    schema: str | None = None

    def kind(self) -> DataType:
        """On the driver: only Spark's Java side can parse a type."""
        if self.format == "json":
            if self.schema is None:
                raise ValueError("json needs a schema")
            return _type_of(self.schema)
        return StringType() if self.format == "text" else BinaryType()


class Landed(Struct, frozen=True):
    """What became of it: it is in the lake, or it had ended before (`ended` says how), or it cannot be (`error`)."""

    manifest: Manifest | None = None
    ended: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Landing:
    """What a task has to know. It can be pickled."""

    server: Server
    storage: Storage
    batch: Shipment | Export
    format: str = "binary"
    kind: DataType = _BYTES

    @property
    def place(self) -> Place:
        batch = self.batch
        return Place(
            batch.consumer, batch.number, batch.claimed_at, batch.queue if isinstance(batch, Shipment) else None
        )

    @property
    def rows(self) -> int:
        return self.batch.messages if isinstance(self.batch, Shipment) else self.batch.rows

    def run(self, spark: SparkSession) -> Landed:
        return in_task(spark, self.land, Landed)

    def land(self) -> Landed:
        """In the task. What the server answers is told, not raised: requests were retried already, so that another
        attempt would not help."""
        place, storage = self.place, self.storage
        known = read_manifest(storage, place)
        if known is not None and all(storage.size(file.path) == file.bytes for file in known.files):
            return Landed(known)
        others = [name for name in storage.names(place.folder) if name != f"{place.claimed_at}.parquet"]
        if others:
            return Landed(
                error=f"{storage.address(place.folder)} holds rows of another claim of number {place.number}: the "
                "queue or the store was created again. Use another lake or another consumer"
            )
        try:
            manifest = self._write()
        except ShipmentEnded as error:
            return Landed(ended=error.how)
        except ClientError as error:
            return Landed(error=str(error))
        return Landed(manifest)

    def _write(self) -> Manifest:
        place, storage = self.place, self.storage
        with self.server.client() as client:
            if isinstance(self.batch, Shipment):
                pages = client.arrow.read_shipment(self.batch, 0, self.batch.messages)
                shaped = partial(_messages, self)
            else:
                pages = client.arrow.read_export(self.batch, self.batch.after, self.batch.through)
                shaped = partial(_ledger_rows, self)
            tally = _Tally()
            with storage.writing(place.file) as name:
                _write_file(name, map(shaped, ahead(pages, _PAGES_AHEAD)), tally)
                if tally.rows != self.rows:
                    raise ShipmentGone(f"of {self.rows:,} rows only {tally.rows:,} were read", "purged")
                size, digest = Path(name).stat().st_size, _digest(name)
        file = LakeFile(place.file, tally.rows, size, digest, tally.least, tally.most)
        manifest = Manifest(
            place.consumer, place.number, place.claimed_at, tally.rows, (file,), place.queue, tally.bad, tally.outcomes
        )
        storage.put(place.manifest, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        return manifest


class _Tally:
    """What is known of the rows of a file when they have been written."""

    def __init__(self) -> None:
        self.rows = 0
        self.bad = 0
        self.least: str | int | None = None
        self.most: str | int | None = None
        self.outcomes: dict[str, dict[str, int]] = {}

    def add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        key = "id" if "number" not in rows.column_names else "number"
        bounds = pc.min_max(rows[key]).as_py()
        self.least = bounds["min"] if self.least is None else min(self.least, bounds["min"])
        self.most = bounds["max"] if self.most is None else max(self.most, bounds["max"])
        if "bad_record" in rows.column_names:
            self.bad += rows.num_rows - rows["bad_record"].null_count
        if key == "number":
            for row in rows.group_by(["queue", "outcome"]).aggregate([([], "count_all")]).to_pylist():
                of_queue = self.outcomes.setdefault(row["queue"], {})
                of_queue[row["outcome"]] = of_queue.get(row["outcome"], 0) + row["count_all"]


def _write_file(name: str, batches: Iterator[pa.RecordBatch], tally: _Tally) -> None:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    writer: pq.ParquetWriter | None = None

    def flush() -> None:
        nonlocal rows, size, writer
        table = pa.Table.from_batches(held)
        if writer is None:
            repeated = [column for column in _REPEATED if column in table.column_names]
            writer = pq.ParquetWriter(
                name, table.schema, compression="zstd", compression_level=1, use_dictionary=repeated
            )
        writer.write_table(table, row_group_size=_GROUP_ROWS)
        tally.add(table)
        held.clear()
        rows = size = 0

    try:
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                flush()
        if held:
            flush()
    finally:
        if writer is not None:
            writer.close()


def _messages(landing: Landing, page: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that the lake keeps of a message. A body that does not decode is null, and as it came beside it."""
    bodies = page["body"]
    decode = decoder_of(landing.format, landing.kind)
    columns = {name: page[name] for name in _KEPT if name in page.schema.names}
    columns["sent_at"] = page["sent_at"].cast(_INSTANT)
    columns["claimed_at"] = _repeated(landing.batch.claimed_at, page.num_rows)
    if decode is not None:
        columns["body"] = decode(bodies, to_arrow_type(landing.kind, timezone="UTC"))
        columns["bad_record"] = pc.if_else(columns["body"].is_null(), bodies, pa.scalar(None, bodies.type))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in (*_KEPT, "bad_record") if name in columns})


def _ledger_rows(landing: Landing, page: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: page[name] for name in LEDGER_COLUMNS if name != "exported_at"}
    instants = {name: column.cast(_INSTANT) for name, column in columns.items() if pa.types.is_timestamp(column.type)}
    exported_at = _repeated(landing.batch.claimed_at, page.num_rows)
    return pa.RecordBatch.from_pydict({**columns, **instants, "exported_at": exported_at})


def _repeated(instant: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(instant * 1000, pa.int64()).cast(_INSTANT), rows)


def _digest(name: str) -> str:
    with open(name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ahead(items: Iterator[T], count: int) -> Iterator[T]:
    """The same, but up to `count` of them are fetched by a thread before they are asked for."""
    fetched: queue.Queue[Callable[[], T] | None] = queue.Queue(count)
    stopped = threading.Event()

    def put(item: Callable[[], T] | None) -> bool:
        while not stopped.is_set():
            try:
                fetched.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put(partial(_same, item)):
                    return
        except BaseException as error:
            put(partial(_raised, error))
        put(None)

    thread = threading.Thread(target=fetch, name="pages ahead", daemon=True)
    thread.start()
    try:
        while (item := fetched.get()) is not None:
            yield item()
    finally:
        stopped.set()
        thread.join()


def _same(item: T) -> T:
    return item


def _raised(error: BaseException) -> T:  # type: ignore[type-var]
    raise error


def _type_of(schema: str) -> DataType:
    """`a int, b string` are the fields of a struct; `array<int>` is a type by itself."""
    kind = _parse_datatype_string(schema)
    if isinstance(kind, StructType) and len(kind) == 1 and kind[0].name == "value" and " " not in schema.strip():
        return kind[0].dataType
    return kind
