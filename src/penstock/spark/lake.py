"""The lake: where drained messages and archived ledger rows are, and how they are written and read.

    <lake>/messages/queue=<q>/consumer=<c>/shipment=<n>/part-*.parquet
    <lake>/ledger/consumer=<c>/export=<n>/part-*.parquet

A folder belongs to one shipment or export. It is overwritten until its number is settled, and never after that; the
column `claimed_at` (`exported_at` in the ledger) says to which claim of the number the rows belong.

A batch lands in its folder as a whole or not at all: its rows are written to a staging folder beside it, counted, and
the staging folder is renamed. So a job that dies leaves one that no reader sees, and two jobs that work on the same
number at once cannot spoil each other's work: a folder that has its name is complete. Nothing here talks to a server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark import folders
from penstock.spark.errors import JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

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

_STAGING = "_staging-"
# What Hive, and so Spark, does not leave as it is in the name of a partition's folder.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def escaped(name: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


@dataclass(frozen=True, order=True)
class Place:
    """One shipment's or export's folder. An export has no queue."""

    consumer: str
    number: int
    queue: str | None = None


@dataclass(frozen=True)
class Landed:
    """`bad` is how many of the rows have a body that did not decode."""

    rows: int
    bad: int


class Lake:
    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.root = root.rstrip("/") or root

    # Folders

    @property
    def messages(self) -> str:
        return f"{self.root}/messages"

    @property
    def ledger(self) -> str:
        return f"{self.root}/ledger"

    def folder(self, place: Place) -> str:
        if place.queue is None:
            return f"{self.ledger}/consumer={escaped(place.consumer)}/export={place.number}"
        return f"{self._of_consumer(place.queue, place.consumer)}/shipment={place.number}"

    def numbers(self, queue: str, consumer: str) -> list[int]:
        """The shipments of this consumer that have a folder."""
        return self._numbers(self._of_consumer(queue, consumer), "shipment")

    def exports(self, consumer: str) -> list[int]:
        return self._numbers(f"{self.ledger}/consumer={escaped(consumer)}", "export")

    def shipped(self) -> list[tuple[str, str]]:
        """Every queue and consumer with a folder of messages."""
        found = []
        for queue in self._values(self.messages, "queue"):
            found += [(queue, it) for it in self._values(f"{self.messages}/queue={escaped(queue)}", "consumer")]
        return found

    def archivists(self) -> list[str]:
        """Every consumer with a folder of ledger rows."""
        return self._values(self.ledger, "consumer")

    def remove(self, place: Place) -> None:
        folders.remove(self._spark, self.folder(place))

    def staging(self, place: Place) -> str:
        """A folder beside the place's own, with a new name that readers skip: to be filled and then renamed."""
        parent, _, name = self.folder(place).rpartition("/")
        return f"{parent}/{_STAGING}{name.partition('=')[2]}-{uuid4().hex}"

    def stagings(self, place: Place) -> list[str]:
        """The folders that were being filled for any number of the place's consumer."""
        parent = self.folder(place).rpartition("/")[0]
        return [f"{parent}/{name}" for name in folders.names_in(self._spark, parent) if name.startswith(_STAGING)]

    @staticmethod
    def number_of_staging(folder: str) -> int:
        return int(folder.rpartition("/")[2].removeprefix(_STAGING).partition("-")[0])

    def claimed_at(self, place: Place) -> int | None:
        """To which claim the rows in a folder belong, in milliseconds; None when there are none."""
        folder = self.folder(place)
        if not folders.exists(self._spark, folder):
            return None
        column = "claimed_at" if place.queue is not None else "exported_at"
        reader = self._spark.read.schema(f"{column} timestamp").parquet(folder)
        first = reader.select(F.unix_millis(column).alias("ms")).take(1)
        return first[0].ms if first else None

    # Landing

    def land(self, place: Place, claimed_at: int, rows: int, read: Callable[[], DataFrame]) -> Landed:
        """Write what `read` gives, which must be `rows` rows, unless an earlier run has done it. Raises JobFailed where
        the folder belongs to another claim of the same number."""
        folder = self.folder(place)
        occupied = folders.exists(self._spark, folder)
        if occupied:
            there = self.claimed_at(place)
            if there not in (None, claimed_at):
                raise JobFailed(
                    f"{folder} holds rows of another claim of number {place.number}: the queue or the store was "
                    "created again. Use another lake or another consumer"
                )
            if there is not None:
                found = _counted(self._spark.read.parquet(folder))
                if found.rows == rows:
                    return found
        if folders.is_connect(self._spark):
            landed = _replaced(read(), folder)
            _check(landed, rows, place)
            return landed
        staging = self.staging(place)
        try:
            landed = _written(read(), staging)
            _check(landed, rows, place)
            if occupied:
                folders.remove(self._spark, folder)
            folders.move(self._spark, staging, folder)
        except BaseException:
            folders.remove(self._spark, staging)
            raise
        return landed

    def clear_staging(self, place: Place, but: int | None) -> None:
        """Remove what dead runs left behind. Number `but` is in progress, maybe in another job, and stays."""
        for folder in self.stagings(place):
            if self.number_of_staging(folder) != but:
                folders.remove(self._spark, folder)

    # Rows

    def read_messages(self, *columns: str) -> DataFrame:
        """The drained messages, or only these columns of them. A `body` that was drained as JSON or text is as it was
        drained; `bad_record` is there whether or not anything was bad."""
        wanted = columns or (*MESSAGE_COLUMNS, "bad_record", *_PLACE_OF_MESSAGE)
        types = MESSAGE_COLUMNS | {"bad_record": "binary"} | _PLACE_OF_MESSAGE
        if "body" in wanted:
            types["body"] = self._body_type()
        return self._read(self.messages, types, _PLACE_OF_MESSAGE, wanted)

    def reader(self) -> Callable[[str], DataFrame]:
        """Reads the messages of one file at a time."""
        types = MESSAGE_COLUMNS | {"bad_record": "binary"} | _PLACE_OF_MESSAGE | {"body": self._body_type()}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
        return lambda path: self._spark.read.schema(schema).option("basePath", self.messages).parquet(path)

    def read_ledger(self, *columns: str) -> DataFrame:
        types = LEDGER_COLUMNS | _PLACE_OF_ROW
        return self._read(self.ledger, types, _PLACE_OF_ROW, columns or tuple(types))

    def _read(self, root: str, types: dict[str, str], place: dict[str, str], wanted: tuple[str, ...]) -> DataFrame:
        # Spark would guess at the partitions' types: a queue called 007 is not the number 7.
        asked = {name: types[name] for name in (*wanted, *place)}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in asked.items())
        if not self._has_files(root):
            return self._spark.createDataFrame([], schema).select(*wanted)
        return self._spark.read.schema(schema).option("basePath", root).parquet(root).select(*wanted)

    def _has_files(self, root: str) -> bool:
        return bool(folders.names_in(self._spark, root))

    def _body_type(self) -> str:
        if not self._has_files(self.messages):
            return "binary"
        schema = self._spark.read.option("basePath", self.messages).parquet(self.messages).schema
        return schema["body"].dataType.simpleString() if "body" in schema.names else "binary"

    def _of_consumer(self, queue: str, consumer: str) -> str:
        return f"{self.messages}/queue={escaped(queue)}/consumer={escaped(consumer)}"

    def _numbers(self, folder: str, name: str) -> list[int]:
        return sorted(int(value) for value in self._values(folder, name) if value.isdecimal())

    def _values(self, folder: str, name: str) -> list[str]:
        start = f"{name}="
        names = folders.names_in(self._spark, folder)
        return [unquote(it.removeprefix(start)) for it in names if it.startswith(start)]


def _written(frame: DataFrame, folder: str) -> Landed:
    told = Observation()
    frame.observe(told, *_counts(frame)).write.mode("overwrite").parquet(folder)
    return Landed(told.get["rows"], told.get["bad"])


def _replaced(frame: DataFrame, folder: str) -> Landed:
    """For sessions that cannot rename. Spark can when it overwrites partitions: it writes to a folder of its own beside
    and then puts the whole in place. So a job that outlives its client, as a Spark Connect server lets it, brings the
    same rows again and adds none."""
    parent, _, name = folder.rpartition("/")
    column, _, number = name.partition("=")
    told = Observation()
    placed = frame.observe(told, *_counts(frame)).withColumn(column, F.lit(int(number)))
    writer = placed.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(column).parquet(parent)
    return Landed(told.get["rows"], told.get["bad"])


def _counted(frame: DataFrame) -> Landed:
    [row] = frame.agg(*_counts(frame)).collect()
    return Landed(row.rows, row.bad)


def _counts(frame: DataFrame) -> list[Column]:
    bad = F.col("bad_record") if "bad_record" in frame.columns else F.lit(None)
    return [F.count(F.lit(1)).alias("rows"), F.count(bad).alias("bad")]


def _check(landed: Landed, rows: int, place: Place) -> None:
    if landed.rows != rows:
        raise JobFailed(
            f"number {place.number} has {rows:,} rows and {landed.rows:,} were read; nothing was settled, run it again"
        )
