"""`dedup`: one message per content or key over the drained messages, as a new dataset. The lake itself is never
changed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.jobs.running import JobFailed, session_of
from penstock.spark.lake import Lake
from penstock.spark.progress import Progress, Quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class DedupSummary:
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

    @property
    def problems(self) -> list[str]:
        return []

    def lines(self) -> list[str]:
        verb = "would keep" if self.dry_run else "kept"
        lines = [f"{verb} {self.kept:,} of {self.messages:,} messages by {self.by}: {self.duplicates:,} duplicates"]
        if self.without_key:
            lines.append(f"{self.without_key:,} messages have no {self.by}; each of them counts as one of its own")
        if not self.dry_run:
            lines.append(f"written to {self.to} in {self.seconds:.1f} s")
        return lines


def dedup(
    spark: SparkSession | None,
    lake: str,
    to: str,
    *,
    by: str = "content",
    queue: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> DedupSummary:
    """`by` is `content`, `attribute:<name>` or `json:<path>` (`json:$.order.id`). The earliest of each key is kept,
    within its queue. What is at `to` is overwritten; it may not be in the lake."""
    progress = progress or Quiet()
    root = lake.rstrip("/")
    if f"{to.rstrip('/')}/".startswith((f"{root}/messages/", f"{root}/ledger/")) or to.rstrip("/") == root:
        raise JobFailed(f"{to} is in the lake, which dedup never changes")
    summary = DedupSummary(lake, by, to, dry_run)
    started_at = time.monotonic()
    with session_of(spark, "dedup", master, remote) as session:
        from penstock.spark.jobs.earliest import counts, earliest, keyed

        messages = Lake(session, lake).read_messages()
        if queue is not None:
            messages = messages.where(messages["queue"] == queue)
        marked = keyed(messages, by)
        progress.say(f"looking for duplicates by {by}")
        counted = counts(marked)
        summary.messages, summary.kept, summary.without_key = counted
        if not dry_run:
            earliest(marked).write.mode("overwrite").parquet(to)
    summary.seconds = time.monotonic() - started_at
    return summary
