"""`replay`: messages from the lake, or from a dead-letter queue, into a queue; filtered, and only after a look.

From the lake the files stay as they are, and each is sent under a key of its own, as `load` does it. From a queue
the messages move:

- all of them, by shipments: a shipment is sent under keys made of its number, and settled when all of it is sent;
- some of them, by claims: each message that matches is sent under a key made of its id, then acked; the others are
  released, the same as before but for one receive more.

Either way a replay that was cut short is finished by running it again, and nothing is sent twice while the server
remembers the keys.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from penstock import limits
from penstock.client import (
    ClaimedMessage,
    Client,
    Shipment,
    ShipmentConflict,
    ShipmentEnded,
    ShipmentNotFound,
    ShipmentRef,
)
from penstock.spark.errors import JobFailed
from penstock.spark.folders import File
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.jobs.run import HOLD_MS, Run, Summary, settings, timed
from penstock.spark.jobs.sends import STEADY, Sent, body_bytes, key_of, send, send_each, send_files
from penstock.spark.lake import Lake
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT = 100_000
# What a filter may use.
VIEW = (
    "id string, sent_at timestamp, content_type string, attributes map<string,string>, receives int, queue string, "
    "body string, `group` string"
)
# Fixed: it is part of which message has which key.
_PARTITIONS = 4
_PAGE = 5_000
_HOLD_MS = 15 * 60 * 1000
_BYTES = "_bytes"


@dataclass(frozen=True)
class Source:
    """What is replayed: the messages of a lake or of a queue, all of them or those of which `where` holds, SQL over id,
    sent_at, content_type, attributes, receives, queue, group and body as text. A source in a lake is sent once; with
    another `label` it is another source."""

    lake: str | None = None
    queue: str | None = None
    where: str | None = None
    label: str = ""

    def __post_init__(self) -> None:
        if (self.lake is None) == (self.queue is None):
            raise JobFailed("replay from a lake or from a queue: name one of them")


@dataclass
class ReplaySummary(Summary):
    source: str
    to: str
    where: str | None = None
    dry_run: bool = True
    looked_at: int = 0
    matched: int = 0
    sent: int = 0
    repeated: int = 0
    left: int = 0
    unfinished: int = 0
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        if self.unfinished:
            return [f"{self.unfinished:,} messages were sent, but their claims had ended: run the same replay again"]
        return []

    def lines(self) -> list[str]:
        chosen = f" where {self.where}" if self.where else ""
        if self.dry_run:
            of = f"{self.matched:,} of {self.looked_at:,} messages"
            return [f"would replay {of} of {self.source}{chosen} to {self.to}", "nothing was sent; --yes sends"]
        lines = [f"replayed {self.sent:,} messages of {self.source}{chosen} to {self.to} in {self.seconds:.1f} s"]
        if self.repeated:
            lines.append(f"{self.repeated:,} messages had been sent before and were not stored again")
        if self.left:
            lines.append(f"{self.left:,} messages do not match and stay where they are")
        return lines


def replay(
    server: Server, source: Source, to: str, *, yes: bool = False, limit: int = LIMIT, run: Run = Run()
) -> ReplaySummary:
    """Sends what the source names to the queue `to`; without `yes` it only counts. From a queue it takes shipments of
    up to `limit` messages, unless it takes only some."""
    lake, queue = source.lake, source.queue
    if queue == to:
        raise JobFailed(f"{to} cannot be replayed to itself")
    summary = ReplaySummary(lake or queue or "", to, source.where, dry_run=run.dry_run or not yes)
    with timed(summary), server.client() as client:
        client.queue(to)
        if queue is not None:
            client.queue(queue)
        with run.session("replay") as session, settings(session, STEADY):
            _check(session, source.where)
            job = _Replay(session, server, client, summary, run)
            if summary.dry_run:
                job.count(Lake(session, lake).read_messages() if lake else server.read(session, str(queue)))
            elif lake is not None:
                job.from_lake(Lake(session, lake), source.label)
            elif queue is not None and source.where is None:
                job.all_of(queue, limit)
            elif queue is not None:
                job.some_of(queue)
    return summary


def _check(spark: SparkSession, where: str | None) -> None:
    """A filter that Spark does not understand is refused before anything is claimed."""
    if where is not None:
        try:
            spark.createDataFrame([], VIEW).where(where)
        except AnalysisException as error:
            raise JobFailed(f"the filter is not understood: {str(error).splitlines()[0]}") from None


def matching(messages: DataFrame, where: str | None) -> DataFrame:
    """The messages that match the filter, as they are sent, with every other column that they had."""
    body = body_bytes(messages)
    others = [name for name in messages.columns if name not in ("body", "bad_record")]
    viewed = messages.select(*others, body.alias(_BYTES), body.cast("string").alias("body"))
    chosen = viewed if where is None else viewed.where(F.expr(where))
    return chosen.drop("body").withColumnRenamed(_BYTES, "body")


def drafts(messages: DataFrame) -> DataFrame:
    return messages.select("body", "content_type", "attributes", "group")


@dataclass
class _Replay:
    spark: SparkSession
    server: Server
    client: Client
    summary: ReplaySummary
    run: Run

    def count(self, messages: DataFrame) -> None:
        held = F.expr(self.summary.where) if self.summary.where is not None else F.lit(True)
        viewed = messages.withColumn("body", body_bytes(messages).cast("string"))
        [row] = viewed.agg(F.count(F.lit(1)).alias("all"), F.count_if(held).alias("matched")).collect()
        self.summary.looked_at, self.summary.matched = row["all"], row.matched

    # From the lake

    def from_lake(self, lake: Lake, label: str) -> None:
        places = {lake.storage.address(place.file): place for place in lake.shipped()}
        stored = lake.stored(list(places.values()))
        found = [File(lake.storage.address(it.path), it.bytes, it.modified_at) for it in stored]

        def read(file: File) -> DataFrame:
            return drafts(matching(lake.read_messages(places=[places[file.path]]), self.summary.where))

        def key(file: File) -> str:
            return f"replay-{key_of(file, self.summary.to, [self.summary.where, label])}"

        self._add(send_files(found, read, key, self.server, self.summary.to, self.run.progress))

    # From a queue, all of it

    def all_of(self, queue: str, limit: int) -> None:
        # Another target is another consumer: an interrupted replay to one queue is never finished to another.
        consumer = consumer_for(self.summary.to)
        number = self.client.next_shipment(queue, consumer).number
        # No more than there is now: what is replayed may fail again and come back here without end.
        total = counted(self.client, queue)[0].ready + self._unfinished(ShipmentRef(queue, consumer, number))
        while self.summary.matched < total:
            try:
                most = min(limit, total - self.summary.matched)
                shipment = self.client.claim_shipment(ShipmentRef(queue, consumer, number), most, HOLD_MS)
            except (ShipmentEnded, ShipmentConflict):
                number = self.client.next_shipment(queue, consumer).number
                continue
            if shipment is None:
                break
            with Heartbeat(self.client, shipment, HOLD_MS):
                sent = send_shipment(self.spark, self.server, shipment, self.summary.to)
                self.client.settle_shipment(shipment)
            self._add(sent)
            number += 1
            self.run.progress.show(f"replaying {queue}", self.summary.matched, total)
        self.run.progress.end()

    def _unfinished(self, shipment: ShipmentRef) -> int:
        """How many messages an interrupted replay has left in a shipment."""
        try:
            return self.client.shipment(shipment).messages
        except ShipmentNotFound:
            return 0

    # From a queue, what matches

    def some_of(self, queue: str) -> None:
        total = counted(self.client, queue)[0].ready
        others: list[str] = []
        try:
            while self.summary.looked_at < total:
                most = min(_PAGE, total - self.summary.looked_at)
                claimed = self.client.claim(queue, most, _HOLD_MS, attempt=uuid4().hex)
                if not claimed:
                    break
                done = self._send_some(queue, claimed)
                finished = self.client.ack(queue, sorted(done))
                self.summary.unfinished += finished.count(False)
                others += [message.receipt for message in claimed if message.receipt not in done]
                self.summary.looked_at += len(claimed)
                self.run.progress.show(f"replaying {queue}", self.summary.looked_at, total)
        finally:
            # Held until now, so that each message is looked at once.
            for start in range(0, len(others), _PAGE):
                self.client.release(queue, others[start : start + _PAGE])
        self.summary.left = len(others)
        self.run.progress.end()

    def _send_some(self, queue: str, claimed: list[ClaimedMessage]) -> set[str]:
        """Send what matches; returns the receipts of all that was sent."""
        table = pa.table(
            {
                "id": pa.array([it.id for it in claimed], pa.string()),
                "receipt": pa.array([it.receipt for it in claimed], pa.string()),
                "body": pa.array([it.body for it in claimed], pa.binary()),
                "content_type": pa.array([it.content_type for it in claimed], pa.string()),
                "attributes": pa.array(
                    [list(it.attributes.items()) for it in claimed], pa.map_(pa.string(), pa.string())
                ),
                "sent_at": pa.array([it.sent_at * 1000 for it in claimed], pa.timestamp("us", "UTC")),
                "receives": pa.array([it.receives for it in claimed], pa.int32()),
                "queue": pa.array([queue] * len(claimed), pa.string()),
                "group": pa.array([it.group for it in claimed], pa.string()),
            }
        )
        chosen = matching(self.spark.createDataFrame(table), self.summary.where)
        sent, receipts = send_each(chosen, self.server, self.summary.to, "replay")
        self._add(sent)
        return receipts

    def _add(self, sent: Sent) -> None:
        self.summary.matched += sent.messages
        self.summary.sent += sent.stored
        self.summary.repeated += sent.repeated


def send_shipment(spark: SparkSession, server: Server, shipment: Shipment, to: str) -> Sent:
    """All of it, under keys that are the same whenever the shipment is sent to this queue."""
    place = {"consumer": shipment.consumer, "shipment": shipment.number, "partitions": _PARTITIONS}
    messages = server.read(spark, shipment.queue, **place)
    known = f"{shipment.queue}/{shipment.number}/{shipment.claimed_at}"
    key = f"replay-{hashlib.sha256(known.encode()).hexdigest()[:40]}"
    sent = send(drafts(messages), server, to, key)
    if sent.messages != shipment.messages:
        raise JobFailed(f"shipment {shipment.number} was not read whole; run the same replay again")
    return sent


def consumer_for(to: str) -> str:
    name = f"replay-to-{to.replace('/', ':')}"
    if len(name) <= limits.NAME_LENGTH:
        return name
    return f"replay-to-{hashlib.sha256(to.encode()).hexdigest()}"
