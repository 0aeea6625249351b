"""The lake: where drained messages and archived ledger rows are, and how they are read.

    <lake>/messages/queue=<q>/consumer=<c>/shipment=<n>/<claimed_at>.parquet
    <lake>/ledger/consumer=<c>/export=<n>/<claimed_at>.parquet
    <lake>/_manifests/messages/queue=<q>/consumer=<c>/<n>-<claimed_at>.json
    <lake>/_manifests/ledger/consumer=<c>/<n>-<claimed_at>.json

A shipment is one file, and its name says which claim of which number it holds, so any task that writes it writes the
same rows to the same place: a task that is tried again, or two drains at once, replace a file by its like. It appears
in one step, on disks and on object stores alike, so a reader that knows nothing of all this, such as a glob over
`*.parquet`, sees whole shipments only. When the file is in place its manifest is put; only what has a manifest is
settled, and only that is what the jobs read. Nothing here talks to a server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_string

from penstock.spark.errors import JobFailed
from penstock.spark.storage import Storage
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

MESSAGES = "messages"
LEDGER = "ledger"
MANIFESTS = "_manifests"
# Files that a task reads one after the other where Spark itself cannot.
_FILES_PER_TASK = 8
# What Hive, and so Spark, does not leave as it is in the name of a partition's folder.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_MANIFEST = re.compile(
    r"(?:queue=(?P<queue>[^/]*)/)?consumer=(?P<consumer>[^/]*)/(?P<number>\d+)-(?P<claimed>\d+)\.json"
)

T = TypeVar("T")


def escaped(name: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


@dataclass(frozen=True, order=True)
class Place:
    """One claim of a shipment's or an export's number. An export has no queue."""

    consumer: str
    number: int
    claimed_at: int
    queue: str | None = None

    @property
    def folder(self) -> str:
        last = f"export={self.number}" if self.queue is None else f"shipment={self.number}"
        return f"{self._of_consumer()}/{last}"

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.claimed_at}.parquet"

    @property
    def manifest(self) -> str:
        return f"{MANIFESTS}/{self._of_consumer()}/{self.number}-{self.claimed_at}.json"

    def _of_consumer(self) -> str:
        if self.queue is None:
            return f"{LEDGER}/consumer={escaped(self.consumer)}"
        return f"{MESSAGES}/queue={escaped(self.queue)}/consumer={escaped(self.consumer)}"


class LakeFile(Struct, frozen=True, omit_defaults=True):
    """`least` and `most` are the bounds of its ids, or of its numbers where it holds rows of the ledger. Its rows are
    in the lake no longer if `retired_at` is there."""

    path: str
    rows: int
    bytes: int
    sha256: str
    least: str | int | None = None
    most: str | int | None = None
    retired_at: int | None = None


class Manifest(Struct, frozen=True, omit_defaults=True):
    """What a shipment or an export came to. `bad` is how many of its rows have a body that did not decode; `outcomes`
    has the number of a ledger's rows by queue and outcome."""

    consumer: str
    number: int
    claimed_at: int
    rows: int
    files: tuple[LakeFile, ...]
    queue: str | None = None
    bad: int = 0
    outcomes: dict[str, dict[str, int]] = {}

    @property
    def place(self) -> Place:
        return Place(self.consumer, self.number, self.claimed_at, self.queue)

    @property
    def kept(self) -> int:
        """How many of its rows the lake is to have."""
        return sum(file.rows for file in self.files if file.retired_at is None)

    @property
    def is_retired(self) -> bool:
        return bool(self.files) and all(file.retired_at is not None for file in self.files)


class Lake:
    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.storage = Storage.at(root)
        self._do(self.storage.check, None)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return self.storage.root

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

    def archivists(self) -> list[str]:
        """Every consumer with rows of the ledger."""
        return sorted({place.consumer for place in self.exported()})

    def manifest(self, place: Place) -> Manifest | None:
        return self.do(partial(read_manifest, self.storage, place), Manifest | None)  # type: ignore[arg-type]

    def files(self, queue: str) -> set[str]:
        """The paths of all files of a queue's messages and of their manifests, whatever they are."""
        below = f"{MESSAGES}/queue={escaped(queue)}"
        found = self.do(partial(_paths, self.storage, (below, f"{MANIFESTS}/{below}")), list[str])
        return set(found)

    def remove(self, place: Place) -> None:
        """Its manifest first: from then on no job reads the file."""
        self.do(partial(_remove, self.storage, place), None)  # type: ignore[arg-type]

    def clear_staging(self) -> None:
        self.do(self.storage.clear_staging, None)  # type: ignore[arg-type]

    def _places(self, below: str) -> list[Place]:
        return [Place(*known) for known in self.do(partial(_places_below, self.storage, below), list[Any])]

    # Rows

    def read_messages(self, *columns: str, places: Sequence[Place] | None = None) -> DataFrame:
        """The drained messages, or only these columns of them, or only those in these places. A `body` that was drained
        as JSON or text is as it was drained; `bad_record` is there whether or not anything was bad."""
        wanted = columns or (*MESSAGE_COLUMNS, "bad_record", *_PLACE_OF_MESSAGE)
        types = MESSAGE_COLUMNS | {"bad_record": "binary"} | _PLACE_OF_MESSAGE
        chosen = self.shipped() if places is None else places
        if "body" in wanted and chosen:
            types["body"] = self.do(partial(_body_type, self.storage, _latest(chosen)), str)
        return self._read(MESSAGES, chosen, types, _PLACE_OF_MESSAGE, wanted)

    def read_ledger(self, *columns: str, places: Sequence[Place] | None = None) -> DataFrame:
        types = LEDGER_COLUMNS | _PLACE_OF_ROW
        chosen = self.exported() if places is None else places
        return self._read(LEDGER, chosen, types, _PLACE_OF_ROW, columns or tuple(types))

    def _read(
        self,
        root: str,
        places: Sequence[Place],
        types: dict[str, str],
        of_place: dict[str, str],
        wanted: tuple[str, ...],
    ) -> DataFrame:
        # Spark would guess at the partitions' types: a queue called 007 is not the number 7.
        asked = {name: types[name] for name in dict.fromkeys((*wanted, *of_place))}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in asked.items())
        if not places:
            return self._spark.createDataFrame([], schema).select(*wanted)
        if self._is_readable_by_spark():
            reader = self._spark.read.schema(schema).option("basePath", self._for_spark(root))
            return reader.parquet(*(self._for_spark(place.file) for place in places)).select(*wanted)
        return self._read_in_tasks(places, schema).select(*wanted)

    def _read_in_tasks(self, places: Sequence[Place], schema: str) -> DataFrame:
        """For storage that Arrow reaches and this Spark does not."""
        known = [(place.file, place.queue, place.consumer, place.number) for place in places]
        listed = self._spark.createDataFrame(known, "file string, queue string, consumer string, number bigint")
        tasks = -(-len(known) // _FILES_PER_TASK)
        kinds = to_arrow_schema(_as_struct(schema), timezone="UTC")
        storage = self.storage

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    yield from _rows_of(storage, row, kinds)

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


def read_manifest(storage: Storage, place: Place) -> Manifest | None:
    data = storage.read(place.manifest)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise JobFailed(f"{storage.address(place.manifest)} is not a manifest: {error}") from None


def _paths(storage: Storage, folders: Sequence[str]) -> list[str]:
    return [file.path for folder in folders for file in storage.files(folder)]


def _remove(storage: Storage, place: Place) -> None:
    storage.remove(place.manifest)
    storage.remove(place.file)
    storage.remove_empty(place.folder)


def _places_below(storage: Storage, below: str) -> list[tuple[str, int, int, str | None]]:
    """Of the manifests there, as the fields of a place."""
    found = []
    for file in storage.files(f"{MANIFESTS}/{below}"):
        name = _MANIFEST.search(file.path)
        if name is not None:
            queue = name["queue"] if name["queue"] is None else unquote(name["queue"])
            found.append((unquote(name["consumer"]), int(name["number"]), int(name["claimed"]), queue))
    return sorted(found, key=lambda it: (it[3] or "", *it[:3]))


def _latest(places: Sequence[Place]) -> list[Place]:
    """The last of each queue and consumer, the newest of them first."""
    last = {(place.queue, place.consumer): place for place in sorted(places)}
    return sorted(last.values(), key=lambda place: -place.claimed_at)


def _body_type(storage: Storage, places: Sequence[Place]) -> str:
    """What bodies are: a schema of JSON that has grown since is one with all of its fields."""
    kinds: list[DataType] = []
    for place in places:
        with storage.open(place.file) as file:
            kinds.append(from_arrow_type(pq.read_schema(file).field("body").type))
    kind = kinds[0]
    for other in kinds[1:]:
        kind = _merged(kind, other)
    return kind.simpleString()


def _merged(kind: DataType, other: DataType) -> DataType:
    if isinstance(kind, StructType) and isinstance(other, StructType):
        known = {field.name: field for field in kind}
        for field in other:
            before = known.get(field.name)
            merged = field.dataType if before is None else _merged(before.dataType, field.dataType)
            known[field.name] = StructField(field.name, merged)
        return StructType(list(known.values()))
    if kind != other:
        raise JobFailed(
            f"the lake holds bodies of two kinds, {kind.simpleString()} and {other.simpleString()}: "
            "drain to one lake in one way"
        )
    return kind


def _rows_of(storage: Storage, place: dict[str, Any], kinds: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file in these columns: those that only its place knows are added, and those that it lacks null."""
    constants = {"shipment": place["number"], "export": place["number"], "consumer": place["consumer"]}
    if place["queue"] is not None:
        constants["queue"] = place["queue"]
    with storage.open(place["file"]) as source:
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
