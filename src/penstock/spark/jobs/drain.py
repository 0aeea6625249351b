"""`drain`: messages from a queue into the lake, each exactly once.

Shipment by shipment: claim number n, write its file, settle n. If the job ends in between, the next run claims the same
n, finds the same messages, and goes on. Nothing is settled before all of it is in the lake.

A large queue is drained in lanes, several shipments at a time. A consumer has one shipment at a time, so each lane has
a consumer of its own: `drain`, `drain.2`, `drain.3`. Lanes claim one after the other: what one has claimed is read
while the next one claims, and from then on they are at different steps of their work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.client import Client, Shipment, ShipmentConflict, ShipmentEnded, ShipmentRef
from penstock.spark.errors import JobFailed
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.jobs.run import HOLD_MS, Run, Summary, timed
from penstock.spark.lake import Lake
from penstock.spark.landing import Body, Landing
from penstock.spark.lease import Lease
from penstock.spark.manifest import MESSAGES, Manifest, Place
from penstock.spark.server import Server, counted
from penstock.spark.session import WITHOUT_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

LIMIT = 1_000_000
# Bodies of a shipment: S3 copies no file of more than 5 GB in one request.
_MOST_BYTES = 2 * 1024**3
# Fewer messages than this are not worth a lane.
_LANE_MESSAGES = 150_000
# Where there are several lanes, each has so many shipments or more, of a size that is worth a file.
_LANE_SHIPMENTS = 2
_LEAST_SHIPMENT = 50_000
_MOST_ENDED = 10
_GIVEN_BACK = ("released", "lost", "purged")


@dataclass
class DrainSummary(Summary):
    queue: str
    consumer: str
    lake: str
    dry_run: bool = False
    ready: int = 0
    lanes: int = 0
    shipments: int = 0
    messages: int = 0
    bytes: int = 0
    bad_records: int = 0
    # Shipments that ended before they were settled: their messages are the queue's again, or were purged.
    ended: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return self.ended

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
        return lines + [f"{verb} {file}, of a shipment that was not settled" for file in self.removed]


def drain(
    server: Server,
    queue: str,
    lake: str,
    *,
    consumer: str = "drain",
    limit: int = LIMIT,
    max_messages: int | None = None,
    lanes: int | None = None,
    body: Body = Body(),
    format: str | None = None,  # noqa: A002
    hold_ms: int = HOLD_MS,
    wait: bool = False,
    run: Run = Run(),
) -> DrainSummary:
    """Drains until nothing is ready, or about `max_messages` are drained: a shipment that was open may hold more.

    `lanes` is how many shipments are in flight at once: one more than there are cores, unless it is given or there is
    too little to drain. While another drain of the same consumer runs, this one fails, or with `wait` waits for it.
    `format` is what the lake's tables are to be, `parquet` or `delta`; without it they are what they are, and `parquet`
    at first."""
    summary = DrainSummary(queue, consumer, lake, run.dry_run)
    with timed(summary), server.client() as client:
        summary.ready = counted(client, queue)[0].ready
        if not summary.ready and not any(map(_is_unfinished, _shipments(client, queue, consumer))):
            return summary  # without the seconds that Spark takes to start
        if run.dry_run:
            with run.session("drain", WITHOUT_ROWS) as session:
                _Drain.of(session, server, client, Lake(session, lake, format), summary, run).clear()
            return summary
        with Lease(client, queue, consumer, run.progress, wait) as lease, run.session("drain", WITHOUT_ROWS) as session:
            into = Lake(session, lake, format)
            job = _Drain.of(session, server, client, into, summary, run, body, hold_ms, lease)
            job.clear()
            job.all(limit, max_messages, lanes)
    return summary


class _Budget:
    """How many messages may still be claimed, by lanes that ask at the same time."""

    def __init__(self, messages: int | None) -> None:
        self._left = messages
        self._is_closed = False
        self._lock = threading.Lock()

    def take(self, most: int) -> int:
        with self._lock:
            if self._left is None:
                return most
            taken = min(most, self._left)
            self._left -= taken
            return taken

    def close(self) -> None:
        """No one may claim any more."""
        with self._lock:
            self._left = 0
            self._is_closed = True

    def correct(self, messages: int) -> None:
        """What was taken and not needed; less than nothing where more was needed."""
        with self._lock:
            if self._left is not None and not self._is_closed:
                self._left = max(0, self._left + messages)


@dataclass
class _Drain:
    spark: SparkSession
    server: Server
    client: Client
    lake: Lake
    format: str
    body: Body
    kind: DataType
    hold_ms: int
    lease: Lease | None
    summary: DrainSummary
    run: Run
    lock: threading.Lock = field(default_factory=threading.Lock)
    claiming: threading.Lock = field(default_factory=threading.Lock)
    tag: str = field(default_factory=lambda: f"penstock-drain-{uuid4().hex}")

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        server: Server,
        client: Client,
        lake: Lake,
        summary: DrainSummary,
        run: Run,
        body: Body = Body(),
        hold_ms: int = HOLD_MS,
        lease: Lease | None = None,
    ) -> _Drain:
        return cls(spark, server, client, lake, lake.format, body, body.kind(), hold_ms, lease, summary, run)

    def clear(self) -> None:
        """Remove the files of shipments that were given back, and what dead runs have left half written."""
        given_back = [it for it in self._own_shipments() if it.state in _GIVEN_BACK]
        # A queue that was deleted and recreated counts from 1 again: the rows of an earlier claim stay.
        places = [Place(it.consumer, it.number, it.claimed_at, it.queue) for it in given_back]
        for place in self.lake.held(places):
            self._remove(place)
        if not self.summary.dry_run:
            self.lake.clear_staging()

    def all(self, limit: int, max_messages: int | None, lanes: int | None) -> None:
        ready = self.summary.ready if max_messages is None else min(self.summary.ready, max_messages)
        names = self._lanes(ready, lanes)
        self.summary.lanes = len(names)
        if len(names) > 1:
            limit = min(limit, max(_LEAST_SHIPMENT, -(-ready // (_LANE_SHIPMENTS * len(names)))))
        budget = _Budget(max_messages)
        with ThreadPoolExecutor(len(names), "lane") as pool:
            running = [pool.submit(self._lane, name, limit, budget) for name in names]
            try:
                for ended in as_completed(running):
                    ended.result()
            except BaseException:
                # The others end as well: at once, whatever their tasks are doing.
                budget.close()
                self.spark.interruptTag(self.tag)
                raise
        self.run.progress.end()

    def _lanes(self, ready: int, lanes: int | None) -> list[str]:
        """The consumers of the lanes: those that are needed, and those that an earlier run has left open."""
        if lanes is None:
            most = self.run.slices(self.spark)
            if self.run.partitions is None:
                most += 1  # while each core reads a shipment, the server is to claim or settle another
            lanes = max(1, min(most, ready // _LANE_MESSAGES))
        open_ = {it.consumer for it in self._own_shipments() if not it.has_ended}
        first = [lane_of(self.summary.consumer, number) for number in range(1, lanes + 1)]
        return first + sorted(open_.difference(first))

    def _own_shipments(self) -> Iterator[Shipment]:
        return _shipments(self.client, self.summary.queue, self.summary.consumer)

    def _lane(self, consumer: str, limit: int, budget: _Budget) -> None:
        """One shipment after the other, until nothing is left."""
        queue = self.summary.queue
        self.spark.addTag(self.tag)
        with self.server.client() as client:
            number = client.next_shipment(queue, consumer).number
            while most := budget.take(limit):
                try:
                    ref = ShipmentRef(queue, consumer, number)
                    with self.claiming:
                        shipment = client.claim_shipment(ref, most, self.hold_ms, _MOST_BYTES)
                except (ShipmentEnded, ShipmentConflict):
                    # Another run was faster, after all.
                    budget.correct(most)
                    number = client.next_shipment(queue, consumer).number
                    continue
                budget.correct(most - (0 if shipment is None else shipment.messages))
                if shipment is None:
                    return
                self._one(client, shipment)
                number += 1

    def _one(self, client: Client, shipment: Shipment) -> None:
        landing = Landing(self.server, self.lake.storage, shipment, self.body.format, self.kind, self.format)
        with Heartbeat(client, shipment, self.hold_ms):
            landed = landing.run(self.spark)
            if landed.error is not None:
                raise JobFailed(landed.error)
            ended = landed.ended
            if landed.manifest is not None:
                ended = self._settle(client, shipment)
        if ended is not None:
            self._give_up(client, landing.place, ended)
        elif landed.manifest is not None:
            self._add(shipment, landed.manifest)

    def _settle(self, client: Client, shipment: Shipment) -> str | None:
        """How it had ended before, if it had."""
        if self.lease is not None:
            self.lease.check()
        try:
            client.settle_shipment(shipment, stored_in=self.lake.address)
        except ShipmentEnded as error:
            return error.how
        return None

    def _add(self, shipment: Shipment, manifest: Manifest) -> None:
        summary = self.summary
        with self.lock:
            summary.shipments += 1
            summary.messages += manifest.rows
            summary.bytes += shipment.bytes
            summary.bad_records += manifest.bad
            total = max(summary.ready, summary.messages)
            self.run.progress.show(f"draining {summary.queue}", summary.messages, total)

    def _give_up(self, client: Client, place: Place, how: str) -> None:
        """The shipment has ended otherwise: its messages are the queue's again, and come with a later number."""
        if how == "settled":
            return  # by another run, which has put the same file there
        if how == "purged":
            # It can never be read whole again; the rest of it goes back to the queue.
            with suppress(ShipmentEnded):
                client.release_shipment(ShipmentRef(self.summary.queue, place.consumer, place.number))
        with self.lock:
            for held in self.lake.held([place]):
                self._remove(held)
            self.summary.ended.append(f"shipment {place.number} of {place.consumer} was {how} before it was settled")
            self.run.progress.say(self.summary.ended[-1])
            if len(self.summary.ended) >= _MOST_ENDED:
                raise JobFailed(f"{_MOST_ENDED} shipments ended before they were settled: is the hold too short?")

    def _remove(self, place: Place) -> None:
        self.summary.removed.append(self.lake.table(MESSAGES).described(place))
        if not self.summary.dry_run:
            self.lake.remove(place)


def _shipments(client: Client, queue: str, consumer: str) -> Iterator[Shipment]:
    """Those of all lanes that the server remembers."""
    for shipment in client.shipments(queue):
        if shipment.consumer == consumer or is_lane(shipment.consumer, consumer):
            yield shipment


def _is_unfinished(shipment: Shipment) -> bool:
    """Whether something is left to do for it, in the queue or in the lake."""
    return not shipment.has_ended or shipment.state in _GIVEN_BACK


def lane_of(consumer: str, number: int) -> str:
    return consumer if number == 1 else f"{consumer}.{number}"


def is_lane(consumer: str, of: str) -> bool:
    head, dot, number = consumer.rpartition(".")
    return head == of and dot == "." and number.isdecimal()
