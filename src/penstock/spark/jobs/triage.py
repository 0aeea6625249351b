"""`triage`: what is in a dead-letter queue, in clusters, counted and sampled. Nothing is claimed or changed.

With each cluster comes the command that brings it back, and nothing else: `replay` computes the cluster of a message by
the same expression.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client, MessageNotFound
from penstock.spark.jobs.clusters import TRAITS, cluster_of, traits
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLES = 3
CLUSTERS = 100
_SAMPLE_CHARACTERS = 200
# For people to fill in, where nothing tells where messages came from.
_SOMEWHERE = "QUEUE"


@dataclass
class TriageSummary(Summary):
    queue: str
    dry_run: bool = False
    messages: int = 0
    clusters: list[dict[str, Any]] = field(default_factory=list)
    # How many clusters there are in all; `clusters` has the largest.
    found: int = 0
    to: str | None = None
    seconds: float = 0.0

    def lines(self) -> list[str]:
        if self.dry_run:
            place = f" and write the clusters to {self.to}" if self.to else ""
            return [f"would look at {self.messages:,} messages of {self.queue}{place}"]
        lines = [f"{self.messages:,} messages of {self.queue} in {self.found:,} clusters"]
        if self.found > len(self.clusters):
            lines.append(f"the largest {len(self.clusters):,} are shown")
        return lines + ([f"all clusters were written to {self.to}"] if self.to else [])


def triage(
    server: Server,
    queue: str,
    *,
    samples: int = SAMPLES,
    clusters: int = CLUSTERS,
    to: str | None = None,
    run: Run = Run(),
) -> TriageSummary:
    """The largest `clusters` clusters, each with its `samples` oldest messages and the command that replays it; all
    clusters as Parquet in `to`."""
    summary = TriageSummary(queue, run.dry_run, to=to)
    with timed(summary), server.client() as client:
        summary.messages = counted(client, queue)[0].total
        if not run.dry_run:
            with run.session("triage") as session:
                run.progress.say(f"looking at {summary.messages:,} messages of {queue}")
                _fill(summary, clustered(server.read(session, queue), samples), clusters)
            for cluster in summary.clusters:
                home = _home_of(client, queue, cluster.pop("first"))
                cluster["replay"] = replay_command(server.url, queue, home, cluster["cluster"])
    return summary


def replay_command(url: str, queue: str, to: str, cluster: str) -> str:
    """For a shell."""
    where = f"cluster = '{cluster}'"
    words = ("penstock", "pipeline", "replay", "--queue", queue, "--to", to, "--where", where, "--yes")
    return shlex.join(words if url == Server.url else (*words, "--url", url))


def _home_of(client: Client, queue: str, message_id: str) -> str:
    """Where a message came from: it knows itself, or only one queue sends its dead letters here."""
    try:
        came_from = client.find_message(queue, message_id).came_from
    except MessageNotFound:
        came_from = None
    if came_from is not None:
        return came_from
    redrives = ((it.name, it.settings.get("redrive")) for it in client.queues(count=False))
    homes = [name for name, redrive in redrives if redrive is not None and redrive["dead_letter_queue"] == queue]
    return homes[0] if len(homes) == 1 else _SOMEWHERE


def _fill(summary: TriageSummary, found: DataFrame, clusters: int) -> None:
    found = found.cache()
    try:
        summary.found = found.count()
        summary.messages = found.agg({"messages": "sum"}).collect()[0][0] or 0
        if summary.to is not None:
            found.drop("first").write.mode("overwrite").parquet(summary.to)
        largest = found.orderBy(found["messages"].desc(), "oldest_at", "cluster").limit(clusters).collect()
        summary.clusters = [row.asDict(recursive=True) for row in largest]
    finally:
        found.unpersist()


def clustered(messages: DataFrame, samples: int) -> DataFrame:
    """One row per cluster: its traits, `messages`, `bytes`, `oldest_at`, `newest_at`, `most_receives`, the id of its
    `first` message and the oldest as `samples`."""
    text = F.col("body").cast("string")
    marked = messages.select(
        cluster_of(text).alias("cluster"),
        *(trait.alias(name) for name, trait in traits(text).items()),
        F.length("body").alias("bytes"),
        "id",
        "sent_at",
        "receives",
        # Cut here: whole bodies need not travel to be sorted.
        F.when(F.is_valid_utf8(text), F.left(text, F.lit(_SAMPLE_CHARACTERS)))
        .otherwise(F.hex(F.left("body", F.lit(_SAMPLE_CHARACTERS // 2))))
        .alias("text"),
    )
    cluster = Window.partitionBy("cluster")
    ranked = marked.select(
        "*",
        F.row_number().over(cluster.orderBy("sent_at", "id")).alias("rank"),
        F.count(F.lit(1)).over(cluster).alias("messages"),
        F.sum("bytes").over(cluster).alias("total"),
        F.min("sent_at").over(cluster).alias("oldest_at"),
        F.max("sent_at").over(cluster).alias("newest_at"),
        F.max("receives").over(cluster).alias("most_receives"),
    )
    sample = F.struct("rank", "id", "sent_at", "receives", "text")
    return (
        ranked.where(F.col("rank") <= max(samples, 1))
        .groupBy("cluster", *TRAITS)
        .agg(
            F.first("messages").alias("messages"),
            F.first("total").alias("bytes"),
            F.first("oldest_at").alias("oldest_at"),
            F.first("newest_at").alias("newest_at"),
            F.first("most_receives").alias("most_receives"),
            F.min_by("id", "rank").alias("first"),
            F.slice(F.sort_array(F.collect_list(sample)), F.lit(1), F.lit(samples)).alias("samples"),
        )
        .withColumn("samples", F.transform("samples", lambda it: it.dropFields("rank")))
    )
