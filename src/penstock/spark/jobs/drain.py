"""`drain`: messages from a queue into the lake, each exactly once.

Shipment by shipment: claim number n, write it to the folder of n, settle n. If the job ends in between, the next run
claims the same n, finds the same messages, and goes on. Nothing is settled before all of it is in the lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType, _parse_datatype_string

from penstock.client import Client, Shipment, ShipmentConflict, ShipmentEnded, ShipmentRef
from penstock.spark import folders
from penstock.spark.errors import JobFailed
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.jobs.run import HOLD_MS, Run, Summary, how_it_ended, timed
from penstock.spark.lake import Lake, Landed, Place
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LIMIT = 100_000
_MOST_ENDED = 10
_GIVEN_BACK = ("released", "lost", "purged")
_CORRUPT = "_corrupt"


@dataclass(frozen=True)
class Body:
    """What the lake's column `body` is: `binary`, `text`, or `json`, values of a schema (`a int, b string`)."""

    format: str = "binary"
    schema: str | None = None


@dataclass
class DrainSummary(Summary):
    queue: str
    consumer: str
    lake: str
    dry_run: bool = False
    ready: int = 0
    shipments: int = 0
    messages: int = 0
    bytes: int = 0
    bad_records: int = 0
    # Numbers that ended before they were settled: their messages are the queue's again, or were purged.
    ended: dict[int, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return [f"shipment {number} was {how} before it was settled" for number, how in self.ended.items()]

    def lines(self) -> list[str]:
        if self.dry_run:
            lines = [f"would drain {self.ready:,} ready messages of {self.queue} to {self.lake}"]
        else:
            lines = [
                f"drained {self.messages:,} messages ({self.bytes:,} bytes) of {self.queue} in {self.shipments:,} "
                f"shipments to {self.lake} in {self.seconds:.1f} s"
            ]
        if self.bad_records:
            lines.append(f"{self.bad_records:,} bodies did not decode; they are in the column bad_record")
        verb = "would remove" if self.dry_run else "removed"
        return lines + [f"{verb} {folder}, of a shipment that was not settled" for folder in self.removed]


def drain(
    server: Server,
    queue: str,
    lake: str,
    *,
    consumer: str = "drain",
    limit: int = LIMIT,
    max_messages: int | None = None,
    body: Body = Body(),
    hold_ms: int = HOLD_MS,
    run: Run = Run(),
) -> DrainSummary:
    """Drains until nothing is ready, or about `max_messages` are drained: a shipment that was open may hold more."""
    summary = DrainSummary(queue, consumer, lake, run.dry_run)
    with timed(summary), server.client() as client:
        summary.ready = counted(client, queue)[0].ready
        with run.session("drain") as session:
            job = _Drain(session, server, client, Lake(session, lake), body, hold_ms, summary, run)
            job.clear()
            if not run.dry_run:
                job.all(limit, max_messages)
    return summary


@dataclass
class _Drain:
    spark: SparkSession
    server: Server
    client: Client
    lake: Lake
    body: Body
    hold_ms: int
    summary: DrainSummary
    run: Run

    def clear(self) -> None:
        """Remove the folders of shipments that were given back, and the staging folders of dead runs."""
        queue, consumer = self.summary.queue, self.summary.consumer
        known = {shipment.number: shipment for shipment in self.client.shipments(queue, consumer)}
        for number in self.lake.numbers(queue, consumer):
            shipment = known.get(number)
            if shipment is not None and shipment.state in _GIVEN_BACK:
                self._remove(shipment)
        if not self.summary.dry_run:
            underway = next((it.number for it in known.values() if not it.has_ended), None)
            self.lake.clear_staging(self._place(0), but=underway)

    def all(self, limit: int, max_messages: int | None) -> None:
        summary = self.summary
        queue, consumer = summary.queue, summary.consumer
        number = self.client.next_shipment(queue, consumer).number
        while max_messages is None or summary.messages < max_messages:
            most = limit if max_messages is None else min(limit, max_messages - summary.messages)
            try:
                shipment = self.client.claim_shipment(ShipmentRef(queue, consumer, number), most, self.hold_ms)
            except (ShipmentEnded, ShipmentConflict):
                # Another drain of the same consumer was faster.
                number = self.client.next_shipment(queue, consumer).number
                continue
            if shipment is None:
                break
            self._one(shipment)
            number += 1
            total = max(summary.ready, summary.messages)
            self.run.progress.show(f"draining {queue}", summary.messages, total)
        self.run.progress.end()

    def _one(self, shipment: Shipment) -> None:
        try:
            with Heartbeat(self.client, shipment, self.hold_ms):
                landed = self._land(shipment)
                self.client.settle_shipment(shipment)
        except JobFailed:
            raise
        except Exception as error:
            how = error.how if isinstance(error, ShipmentEnded) else how_it_ended(self._read_again(shipment))
            if how is None:
                raise
            self._give_up(shipment, how)
            return
        self.summary.shipments += 1
        self.summary.messages += landed.rows
        self.summary.bytes += shipment.bytes
        self.summary.bad_records += landed.bad

    def _land(self, shipment: Shipment) -> Landed:
        place = self._place(shipment.number)
        return self.lake.land(place, shipment.claimed_at, shipment.messages, lambda: self._read(shipment))

    def _read(self, shipment: Shipment) -> DataFrame:
        parts = self.run.slices(self.spark)
        place = {"consumer": shipment.consumer, "shipment": shipment.number, "partitions": parts}
        messages = self.server.read(self.spark, shipment.queue, **place)
        return decoded(kept(messages, shipment.claimed_at), self.body)

    def _read_again(self, shipment: Shipment) -> Iterator[object]:
        return self.client.arrow.read_shipment(shipment, 0, shipment.messages)

    def _give_up(self, shipment: Shipment, how: str) -> None:
        if how == "settled":
            return  # by another drain of the same consumer, whose folder is complete
        if how == "purged":
            # It can never be read whole again; the rest of it goes back to the queue.
            with suppress(ShipmentEnded):
                self.client.release_shipment(shipment)
        self._remove(shipment)
        self.summary.ended[shipment.number] = how
        self.run.progress.say(f"shipment {shipment.number} was {how} before it was settled")
        if len(self.summary.ended) >= _MOST_ENDED:
            raise JobFailed(f"{_MOST_ENDED} shipments ended before they were settled: is the hold too short?")

    def _place(self, number: int) -> Place:
        return Place(self.summary.consumer, number, self.summary.queue)

    def _remove(self, shipment: Shipment) -> None:
        place = self._place(shipment.number)
        folder = self.lake.folder(place)
        # A queue that was deleted and recreated counts from 1 again: the rows of an earlier claim stay.
        if folders.exists(self.spark, folder) and self.lake.claimed_at(place) in (None, shipment.claimed_at):
            self.summary.removed.append(folder)
            if not self.summary.dry_run:
                self.lake.remove(place)


def kept(messages: DataFrame, claimed_at: int) -> DataFrame:
    """The columns that the lake keeps of a message."""
    columns = ("id", "body", "content_type", "attributes", "sent_at", "receives")
    return messages.select(*columns, F.timestamp_millis(F.lit(claimed_at)).alias("claimed_at"), "group")


def decoded(messages: DataFrame, wanted: Body) -> DataFrame:
    """`messages` with their binary `body` decoded, in the JVM. Text and JSON bring a column `bad_record`: the body as
    it came where it is not UTF-8 or does not fit the schema, and then `body` is null."""
    if wanted.format == "binary":
        return messages
    text = F.col("body").cast("string")
    is_text = F.is_valid_utf8(text)
    if wanted.format == "text":
        return _split(messages, text, is_text)
    if wanted.schema is None:
        raise ValueError("json needs a schema")
    # Spark reads the first value and drops what comes after it; within an array, that is not valid.
    wrapped = F.concat(F.lit('{"of":['), text, F.lit("]}"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(wrapped, f"of array<{_type_of(wanted.schema)}>, {_CORRUPT} string", options)
    good = is_text & parsed[_CORRUPT].isNull() & (F.size(parsed["of"]) == 1) & parsed["of"][0].isNotNull()
    return _split(messages, parsed["of"][0], good)


def _split(messages: DataFrame, body: Column, good: Column) -> DataFrame:
    is_good = F.coalesce(good, F.lit(False))
    return messages.select(
        *(F.when(is_good, body).alias("body") if name == "body" else F.col(name) for name in messages.columns),
        F.when(~is_good, F.col("body")).alias("bad_record"),
    )


def _type_of(schema: str) -> str:
    """`a int, b string` are the fields of a struct; `array<int>` is a type by itself."""
    kind = _parse_datatype_string(schema)
    if isinstance(kind, StructType) and len(kind) == 1 and kind[0].name == "value" and " " not in schema.strip():
        kind = kind[0].dataType
    return kind.simpleString()
