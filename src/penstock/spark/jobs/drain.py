"""`drain`: messages from a queue into the lake, each exactly once.

Shipment by shipment: claim number n, write it to the folder of n, settle n. Whatever ends the job in between, the
next run claims the same n, finds the same messages, and goes on. Nothing is settled before all of it is in the
lake.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.heartbeat import Heartbeat
from penstock.spark.jobs.queues import source
from penstock.spark.jobs.running import DEFAULT_URL, HOLD_MS, PATIENCE_S, JobFailed, how_it_ended, session_of, slices
from penstock.spark.lake import Lake, Place
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Conflict, Ended, Shipment, Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.jobs.landing import Landed

LIMIT = 100_000
_MOST_ENDED = 10
_GIVEN_BACK = ("released", "lost", "purged")


@dataclass
class DrainSummary:
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
    spark: SparkSession | None,
    queue: str,
    lake: str,
    *,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    consumer: str = "drain",
    limit: int = LIMIT,
    max_messages: int | None = None,
    format: str = "binary",  # noqa: A002
    schema: str | None = None,
    partitions: int | None = None,
    hold_ms: int = HOLD_MS,
    patience_s: float = PATIENCE_S,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> DrainSummary:
    """Drains until nothing is ready, or about `max_messages` are drained: a shipment that was open may hold more."""
    summary = DrainSummary(queue, consumer, lake, dry_run)
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire:
        summary.ready = wire.queue(queue)["count"]["ready"]
        with session_of(spark, "drain", master, remote) as session:
            job = _Drain(session, wire, Lake(session, lake), summary, progress or Quiet(), hold_ms)
            job.clear()
            if not dry_run:
                source = _Source(session, url, api_key, slices(session, partitions), format, schema)
                job.run(source, limit, max_messages)
    summary.seconds = time.monotonic() - started_at
    return summary


@dataclass
class _Source:
    """Reads one shipment as the lake keeps it."""

    spark: SparkSession
    url: str
    api_key: str | None
    partitions: int
    format: str
    schema: str | None

    def read(self, shipment: Shipment) -> DataFrame:
        from penstock.spark.jobs.decoding import decoded

        place = {"consumer": shipment.consumer, "shipment": shipment.number, "partitions": self.partitions}
        messages = source(self.spark, self.url, self.api_key, shipment.queue, **place)
        return decoded(kept(messages, shipment.claimed_at), self.format, self.schema)


def kept(messages: DataFrame, claimed_at: int) -> DataFrame:
    """The columns that the lake keeps of a message."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = ("id", "body", "content_type", "attributes", "sent_at", "receives")
    return messages.select(*columns, F.timestamp_millis(F.lit(claimed_at)).alias("claimed_at"))


@dataclass
class _Drain:
    spark: SparkSession
    wire: Wire
    lake: Lake
    summary: DrainSummary
    progress: Progress
    hold_ms: int

    def clear(self) -> None:
        """Takes away the folders of shipments that were given back, and the drafts of dead runs."""
        from penstock.spark.jobs.landing import clear_drafts

        queue, consumer = self.summary.queue, self.summary.consumer
        known = {shipment.number: shipment for shipment in self.wire.shipments(queue, consumer)}
        for number in self.lake.numbers(queue, consumer):
            shipment = known.get(number)
            if shipment is not None and shipment.state in _GIVEN_BACK:
                self._remove(shipment)
        if not self.summary.dry_run:
            underway = next((it.number for it in known.values() if it.state in ("open", "gathering")), None)
            clear_drafts(self.spark, self.lake, self._place(0), but=underway)

    def run(self, source: _Source, limit: int, max_messages: int | None) -> None:
        summary = self.summary
        number = self.wire.next_shipment(summary.queue, summary.consumer)
        while max_messages is None or summary.messages < max_messages:
            most = limit if max_messages is None else min(limit, max_messages - summary.messages)
            try:
                shipment = self.wire.claim_shipment(summary.queue, summary.consumer, number, most, self.hold_ms)
            except (Ended, Conflict):
                # Another drain of the same consumer has been faster.
                number = self.wire.next_shipment(summary.queue, summary.consumer)
                continue
            if shipment is None:
                break
            self._take(shipment, source)
            number += 1
            total = max(summary.ready, summary.messages)
            self.progress.show(f"draining {summary.queue}", summary.messages, total)
        self.progress.end()

    def _take(self, shipment: Shipment, source: _Source) -> None:
        try:
            with Heartbeat(self.wire, shipment.queue, shipment.consumer, shipment.number, self.hold_ms):
                landed = self._land(shipment, source)
                self.wire.settle_shipment(shipment.queue, shipment.consumer, shipment.number)
        except JobFailed:
            raise
        except Exception as error:
            how = error.how if isinstance(error, Ended) else how_it_ended(self._read_again(shipment))
            if how is None:
                raise
            self._give_up(shipment, how)
            return
        self.summary.shipments += 1
        self.summary.messages += landed.rows
        self.summary.bytes += shipment.bytes
        self.summary.bad_records += landed.bad

    def _land(self, shipment: Shipment, source: _Source) -> Landed:
        from penstock.spark.jobs.landing import land

        place = self._place(shipment.number)
        return land(self.spark, self.lake, place, shipment.claimed_at, shipment.messages, lambda: source.read(shipment))

    def _read_again(self, shipment: Shipment) -> Iterator[object]:
        return self.wire.read_shipment(shipment.queue, shipment.consumer, shipment.number, 0, shipment.messages)

    def _give_up(self, shipment: Shipment, how: str) -> None:
        if how == "settled":
            return  # by another drain of the same consumer, whose folder is complete
        if how == "purged":
            # It can never be read whole again; what is left of it goes back to the queue.
            with suppress(Ended):
                self.wire.release_shipment(shipment.queue, shipment.consumer, shipment.number)
        self._remove(shipment)
        self.summary.ended[shipment.number] = how
        self.progress.say(f"shipment {shipment.number} was {how} before it was settled")
        if len(self.summary.ended) >= _MOST_ENDED:
            raise JobFailed(f"{_MOST_ENDED} shipments ended before they were settled: is the hold too short?")

    def _place(self, number: int) -> Place:
        return Place(self.summary.consumer, number, self.summary.queue)

    def _remove(self, shipment: Shipment) -> None:
        from penstock.spark import folders

        place = self._place(shipment.number)
        folder = self.lake.folder(place)
        # A queue that was deleted and made anew counts from 1 again: the rows of an earlier claim stay.
        if folders.exists(self.spark, folder) and self.lake.claimed_at(place) in (None, shipment.claimed_at):
            self.summary.removed.append(folder)
            if not self.summary.dry_run:
                self.lake.remove(place)
