"""`audit`: nothing lost, nothing twice. It compares the server's counters, its ledger, its shipments and the lake.

It only reads. What does not add up is a finding; messages that come and go meanwhile are allowed for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client, Queue, QueueNotFound, Shipment, Tally
from penstock.spark.jobs.ledger import read_ledger
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.lake import Lake
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 5
_ROW = ("number", "queue", "id", "outcome", "finished_at")


@dataclass
class AuditSummary(Summary):
    lake: str | None
    dry_run: bool = False
    queues: int = 0
    arrived: int = 0
    live: int = 0
    departed: int = 0
    ledger_rows: int = 0
    folders: int = 0
    messages: int = 0
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return self.findings

    def lines(self) -> list[str]:
        if self.dry_run:
            place = f" and the lake at {self.lake}" if self.lake else ""
            return [f"would audit {self.queues:,} queues{place}"]
        lines = [f"{self.queues:,} queues: {self.arrived:,} arrived, {self.live:,} live, {self.departed:,} departed"]
        if self.lake is not None:
            lines.append(
                f"{self.lake}: {self.messages:,} messages of {self.folders:,} shipments; with the server's, "
                f"{self.ledger_rows:,} ledger rows"
            )
        found = f"{len(self.findings):,} findings" if self.findings else "everything adds up"
        return [*lines, f"{found} ({self.seconds:.1f} s)"]


def audit(server: Server, lake: str | None = None, *, run: Run = Run()) -> AuditSummary:
    """Without a lake, the counters and the server's own ledger are compared."""
    summary = AuditSummary(lake, run.dry_run)
    with timed(summary), server.client() as client:
        names = [queue.name for queue in client.queues(count=False)]
        summary.queues = len(names)
        if run.dry_run:
            return summary
        before = {name: _Known.of(client.queue(name)) for name in names}
        with run.session("audit") as session:
            job = _Audit(session, server, client, Lake(session, lake) if lake else None, summary)
            run.progress.say(f"counting the messages of {len(names):,} queues")
            job.counters(before)
            run.progress.say("comparing the ledger")
            job.ledger(before)
            if lake is not None:
                run.progress.say("comparing the lake with the shipments")
                job.shipments(before)
                run.progress.say("looking for messages twice, or without a ledger row")
                job.messages(before)
    return summary


@dataclass(frozen=True)
class _Known:
    """A queue as it was when the audit began."""

    created_at: int
    has_ledger: bool
    messages: int
    tally: Tally

    @classmethod
    def of(cls, queue: Queue) -> _Known:
        assert queue.count is not None and queue.tally is not None  # noqa: S101, PT018  it was asked for by name
        has_ledger = queue.settings.get("ledger") != "off"
        return cls(queue.created_at, has_ledger, queue.count.total, queue.tally)


@dataclass
class _Audit:
    """The comparisons: each finds something, or nothing."""

    spark: SparkSession
    server: Server
    client: Client
    lake: Lake | None
    summary: AuditSummary
    # The shipments in the lake that have ended well, or so long ago that the server has forgotten them.
    settled: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def counters(self, queues: dict[str, _Known]) -> None:
        """What has arrived is there or has departed. The server's own count comes from the same counters, so the
        messages themselves are counted; some may arrive or depart meanwhile."""
        for name, before in queues.items():
            live = self._live(name, before.messages)
            try:
                after = counted(self.client, name)[1]
            except QueueNotFound:
                continue  # deleted meanwhile
            arrived, departed = before.tally.arrived, before.tally.departed
            self.summary.arrived += arrived
            self.summary.departed += departed
            self.summary.live += live
            if not arrived - after.departed <= live <= after.arrived - departed:
                self._find(f"{name}: {arrived:,} arrived, but {live:,} are live and {departed:,} have departed")

    def _live(self, queue: str, expected: int) -> int:
        if expected == 0 and not self.client.peek(queue, 1).messages:
            return 0
        return self.server.read(self.spark, queue).select("id").distinct().count()

    def ledger(self, queues: dict[str, _Known]) -> None:
        """A message that has departed has a row, in the lake or still only in the server's ledger."""
        found = {row.queue: row["count"] for row in self._rows(queues).groupBy("queue").count().collect()}
        self.summary.ledger_rows = sum(found.values())
        for name, before in queues.items():
            if not before.has_ledger:
                continue
            try:
                after = counted(self.client, name)[1]
            except QueueNotFound:
                continue  # deleted meanwhile
            rows, least, most = found.get(name, 0), before.tally.departed, after.departed
            if not least <= rows <= most:
                self._find(f"{name}: {least:,} messages have departed, but there are {rows:,} ledger rows")

    def shipments(self, queues: dict[str, _Known]) -> None:
        """A folder holds what its shipment held, and only settled shipments have one."""
        assert self.lake is not None  # noqa: S101
        columns = ("queue", "consumer", "shipment")
        messages = self.lake.read_messages(*columns, "claimed_at")
        # Also those that hold nothing any longer: what was in them is missing.
        folders: dict[tuple[str, str], dict[int, tuple[int, int]]] = {place: {} for place in self.lake.shipped()}
        by_folder = messages.groupBy(*columns).agg(
            F.count(F.lit(1)).alias("rows"), F.unix_millis(F.min("claimed_at")).alias("claimed_at")
        )
        for row in by_folder.collect():
            folders.setdefault((row.queue, row.consumer), {})[row.shipment] = (row.rows, row.claimed_at)
            self.summary.folders += 1
            self.summary.messages += row.rows
        for (queue, consumer), found in sorted(folders.items()):
            if queue in queues:
                known = {it.number: it for it in self.client.shipments(queue, consumer)}
                self._compare(f"{queue}, consumer {consumer}", known, found)
                self.settled[queue, consumer] = {
                    number for number in found if (it := known.get(number)) is None or it.state == "settled"
                }

    def _compare(self, who: str, known: dict[int, Shipment], found: dict[int, tuple[int, int]]) -> None:
        last = max(known, default=0)
        first = min(known, default=1)
        for number, (rows, claimed_at) in sorted(found.items()):
            shipment = known.get(number)
            if shipment is None:
                # The server forgets shipments that ended long ago, but never the latest.
                if number > last or first < number:
                    self._find(f"{who}: the lake has shipment {number}, which the server does not know")
            elif claimed_at != shipment.claimed_at:
                self._find(f"{who}: the lake's shipment {number} is not the server's: was the queue created again?")
            elif shipment.state in ("released", "lost"):
                self._find(f"{who}: the lake has shipment {number}, which was {shipment.state}; a drain removes it")
            elif shipment.state == "settled" and rows != shipment.messages:
                self._find(f"{who}: shipment {number} held {shipment.messages:,} messages, the lake has {rows:,} of it")
        for number, shipment in sorted(known.items()):
            if shipment.state == "settled" and shipment.messages and number not in found:
                self._find(f"{who}: shipment {number} is settled, but not in the lake ({shipment.messages:,} messages)")

    def messages(self, queues: dict[str, _Known]) -> None:
        """No message is in the lake twice, for one consumer or for two, and each has left its queue as processed."""
        assert self.lake is not None  # noqa: S101
        drained = self.lake.read_messages("id", "queue", "consumer", "shipment", "claimed_at")
        twice = drained.groupBy("id").agg(
            F.count(F.lit(1)).alias("times"),
            F.array_sort(F.collect_set(F.format_string("%s/%s/%d", "queue", "consumer", "shipment"))).alias("places"),
        )
        repeated = twice.where("times > 1")
        number = repeated.count()
        if number:
            shown = [f"{row.id} in {', '.join(row.places)}" for row in repeated.orderBy("id").limit(_SHOWN).collect()]
            self._find(f"{number:,} messages are in the lake more than once: {'; '.join(shown)}")
        settled = [(*place, number) for place, numbers in self.settled.items() for number in numbers]
        with_ledger = [it for it in settled if queues[it[0]].has_ledger]
        if not with_ledger:
            return
        ended = self.spark.createDataFrame(with_ledger, "queue string, consumer string, shipment bigint")
        processed = self._rows(queues).where("outcome = 'processed'").select("queue", "id")
        lacking = (
            self._since_created(drained, queues, "claimed_at")
            .join(F.broadcast(ended), ["queue", "consumer", "shipment"], "left_semi")
            .join(processed, ["queue", "id"], "left_anti")
        )
        for row in lacking.groupBy("queue").agg(F.count(F.lit(1)).alias("n"), F.min("id").alias("id")).collect():
            self._find(f"{row.queue}: {row.n:,} drained messages have no ledger row as processed, such as {row.id}")

    def _rows(self, queues: dict[str, _Known]) -> DataFrame:
        """Every ledger row of the queues as they are now: those of a deleted queue with the same name do not count."""
        rows = read_ledger(self.spark, self.server).select(*_ROW)
        if self.lake is not None:
            rows = rows.unionByName(self.lake.read_ledger(*_ROW)).dropDuplicates(["number"])
        return self._since_created(rows, queues, "finished_at")

    def _since_created(self, rows: DataFrame, queues: dict[str, _Known], column: str) -> DataFrame:
        created = [(name, queue.created_at) for name, queue in queues.items()]
        known = self.spark.createDataFrame(created, "queue string, created_at bigint")
        fresh = rows.join(F.broadcast(known), "queue").where(F.unix_millis(column) >= F.col("created_at"))
        return fresh.drop("created_at")

    def _find(self, text: str) -> None:
        self.summary.findings.append(text)
