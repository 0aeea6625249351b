"""`triage`: what lies in a dead-letter queue, grouped, counted and sampled. Nothing is claimed or changed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.spark.jobs.running import DEFAULT_URL, PATIENCE_S, session_of
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 3
GROUPS = 100


@dataclass
class TriageSummary:
    queue: str
    dry_run: bool = False
    messages: int = 0
    groups: list[dict[str, Any]] = field(default_factory=list)
    # How many groups there are in all; `groups` has the largest.
    found: int = 0
    to: str | None = None
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return []

    def lines(self) -> list[str]:
        if self.dry_run:
            place = f" and write the groups to {self.to}" if self.to else ""
            return [f"would look at {self.messages:,} messages of {self.queue}{place}"]
        lines = [f"{self.messages:,} messages of {self.queue} in {self.found:,} groups"]
        if self.found > len(self.groups):
            lines.append(f"the largest {len(self.groups):,} are shown")
        return lines + ([f"all groups were written to {self.to}"] if self.to else [])


def triage(
    spark: SparkSession | None,
    queue: str,
    *,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    samples: int = SAMPLES,
    groups: int = GROUPS,
    to: str | None = None,
    patience_s: float = PATIENCE_S,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> TriageSummary:
    """The largest `groups` groups, each with its `samples` oldest messages; all groups as Parquet where `to` says."""
    summary = TriageSummary(queue, dry_run, to=to)
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire:
        summary.messages = wire.queue(queue)["count"]["total"]
    if dry_run:
        return summary
    with session_of(spark, "triage", master, remote) as session:
        from penstock.spark.jobs.grouping import grouped
        from penstock.spark.jobs.queues import peeked

        (progress or Quiet()).say(f"looking at {summary.messages:,} messages of {queue}")
        found = grouped(peeked(session, url, api_key, queue), samples).cache()
        try:
            summary.found = found.count()
            total = found.agg({"messages": "sum"}).collect()[0][0]
            summary.messages = total or 0
            if to is not None:
                found.write.mode("overwrite").parquet(to)
            largest = found.orderBy(found["messages"].desc(), "oldest_at").limit(groups).collect()
            summary.groups = [row.asDict(recursive=True) for row in largest]
        finally:
            found.unpersist()
    summary.seconds = time.monotonic() - started_at
    return summary
