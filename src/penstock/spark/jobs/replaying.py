"""The three ways of a replay. See `replay` for what they promise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from penstock import limits
from penstock.client import Client
from penstock.spark import folders
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.jobs.earliest import body_bytes
from penstock.spark.jobs.load import key_of, send_files
from penstock.spark.jobs.queues import source
from penstock.spark.jobs.running import HOLD_MS, JobFailed
from penstock.spark.jobs.sending import Sent, send, send_each
from penstock.spark.wire import Conflict, Ended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.client import ClaimedMessage
    from penstock.spark.folders import File
    from penstock.spark.jobs.replay import ReplaySummary
    from penstock.spark.lake import Lake
    from penstock.spark.progress import Progress
    from penstock.spark.wire import Shipment, Wire

# What a filter may speak of.
VIEW = (
    "id string, sent_at timestamp, content_type string, attributes map<string,string>, receives int, queue string, "
    "body string"
)
# Fixed: it is part of which message has which key.
_PARTITIONS = 4
_PAGE = 5_000
_HOLD_MS = 15 * 60 * 1000
_BYTES = "_bytes"


def matching(messages: DataFrame, where: str | None) -> DataFrame:
    """The messages of which the filter holds, as they are sent, with every other column that they had."""
    body = body_bytes(messages)
    others = [name for name in messages.columns if name not in ("body", "bad_record")]
    viewed = messages.select(*others, body.alias(_BYTES), body.cast("string").alias("body"))
    chosen = viewed if where is None else viewed.where(F.expr(where))
    return chosen.drop("body").withColumnRenamed(_BYTES, "body")


def drafts(messages: DataFrame) -> DataFrame:
    return messages.select("body", "content_type", "attributes")


@dataclass
class Replaying:
    spark: SparkSession
    wire: Wire
    summary: ReplaySummary
    progress: Progress
    api_key: str | None

    def count(self, messages: DataFrame) -> None:
        held = F.expr(self.summary.where) if self.summary.where is not None else F.lit(True)
        viewed = messages.withColumn("body", body_bytes(messages).cast("string"))
        [row] = viewed.agg(F.count(F.lit(1)).alias("all"), F.count_if(held).alias("matched")).collect()
        self.summary.looked_at, self.summary.matched = row["all"], row.matched

    # From the lake

    def from_lake(self, lake: Lake, label: str) -> None:
        found = folders.files(self.spark, lake.messages)
        messages = lake.reader()

        def read(file: File) -> DataFrame:
            return drafts(matching(messages(file.path), self.summary.where))

        def key(file: File) -> str:
            return f"replay-{key_of(file, self.summary.to, [self.summary.where, label])}"

        self._add(send_files(found, read, key, self.wire, self.summary.to, self.progress))

    # From a queue, all of it

    def all_of(self, queue: str, limit: int) -> None:
        # Another target is another consumer: an interrupted replay to one queue is never finished to another.
        consumer = consumer_for(self.summary.to)
        number = self.wire.next_shipment(queue, consumer)
        unfinished = self.wire.shipment(queue, consumer, number)
        # No more than there is now: what is replayed may fail again, and come back here for ever.
        total = self.wire.queue(queue)["count"]["ready"] + (unfinished.messages if unfinished else 0)
        while self.summary.matched < total:
            try:
                most = min(limit, total - self.summary.matched)
                shipment = self.wire.claim_shipment(queue, consumer, number, most, HOLD_MS)
            except (Ended, Conflict):
                number = self.wire.next_shipment(queue, consumer)
                continue
            if shipment is None:
                break
            with Heartbeat(self.wire, queue, consumer, number, HOLD_MS):
                sent = self.send_shipment(shipment)
                self.wire.settle_shipment(queue, consumer, number)
            self._add(sent)
            number += 1
            self.progress.show(f"replaying {queue}", self.summary.matched, total)
        self.progress.end()

    def send_shipment(self, shipment: Shipment) -> Sent:
        """All of it, under keys that are the same whenever the shipment is sent to this queue."""
        place = {"consumer": shipment.consumer, "shipment": shipment.number, "partitions": _PARTITIONS}
        messages = source(self.spark, self.wire.url, self.api_key, shipment.queue, **place)
        known = f"{shipment.queue}/{shipment.number}/{shipment.claimed_at}"
        key = f"replay-{hashlib.sha256(known.encode()).hexdigest()[:40]}"
        sent = send(drafts(messages), self.wire, self.summary.to, key)
        if sent.messages != shipment.messages:
            raise JobFailed(f"shipment {shipment.number} was not read whole; run the same replay again")
        return sent

    # From a queue, what matches

    def some_of(self, queue: str) -> None:
        total = self.wire.queue(queue)["count"]["ready"]
        others: list[str] = []
        with Client(self.wire.url, self.api_key) as client:
            try:
                while self.summary.looked_at < total:
                    claimed = client.claim(queue, min(_PAGE, total - self.summary.looked_at), _HOLD_MS)
                    if not claimed:
                        break
                    done = self._send_some(queue, claimed)
                    finished = client.ack(queue, sorted(done))
                    self.summary.unfinished += finished.count(False)
                    others += [message.receipt for message in claimed if message.receipt not in done]
                    self.summary.looked_at += len(claimed)
                    self.progress.show(f"replaying {queue}", self.summary.looked_at, total)
            finally:
                # Held until now, so that each message is looked at once.
                for start in range(0, len(others), _PAGE):
                    client.release(queue, others[start : start + _PAGE])
        self.summary.left = len(others)
        self.progress.end()

    def _send_some(self, queue: str, claimed: list[ClaimedMessage]) -> set[str]:
        """Sends what matches and gives the receipts of all that is sent."""
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
            }
        )
        chosen = matching(self.spark.createDataFrame(table), self.summary.where)
        sent, receipts = send_each(chosen, self.wire, self.summary.to, "replay")
        self._add(sent)
        return receipts

    def _add(self, sent: Sent) -> None:
        self.summary.matched += sent.messages
        self.summary.sent += sent.stored
        self.summary.repeated += sent.repeated


def consumer_for(to: str) -> str:
    name = f"replay-to-{to.replace('/', ':')}"
    if len(name) <= limits.NAME_LENGTH:
        return name
    return f"replay-to-{hashlib.sha256(to.encode()).hexdigest()}"
