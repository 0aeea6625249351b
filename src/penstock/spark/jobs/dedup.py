"""`dedup`: one message per content or key over the drained messages, as a new dataset. The lake itself is never
changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.errors import JobFailed
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.jobs.sends import body_bytes
from penstock.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = "_key"
_RANK = "_rank"


@dataclass
class DedupSummary(Summary):
    lake: str
    by: str
    to: str
    dry_run: bool = False
    messages: int = 0
    kept: int = 0
    without_key: int = 0
    seconds: float = 0.0

    @property
    def duplicates(self) -> int:
        return self.messages - self.kept

    def lines(self) -> list[str]:
        verb = "would keep" if self.dry_run else "kept"
        lines = [f"{verb} {self.kept:,} of {self.messages:,} messages by {self.by}: {self.duplicates:,} duplicates"]
        if self.without_key:
            lines.append(f"{self.without_key:,} messages have no {self.by}; each of them counts as one of its own")
        if not self.dry_run:
            lines.append(f"written to {self.to} in {self.seconds:.1f} s")
        return lines


def dedup(lake: str, to: str, *, by: str = "content", queue: str | None = None, run: Run = Run()) -> DedupSummary:
    """`by` is `content`, `attribute:<name>` or `json:<path>` (`json:$.order.id`). The earliest of each key is kept,
    within its queue. What is at `to` is overwritten; it may not be in the lake."""
    root = lake.rstrip("/")
    if f"{to.rstrip('/')}/".startswith((f"{root}/messages/", f"{root}/ledger/")) or to.rstrip("/") == root:
        raise JobFailed(f"{to} is in the lake, which dedup never changes")
    summary = DedupSummary(lake, by, to, run.dry_run)
    with timed(summary), run.session("dedup") as session:
        messages = Lake(session, lake).read_messages()
        if queue is not None:
            messages = messages.where(messages["queue"] == queue)
        marked = keyed(messages, by)
        run.progress.say(f"looking for duplicates by {by}")
        summary.messages, summary.kept, summary.without_key = counts(marked)
        if not run.dry_run:
            earliest(marked).write.mode("overwrite").parquet(to)
    return summary


def keyed(messages: DataFrame, by: str) -> DataFrame:
    """With a column for the key, null where a message has none."""
    kind, _, name = by.partition(":")
    body = body_bytes(messages)
    if by == "content":
        # Two hashes of bodies instead of the bodies: they are moved between machines to be compared.
        key = F.when(body.isNotNull(), F.concat_ws("-", F.sha2(body, 256), F.length(body)))
    elif kind == "attribute" and name:
        key = F.try_element_at("attributes", F.lit(name))
    elif kind == "json" and name:
        path = name if name.startswith("$") else f"$.{name}"
        key = F.get_json_object(body.cast("string"), path)
    else:
        raise JobFailed(f"{by!r} is not a key: write content, attribute:<name> or json:<path>")
    return messages.withColumn(_KEY, key)


def earliest(marked: DataFrame) -> DataFrame:
    """One message per queue and key, the one that was sent first, and every message without a key."""
    # A message without a key is alone with its id; the flag keeps an id from passing for a key.
    alone = F.col(_KEY).isNull()
    group = Window.partitionBy("queue", alone, F.coalesce(_KEY, "id")).orderBy("sent_at", "id", "consumer", "shipment")
    return marked.withColumn(_RANK, F.row_number().over(group)).where(F.col(_RANK) == 1).drop(_KEY, _RANK)


def counts(marked: DataFrame) -> tuple[int, int, int]:
    """Messages, those that are the earliest of their key, and those without a key."""
    alone = F.col(_KEY).isNull()
    groups = marked.groupBy("queue", alone.alias("alone"), F.coalesce(_KEY, "id")).agg(F.count(F.lit(1)).alias("n"))
    [row] = groups.agg(
        F.coalesce(F.sum("n"), F.lit(0)).alias("messages"),
        F.count(F.lit(1)).alias("kept"),
        F.coalesce(F.sum(F.when(F.col("alone"), F.col("n"))), F.lit(0)).alias("without_key"),
    ).collect()
    return row.messages, row.kept, row.without_key
