"""The lake: where drained messages and archived ledger rows are, and how they are read.

    <lake>/messages/…       a table: plain Parquet files, or one of Delta Lake (`penstock.spark.tables`)
    <lake>/ledger/…         another, of the same format
    <lake>/_manifests/…     one for each shipment and export in them

When the rows of a shipment are in the table its manifest is put; only what has a manifest is settled. Nothing here
talks to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

from penstock.spark.errors import JobFailed
from penstock.spark.manifest import (
    LEDGER,
    MESSAGES,
    Manifest,
    Place,
    escaped,
    places_below,
    read_manifest,
)
from penstock.spark.storage import Storage
from penstock.spark.tables import Table, TableFile, chosen_format, format_of, table_of
from penstock.spark.tasks import in_task, is_connect, mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE_COLUMNS = {
    "id": "string",
    "body": "binary",
    "content_type": "string",
    "attributes": "map<string,string>",
    "sent_at": "timestamp",
    "receives": "int",
    "claimed_at": "timestamp",
    # Null in what was drained before there were groups.
    "group": "string",
}
_PLACE_OF_MESSAGE = {"queue": "string", "consumer": "string", "shipment": "bigint"}
LEDGER_COLUMNS = {
    "number": "bigint",
    "queue": "string",
    "id": "string",
    "sent_at": "timestamp",
    "first_claimed_at": "timestamp",
    "last_claimed_at": "timestamp",
    "finished_at": "timestamp",
    "receives": "int",
    "outcome": "string",
    "size": "bigint",
    "body_hash": "binary",
    "content_type": "string",
    "body": "binary",
    "exported_at": "timestamp",
}
_PLACE_OF_ROW = {"consumer": "string", "export": "bigint"}

# Files that a task reads one after the other where Spark itself cannot.
_FILES_PER_TASK = 8

T = TypeVar("T")


class Lake:
    """`format` is what its tables are to be; without it they are as they are."""

    def __init__(self, spark: SparkSession, root: str, format: str | None = None) -> None:  # noqa: A002
        self._spark = spark
        self._wanted = format
        self.storage = Storage.at(root)
        self.do(self.storage.check, None)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return self.storage.root

    @property
    def format(self) -> str:
        """Raises JobFailed if it is not the one that was wanted."""
        return self.do(partial(chosen_format, self.storage, self._wanted), str)

    def check_exists(self) -> None:
        """Raises JobFailed if nothing was ever drained or archived there."""
        if self.do(partial(format_of, self.storage), str | None) is None:  # type: ignore[arg-type]
            raise JobFailed(f"there is no lake at {self.address}")

    # What is there

    def shipped(self, queue: str | None = None, consumer: str | None = None) -> list[Place]:
        """The shipments that are in the lake: all, or those of a queue, or of a consumer."""
        below = MESSAGES
        if queue is not None:
            below += f"/queue={escaped(queue)}"
            below += "" if consumer is None else f"/consumer={escaped(consumer)}"
        return self._places(below)

    def exported(self, consumer: str | None = None) -> list[Place]:
        """The exports that are in the lake: all, or those of a consumer."""
        return self._places(LEDGER if consumer is None else f"{LEDGER}/consumer={escaped(consumer)}")

    def retired(self, root: str = MESSAGES) -> list[Place]:
        """The shipments, or the exports, of which nothing is left in the lake because it was old enough."""
        return self._places(root, retired=True)

    def archivists(self) -> list[str]:
        """Every consumer with rows of the ledger."""
        return sorted({place.consumer for place in self.exported()})

    def manifest(self, place: Place) -> Manifest | None:
        """Also of what was retired."""
        return self.do(partial(read_manifest, self.storage, place), Manifest | None)  # type: ignore[arg-type]

    def held(self, places: Sequence[Place]) -> list[Place]:
        """Those shipments of which there is anything, with a manifest or without."""
        return self.do(partial(self.table(MESSAGES).held, places), list[Place]) if places else []

    def remove(self, place: Place) -> None:
        self.do(partial(self.table(place.root).remove, place), None)  # type: ignore[arg-type]

    def clear_staging(self) -> None:
        self.do(self.storage.clear_staging, None)  # type: ignore[arg-type]

    def table(self, root: str) -> Table:
        return table_of(self.storage, root, self.format)

    def _places(self, below: str, *, retired: bool = False) -> list[Place]:
        return self.do(partial(places_below, self.storage, below, retired=retired), list[Place])

    # Rows

    def read_messages(self, *columns: str, places: Sequence[Place] | None = None) -> DataFrame:
        """The drained messages, or only these columns of them, or only those in these places. A `body` that was drained
        as JSON or text is as it was drained; `bad_record` is there whether or not anything was bad."""
        wanted = columns or (*MESSAGE_COLUMNS, "bad_record", *_PLACE_OF_MESSAGE)
        types = MESSAGE_COLUMNS | {"bad_record": "binary"} | _PLACE_OF_MESSAGE
        table = self.table(MESSAGES)
        if "body" in wanted:
            body = self.do(partial(table.body_type, places), str | None)  # type: ignore[arg-type]
            types["body"] = body or types["body"]
        return self._read(table, places, types, _PLACE_OF_MESSAGE, "claimed_at", wanted)

    def read_ledger(self, *columns: str, places: Sequence[Place] | None = None) -> DataFrame:
        types = LEDGER_COLUMNS | _PLACE_OF_ROW
        return self._read(self.table(LEDGER), places, types, _PLACE_OF_ROW, "exported_at", columns or tuple(types))

    def _read(
        self,
        table: Table,
        places: Sequence[Place] | None,
        types: dict[str, str],
        of_place: dict[str, str],
        claimed_at: str,
        wanted: tuple[str, ...],
    ) -> DataFrame:
        # Spark would guess at the partitions' types: a queue called 007 is not the number 7.
        asked = {name: types[name] for name in dict.fromkeys((*wanted, *of_place, claimed_at))}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in asked.items())
        files = self.do(partial(table.files, places), list[TableFile])
        if not files:
            return self._spark.createDataFrame([], schema).select(*wanted)
        if self._is_readable_by_spark():
            reader = self._spark.read.schema(schema).option("basePath", self._for_spark(table.root))
            rows = reader.parquet(*(self._for_spark(file.path) for file in files))
        else:
            rows = self._read_in_tasks(files, schema)
        if table.mixes_places and places is not None:
            rows = self._only(rows, places, claimed_at)
        return rows.select(*wanted)

    def _only(self, rows: DataFrame, places: Sequence[Place], claimed_at: str) -> DataFrame:
        number = "shipment" if "shipment" in rows.columns else "export"
        known = [(place.queue, place.consumer, place.number, place.claimed_at) for place in places]
        of = self._spark.createDataFrame(known, "q string, c string, n bigint, at bigint")
        held = (F.col("consumer") == of.c) & (F.col(number) == of.n) & (F.unix_millis(claimed_at) == of.at)
        if number == "shipment":
            held &= F.col("queue") == of.q
        return rows.join(F.broadcast(of), held, "left_semi")

    def _read_in_tasks(self, files: Sequence[TableFile], schema: str) -> DataFrame:
        """For storage that Arrow reaches and this Spark does not."""
        listed = self._spark.createDataFrame([(msgspec.json.encode(file),) for file in files], "file binary")
        tasks = -(-len(files) // _FILES_PER_TASK)
        kinds = to_arrow_schema(_as_struct(schema), timezone="UTC")
        storage = self.storage

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch["file"].to_pylist():
                    yield from _rows_of(storage, msgspec.json.decode(row, type=TableFile), kinds)

        return mapped(listed.repartition(tasks), read, schema)

    def _is_readable_by_spark(self) -> bool:
        scheme = self.storage.scheme
        if scheme == "file":
            return True
        if is_connect(self._spark):
            return scheme == "hdfs"
        jvm: Any = self._spark._jvm
        configuration = self._spark._jsparkSession.sessionState().newHadoopConf()
        try:
            jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
        except Exception:
            return False
        return True

    def _for_spark(self, path: str) -> str:
        address = self.storage.address(path)
        return f"file:{address}" if self.storage.scheme == "file" else address

    def do(self, look: Callable[[], T], kind: type[T]) -> T:
        """Where the storage is in reach: here, or for a session of Spark Connect on its cluster."""
        return in_task(self._spark, look, kind) if is_connect(self._spark) else look()


def _rows_of(storage: Storage, known: TableFile, kinds: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file in these columns: those that only its path tells are added, and those that it lacks null."""
    constants = known.constants
    with storage.open(known.path) as source:
        file = pq.ParquetFile(source)
        there = [name for name in kinds.names if name in file.schema_arrow.names and name not in constants]
        for batch in file.iter_batches(columns=there):
            rows = batch.num_rows
            arrays = [
                batch[field.name].cast(field.type)
                if field.name in there
                else pa.repeat(pa.scalar(constants.get(field.name), field.type), rows)
                for field in kinds
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _as_struct(schema: str) -> StructType:
    kind = _parse_datatype_string(schema)
    assert isinstance(kind, StructType)  # noqa: S101
    return kind
