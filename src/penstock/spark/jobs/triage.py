"""`triage`: what is in a dead-letter queue, grouped, counted and sampled. Nothing is claimed or changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLES = 3
GROUPS = 100
GROUP = ("content_type", "shape", "error", "source")
_SAMPLE_CHARACTERS = 200
_ERROR = "(?i)error|exception|reason|cause|fault|fail|problem|status"
_SOURCE = "(?i)^(x-)?(source|origin|producer|service|sender|application|app)([-_.].*)?$"


@dataclass
class TriageSummary(Summary):
    queue: str
    dry_run: bool = False
    messages: int = 0
    groups: list[dict[str, Any]] = field(default_factory=list)
    # How many groups there are in all; `groups` has the largest.
    found: int = 0
    to: str | None = None
    seconds: float = 0.0

    def lines(self) -> list[str]:
        if self.dry_run:
            place = f" and write the groups to {self.to}" if self.to else ""
            return [f"would look at {self.messages:,} messages of {self.queue}{place}"]
        lines = [f"{self.messages:,} messages of {self.queue} in {self.found:,} groups"]
        if self.found > len(self.groups):
            lines.append(f"the largest {len(self.groups):,} are shown")
        return lines + ([f"all groups were written to {self.to}"] if self.to else [])


def triage(
    server: Server,
    queue: str,
    *,
    samples: int = SAMPLES,
    groups: int = GROUPS,
    to: str | None = None,
    run: Run = Run(),
) -> TriageSummary:
    """The largest `groups` groups, each with its `samples` oldest messages; all groups as Parquet in `to`."""
    summary = TriageSummary(queue, run.dry_run, to=to)
    with timed(summary):
        with server.client() as client:
            summary.messages = counted(client, queue)[0].total
        if not run.dry_run:
            with run.session("triage") as session:
                run.progress.say(f"looking at {summary.messages:,} messages of {queue}")
                _fill(summary, grouped(server.read(session, queue), samples), groups)
    return summary


def _fill(summary: TriageSummary, found: DataFrame, groups: int) -> None:
    found = found.cache()
    try:
        summary.found = found.count()
        summary.messages = found.agg({"messages": "sum"}).collect()[0][0] or 0
        if summary.to is not None:
            found.write.mode("overwrite").parquet(summary.to)
        largest = found.orderBy(found["messages"].desc(), "oldest_at").limit(groups).collect()
        summary.groups = [row.asDict(recursive=True) for row in largest]
    finally:
        found.unpersist()


def grouped(messages: DataFrame, samples: int) -> DataFrame:
    """One row per group: `messages`, `bytes`, `oldest_at`, `newest_at`, `most_receives` and the oldest as `samples`."""
    text = F.col("body").cast("string")
    marked = messages.select(
        F.coalesce("content_type", F.lit("")).alias("content_type"),
        _shape(text).alias("shape"),
        _named(_ERROR, without_numbers=True).alias("error"),
        _named(_SOURCE, without_numbers=False).alias("source"),
        F.length("body").alias("bytes"),
        "id",
        "sent_at",
        "receives",
        # Cut here: whole bodies need not travel to be sorted.
        F.when(F.is_valid_utf8(text), F.left(text, F.lit(_SAMPLE_CHARACTERS)))
        .otherwise(F.hex(F.left("body", F.lit(_SAMPLE_CHARACTERS // 2))))
        .alias("text"),
    )
    group = Window.partitionBy(*GROUP)
    ranked = marked.select(
        "*",
        F.row_number().over(group.orderBy("sent_at", "id")).alias("rank"),
        F.count(F.lit(1)).over(group).alias("messages"),
        F.sum("bytes").over(group).alias("total"),
        F.min("sent_at").over(group).alias("oldest_at"),
        F.max("sent_at").over(group).alias("newest_at"),
        F.max("receives").over(group).alias("most_receives"),
    )
    sample = F.struct("rank", "id", "sent_at", "receives", "text")
    return (
        ranked.where(F.col("rank") <= max(samples, 1))
        .groupBy(*GROUP)
        .agg(
            F.first("messages").alias("messages"),
            F.first("total").alias("bytes"),
            F.first("oldest_at").alias("oldest_at"),
            F.first("newest_at").alias("newest_at"),
            F.first("most_receives").alias("most_receives"),
            F.slice(F.sort_array(F.collect_list(sample)), F.lit(1), F.lit(samples)).alias("samples"),
        )
        .withColumn("samples", F.transform("samples", lambda it: it.dropFields("rank")))
    )


def _shape(text: Column) -> Column:
    """The keys of a JSON object; else which kind of body it is."""
    keys = F.json_object_keys(text)
    return (
        F.when(~F.is_valid_utf8(text), "binary")
        .when(F.trim(text) == "", "empty")
        .when(
            keys.isNotNull(), F.concat(F.lit("{"), F.array_join(F.array_sort(F.array_distinct(keys)), ", "), F.lit("}"))
        )
        .when(F.trim(text).startswith("[") & F.try_parse_json(text).isNotNull(), "[…]")
        .otherwise("text")
    )


def _named(pattern: str, *, without_numbers: bool) -> Column:
    """The attributes with such names as `name=value`. Numbers in errors differ from one to the next of a kind."""
    chosen = F.map_filter("attributes", lambda name, _: F.rlike(name, F.lit(pattern)))
    pairs = F.transform(
        F.array_sort(F.map_entries(chosen)),
        lambda it: F.concat(it["key"], F.lit("="), F.coalesce(it["value"], F.lit(""))),
    )
    joined = F.array_join(pairs, "; ")
    return F.regexp_replace(joined, r"\d+", "N") if without_numbers else joined
