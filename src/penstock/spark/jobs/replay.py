"""`replay`: messages from the lake, or from a dead-letter queue, into a queue; filtered, and only after a look.

From the lake the files stay as they are. What matches of each shipment is sent in the order of its ids, under keys made
of the shipment, the target, the filter and the label: whichever files hold the rows, the keys stay the same.

From a queue the messages move, inside the server:

- all that are ready, by one move, which the server does in steps;
- some of them, a page at a time: the page is claimed, Spark says which of it match, and these move by their ids, a
  thousand at a time. The others are released at the end, the same as before but for one receive more.

A move takes a message out of one queue and puts it into the other in one transaction. So there is no instant at which a
kill could leave it in both or in none, nothing has to be remembered, and it does not matter how the next run, which
finds the rest in the queue, cuts it into pages. The claims only keep workers of the queue from having a message in hand
when it moves: they are renewed just before, and what is no longer held does not move.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from penstock import limits
from penstock.client import Client, Move, MoveConflict
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.clusters import cluster_of
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.jobs.sends import body_bytes, digest_of, send_places
from penstock.spark.lake import Lake
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a filter may use.
VIEW = (
    "id string, sent_at timestamp, content_type string, attributes map<string,string>, receives int, queue string, "
    "body string, `group` string, cluster string"
)
# What names a shipment in the lake, whose rows never change.
_SHIPMENT = ("queue", "consumer", "shipment", "claimed_at")
_PAGE = limits.BULK_LIMIT
_HOLD_MS = 15 * 60 * 1000
_LOOK_EVERY_S = 0.1
_BYTES = "_bytes"


@dataclass(frozen=True)
class Source:
    """What is replayed: the messages of a lake or of a queue, all of them or those of which `where` holds, SQL over id,
    sent_at, content_type, attributes, receives, queue, group, body as text, and the cluster that `triage` tells. A
    source in a lake is sent once; with another `label` it is another source."""

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
    # Messages that match and were somebody else's, or gone, when they were to move.
    missed: int = 0
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        if self.missed:
            return [f"{self.missed:,} messages match and were no longer held when they were to move: run it again"]
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


def replay(server: Server, source: Source, to: str, *, yes: bool = False, run: Run = Run()) -> ReplaySummary:
    """Sends what the source names to the queue `to`; without `yes` it only counts."""
    lake, queue, where = source.lake, source.queue, source.where
    if queue == to:
        raise JobFailed(f"{to} cannot be replayed to itself")
    summary = ReplaySummary(lake or queue or "", to, where, dry_run=run.dry_run or not yes)
    with timed(summary), server.client() as client:
        client.queue(to)
        if queue is not None and where is None:
            _QueueReplay(client, summary, run).all_of(queue)
            return summary
        if queue is not None:
            client.queue(queue)
        with run.session("replay") as session:
            _check(session, where)
            if summary.dry_run:
                _count(Lake(session, lake).read_messages() if lake else server.read(session, str(queue)), summary)
            elif lake is not None:
                _from_lake(Lake(session, lake), source, server, summary)
            elif queue is not None and where is not None:
                _QueueReplay(client, summary, run).some_of(queue, session, where)
    return summary


def _check(spark: SparkSession, where: str | None) -> None:
    """A filter that Spark does not understand is refused before anything is claimed."""
    if where is not None:
        try:
            spark.createDataFrame([], VIEW).where(where)
        except AnalysisException as error:
            raise JobFailed(f"the filter is not understood: {str(error).splitlines()[0]}") from None


def viewed(messages: DataFrame) -> DataFrame:
    """As a filter sees them; the bytes of the body are beside it."""
    body = body_bytes(messages)
    others = [name for name in messages.columns if name not in ("body", "bad_record")]
    seen = messages.select(*others, body.alias(_BYTES), body.cast("string").alias("body"))
    return seen.withColumn("cluster", cluster_of(F.col("body")))


def matching(messages: DataFrame, where: str | None) -> DataFrame:
    """The messages that match the filter, as they are sent, with every other column that they had."""
    chosen = viewed(messages) if where is None else viewed(messages).where(F.expr(where))
    return chosen.drop("body", "cluster").withColumnRenamed(_BYTES, "body")


def _count(messages: DataFrame, summary: ReplaySummary) -> None:
    held = F.expr(summary.where) if summary.where is not None else F.lit(True)
    [row] = viewed(messages).agg(F.count(F.lit(1)).alias("all"), F.count_if(held).alias("matched")).collect()
    summary.looked_at, summary.matched = row["all"], row.matched


def _from_lake(lake: Lake, source: Source, server: Server, summary: ReplaySummary) -> None:
    key = f"replay-{digest_of([summary.to, source.where, source.label])}"
    sent = send_places(matching(lake.read_messages(), source.where), _SHIPMENT, server, summary.to, key)
    summary.matched, summary.sent, summary.repeated = sent.messages, sent.stored, sent.repeated


@dataclass
class _QueueReplay:
    """It takes no more than was ready when it began: what is replayed may fail again and come back without end."""

    client: Client
    summary: ReplaySummary
    run: Run

    def all_of(self, queue: str) -> None:
        total = counted(self.client, queue)[0].ready
        if self.summary.dry_run:
            self.summary.looked_at = self.summary.matched = total
        elif total:
            move = self._moved(queue, total)
            self.summary.looked_at, self.summary.matched, self.summary.sent = move.examined, move.matched, move.moved
            if move.status != "complete":
                raise JobFailed(f"the move of {queue} to {self.summary.to} ended: {move.error or move.status}")

    def _moved(self, queue: str, most: int) -> Move:
        """The move when it has ended. It does not outlive who waits for it."""
        try:
            move = self.client.move(queue, self.summary.to, state="ready", as_new=True, limit=most)
        except MoveConflict as error:
            raise JobFailed(f"{error}: wait for it, or cancel it (`penstock moves list`)") from None
        try:
            while not move.has_ended:
                time.sleep(_LOOK_EVERY_S)
                move = self.client.find_move(move.id)
                self.run.progress.show(f"replaying {queue}", move.moved, most)
        except BaseException:
            self.client.cancel_move(move.id)
            raise
        self.run.progress.end()
        return move

    def some_of(self, queue: str, spark: SparkSession, where: str) -> None:
        summary = self.summary
        total = counted(self.client, queue)[0].ready
        others: list[str] = []
        undecided: list[str] = []
        try:
            while summary.looked_at < total:
                most = min(_PAGE, total - summary.looked_at)
                page = self.client.arrow.claim(queue, most, _HOLD_MS, attempt=uuid4().hex)
                if not page.num_rows:
                    break
                summary.looked_at += page.num_rows
                receipts = dict(zip(page["id"].to_pylist(), page["receipt"].to_pylist(), strict=True))
                undecided = list(receipts.values())
                found = matching(_frame(spark, page), where).select("id").collect()
                chosen = {row.id: receipts.pop(row.id) for row in found}
                self._move(queue, chosen)
                others += receipts.values()
                undecided = []
                self.run.progress.show(f"replaying {queue}", summary.looked_at, total)
        finally:
            # Held until now, so that each message is looked at once.
            given_back = others + undecided
            for start in range(0, len(given_back), _PAGE):
                self.client.release(queue, given_back[start : start + _PAGE])
        summary.left = len(others)
        self.run.progress.end()

    def _move(self, queue: str, chosen: dict[str, str]) -> None:
        """Messages by their ids, with the receipts of our claims."""
        held = list(compress(chosen, self.client.renew(queue, list(chosen.values()), _HOLD_MS)))
        moved = 0
        for start in range(0, len(held), limits.NAMED_LIMIT):
            some = held[start : start + limits.NAMED_LIMIT]
            moved += self.client.move_messages(queue, some, self.summary.to, as_new=True).count("done")
        self.summary.matched += len(chosen)
        self.summary.sent += moved
        self.summary.missed += len(chosen) - moved


def _frame(spark: SparkSession, page: pa.RecordBatch) -> DataFrame:
    wanted = ("id", "body", "content_type", "attributes", "sent_at", "receives", "queue", "group")
    columns = {name: page[name] for name in wanted}
    # Spark has instants in microseconds.
    columns["sent_at"] = columns["sent_at"].cast(pa.timestamp("us", "UTC"))
    return spark.createDataFrame(pa.table(columns))
