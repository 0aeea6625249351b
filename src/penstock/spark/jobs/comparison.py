"""What an audit reads rows for: no message is in the lakes twice, and each has a ledger row that says it was processed.

Only files that are new are read, and of the others those whose ids lie around new ones: ids go up with time, and a
manifest says between which its file's are. Each file is first looked at by itself, in a task that may find it damaged;
what can be read is then compared by Spark.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client
from penstock.spark.jobs.ledger import read_ledger
from penstock.spark.lake import Lake
from penstock.spark.manifest import LakeFile, Manifest, Place
from penstock.spark.server import Server
from penstock.spark.storage import Storage
from penstock.spark.tasks import is_connect, mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, Row, SparkSession

_SHOWN = 5
# Messages of a finding by which the next audit sees whether something has changed.
_KEPT_IDS = 20
_MESSAGE = ("id", "queue", "consumer", "shipment", "claimed_at")
_ROW = ("number", "queue", "id", "outcome", "sent_at", "finished_at")
_READ_BYTES = 16 * 1024 * 1024
_TASKS_PER_SLICE = 4
# For less a Spark job would take longer.
_LOOKED_AT_HERE = 100_000
_COUNTED_HERE = 20_000

Bounds = Sequence[tuple[str, str]]


class Looked(Struct, frozen=True):
    """What one file is. `touched` are those of the bounds given that hold an id of it."""

    rows: int = 0
    sha256: str | None = None
    touched: list[int] = []
    error: str | None = None


@dataclass(frozen=True)
class Located:
    """A manifest, and the lake that it is in; whether its files are there, and whether its rows are in others."""

    lake: Lake
    manifest: Manifest
    is_whole: bool = True
    is_merged: bool = False

    @property
    def place(self) -> Place:
        return self.manifest.place


@dataclass(frozen=True)
class Twice:
    messages: int
    shown: str
    places: list[Place]


@dataclass
class Lacking:
    """Drained messages of one queue without a row in the ledger."""

    messages: int = 0
    ids: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def look_at(
    spark: SparkSession, slices: int, which: Sequence[Located], bounds: Bounds, is_deep: bool
) -> dict[tuple[str, str], Looked]:
    """Each file of these, by its lake and path."""
    found: dict[tuple[str, str], Looked] = {}
    for lake, files in _by_lake(which).items():
        if sum(file.rows for file in files) <= _LOOKED_AT_HERE and not is_connect(spark):
            found |= {(lake.address, it.path): _look(lake.storage, it.path, bounds, is_deep) for it in files}
            continue
        tasks = max(1, min(len(files), slices * _TASKS_PER_SLICE))
        listed = spark.createDataFrame([(file.path,) for file in files], "path string").repartition(tasks)
        seen = mapped(listed, _looking(lake.storage, bounds, is_deep), "path string, told binary").collect()
        found |= {(lake.address, row.path): msgspec.json.decode(bytes(row.told), type=Looked) for row in seen}
    return found


def kept_files(one: Located) -> list[LakeFile]:
    return [file for file in one.manifest.files if file.retired_at is None]


def _own_files(one: Located) -> list[LakeFile]:
    """Those with its rows alone."""
    return [] if one.is_merged else kept_files(one)


def damages(which: Sequence[Located], looked: Mapping[tuple[str, str], Looked]) -> list[tuple[Place, str]]:
    """The files that are not as their manifests say."""
    found = []
    for one in which:
        for file in _own_files(one):
            it = looked[one.lake.address, file.path]
            address = one.lake.storage.address(file.path)
            if it.error is not None:
                found.append((one.place, f"{address} cannot be read: {it.error}"))
            elif it.rows != file.rows:
                found.append((one.place, f"{address} has {it.rows:,} rows, but its manifest says {file.rows:,}"))
            elif it.sha256 is not None and it.sha256 != file.sha256:
                found.append((one.place, f"{address} is not the file that was written: its SHA-256 is another"))
    return found


def _by_lake(which: Sequence[Located]) -> dict[Lake, list[LakeFile]]:
    files: dict[Lake, list[LakeFile]] = {}
    for one in which:
        files.setdefault(one.lake, []).extend(_own_files(one))
    return files


def _looking(
    storage: Storage, bounds: Bounds, is_deep: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch["path"].to_pylist():
                looked = _look(storage, path, bounds, is_deep)
                yield pa.RecordBatch.from_pydict({"path": [path], "told": [msgspec.json.encode(looked)]})

    return look


def _look(storage: Storage, path: str, bounds: Bounds, is_deep: bool) -> Looked:
    rows, touched = 0, set[int]()
    try:
        with storage.open(path) as source:
            digest = _digest(source) if is_deep else None
            file = pq.ParquetFile(source)
            key = "number" if "number" in file.schema_arrow.names else "id"
            for batch in file.iter_batches(columns=[key]):
                rows += batch.num_rows
                if bounds and key == "id":
                    touched |= _touched(sorted(batch[key].to_pylist()), bounds)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        return Looked(error=str(error).partition("\n")[0])
    return Looked(rows, digest, sorted(touched))


def _digest(source: pa.NativeFile) -> str:
    digest = hashlib.sha256()
    while data := source.read(_READ_BYTES):
        digest.update(data)
    source.seek(0)
    return digest.hexdigest()


def _touched(ids: Sequence[str], bounds: Bounds) -> set[int]:
    """A message that was long on its way makes a file reach far back: what counts is whether an id lies there."""
    first, last = ids[0], ids[-1]
    found = set()
    for at, (least, most) in enumerate(bounds):
        if least <= last and first <= most and ids[bisect_left(ids, least)] <= most:
            found.add(at)
    return found


@dataclass
class RowComparison:
    """Of rows, by Spark."""

    spark: SparkSession
    server: Server
    held: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        for frame in self.held:
            frame.unpersist()

    def live(self, client: Client, queue: str, expected: int) -> int:
        """How many messages a queue holds, counted one by one."""
        if expected > _COUNTED_HERE:
            return self.server.read(self.spark, queue).select("id").distinct().count()
        found: set[str] = set()
        after: str | None = None
        while True:
            peeked = client.arrow.peek(queue, after=after)
            found.update(peeked.batch["id"].to_pylist())
            after = peeked.after
            if after is None:
                return len(found)

    def twice(self, new: Sequence[Located], old: Sequence[Located]) -> Twice | None:
        """The messages of the new files that are in them more than once, or in one of the old as well."""
        rows = self._messages(new).withColumn("is_new", F.lit(True))
        if old:
            near = self._messages(old).where(F.col("id").between(*_bounds(new)))
            rows = rows.unionByName(near.withColumn("is_new", F.lit(False)))
        counted = rows.groupBy("id").agg(F.count(F.lit(1)).alias("times"), F.max("is_new").alias("is_new"))
        repeated = counted.where("times > 1 AND is_new").select("id")
        number = repeated.count()
        if not number:
            return None
        where = F.array_sort(F.collect_set(F.format_string("%s/%s/%d", "queue", "consumer", "shipment")))
        found = rows.join(repeated, "id").persist()
        shown = found.groupBy("id").agg(where.alias("places")).orderBy("id").limit(_SHOWN).collect()
        places = _places(found)
        found.unpersist()
        return Twice(number, "; ".join(f"{row.id} in {', '.join(row.places)}" for row in shown), places)

    def merged(self, which: Sequence[Located]) -> list[tuple[Place, str]]:
        """Those of which a table has not as many rows as their manifests say."""
        found = []
        for lake in {one.lake: None for one in which}:
            shipments = [one.place for one in which if one.lake is lake and one.place.queue is not None]
            exports = [one.place for one in which if one.lake is lake and one.place.queue is None]
            rows: dict[Place, int] = {}
            if shipments:
                messages = _by_place(lake.read_messages(*_MESSAGE, places=shipments)).count().collect()
                rows |= {_place(row): row["count"] for row in messages}
            if exports:
                numbers = lake.read_ledger("consumer", "export", "exported_at", places=exports)
                counted = numbers.groupBy("consumer", "export", F.unix_millis("exported_at").alias("at")).count()
                rows |= {Place(row.consumer, row.export, row["at"]): row["count"] for row in counted.collect()}
            for one in which:
                number, kept = rows.get(one.place, 0), one.manifest.kept
                if one.lake is lake and number != kept:
                    text = f"has {number:,} rows in the table, but its manifest says {kept:,}"
                    found.append((one.place, f"{lake.table(one.place.root).described(one.place)} {text}"))
        return found

    def ledger(self, exports: Sequence[Located], is_whole: bool, after: int, through: int) -> DataFrame | None:
        """The ledger's rows with numbers above `after`: those in lakes, and up to `through` those in the server.

        `is_whole` says that the exports lack none of the rows up to their last, so that the server is asked for later
        ones only: of those that are in a lake it may free some meanwhile. None where there are no rows."""
        wanted = [one for one in exports if most_of(one) > after]
        parts = [
            lake.read_ledger(*_ROW, places=[one.place for one in wanted if one.lake is lake])
            for lake in {one.lake: None for one in wanted}
        ]
        start = max([after, *map(most_of, exports)]) if is_whole else after
        if through > start:
            # It is read more than once, and comes over HTTP.
            self.held.append(read_ledger(self.spark, self.server, *_ROW, after=start, through=through).persist())
            parts.append(self.held[-1])
        if not parts:
            return None
        rows = reduce(type(parts[0]).unionByName, parts).where(F.col("number") > after)
        return rows if is_whole else rows.dropDuplicates(["number", "queue", "id"])

    def lacking(
        self,
        drained: Sequence[Located],
        rows: DataFrame | None,
        through: int,
        earlier: Callable[[], DataFrame | None],
    ) -> tuple[dict[str, Lacking], set[Place]]:
        """Messages of settled shipments that no row says were processed, by queue; and the shipments that are only just
        being settled.

        An end is decided before the rows of all messages are written. So what has no row among those given is looked
        for among the messages that are there, and then among the rows that have been written since. At last it is
        looked for among `earlier` rows: a file that was replaced is new, but not what is in it."""
        lacking = self._messages(drained)
        if rows is not None:
            lacking = lacking.join(_processed(rows), ["queue", "id"], "left_anti")
        lacking = lacking.persist()
        try:
            if not lacking.take(1):
                return {}, set()
            unfinished: set[Place] = set()
            for queue in sorted({one.manifest.queue or "" for one in drained}):
                of_queue = lacking.where(F.col("queue") == queue)
                if of_queue.take(1):
                    unfinished |= self._still_there(queue, of_queue)
            later = read_ledger(self.spark, self.server, *_ROW, after=through)
            left = lacking.join(_processed(later), ["queue", "id"], "left_anti").persist()
            self.held.append(left)
            before = earlier() if left.take(1) else None
            if before is not None:
                left = left.join(_processed(before), ["queue", "id"], "left_anti")
            found: dict[str, Lacking] = {}
            for row in _by_place(left).agg(F.count(F.lit(1)).alias("n"), F.min("id").alias("id")).collect():
                place = _place(row)
                if place not in unfinished:
                    one = found.setdefault(row.queue, Lacking())
                    one.messages += row.n
                    one.ids = sorted([*one.ids, row.id])[:_KEPT_IDS]
                    one.places.append(place)
            return found, unfinished
        finally:
            lacking.unpersist()

    def _still_there(self, queue: str, lacking: DataFrame) -> set[Place]:
        there = self.server.read(self.spark, queue).select("id")
        return set(_places(lacking.join(there, "id", "left_semi")))

    def has_row_of(self, ids: Sequence[str], exports: Sequence[Located]) -> bool:
        """Whether one of these messages has a row that says it was processed, in the server or in these exports."""
        with self.server.client() as client:
            if any(row.outcome == "processed" for one in ids for row in client.ledger(id=one)):
                return True
        rows = self.ledger(exports, True, 0, 0)
        return rows is not None and bool(rows.where(F.col("id").isin(*ids) & (F.col("outcome") == "processed")).take(1))

    def _messages(self, which: Sequence[Located]) -> DataFrame:
        frames = [
            lake.read_messages(*_MESSAGE, places=[one.place for one in which if one.lake is lake])
            for lake in {one.lake: None for one in which}
        ]
        return reduce(type(frames[0]).unionByName, frames)


def _bounds(which: Sequence[Located]) -> tuple[str, str]:
    """Between them are all ids, so that Parquet's readers can skip others."""
    files = [file for one in which for file in kept_files(one)]
    return min(str(file.least) for file in files), max(str(file.most) for file in files)


def _processed(rows: DataFrame) -> DataFrame:
    return rows.where("outcome = 'processed'").select("queue", "id")


def _by_place(rows: DataFrame) -> GroupedData:
    return rows.withColumn("at", F.unix_millis("claimed_at")).groupBy("queue", "consumer", "shipment", "at")


def _place(row: Row) -> Place:
    return Place(row.consumer, row.shipment, row["at"], row.queue)


def _places(rows: DataFrame) -> list[Place]:
    return sorted(map(_place, _by_place(rows).count().collect()))


def most_of(one: Located) -> int:
    """The last number of an export's rows."""
    return max((file.most for file in one.manifest.files if isinstance(file.most, int)), default=0)


def chain_of(
    exports: Sequence[Located], after: int, there: Collection[Place], is_known: Callable[[Place], bool]
) -> list[Located]:
    """The exports of one consumer with all rows above `after` up to their last, if there are such: without a gap, and
    of the server's ledger. Of what is there, some may be too old to be read."""
    best: list[Located] = []
    for consumer in {one.place.consumer for one in exports}:
        chain = sorted((one for one in exports if one.place.consumer == consumer), key=lambda it: it.place)
        last = chain[-1].place
        first = next((one.place.number for one in chain if most_of(one) > after), last.number)
        numbers = [one.place.number for one in chain if one.place.number >= first]
        before = {place.number for place in there if place.consumer == consumer}
        is_whole = numbers == list(range(first, last.number + 1)) and (first == 1 or first - 1 in before)
        if is_whole and is_known(last) and (not best or most_of(best[-1]) < most_of(chain[-1])):
            best = chain
    return best
