"""`audit`: nothing lost, nothing twice. It compares the server's counters, its ledger, its shipments and the lake.

It only reads. What does not add up is a finding; messages that come and go meanwhile are allowed for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.jobs.running import DEFAULT_URL, PATIENCE_S, session_of
from penstock.spark.lake import Lake
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class AuditSummary:
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


def audit(
    spark: SparkSession | None,
    lake: str | None = None,
    *,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    patience_s: float = PATIENCE_S,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> AuditSummary:
    """Without a lake, the counters and the server's own ledger are compared."""
    progress = progress or Quiet()
    summary = AuditSummary(lake, dry_run)
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire:
        names = [queue["name"] for queue in wire.queues()]
        summary.queues = len(names)
        if dry_run:
            return summary
        before = {name: wire.queue(name) for name in names}
        with session_of(spark, "audit", master, remote) as session:
            from penstock.spark.jobs.auditing import Auditing

            job = Auditing(session, wire, Lake(session, lake) if lake else None, summary, api_key)
            progress.say(f"counting the messages of {len(names):,} queues")
            job.counters(before)
            progress.say("comparing the ledger")
            job.ledger(before)
            if lake is not None:
                progress.say("comparing the lake with the shipments")
                job.shipments(before)
                progress.say("looking for messages twice, or without a ledger row")
                job.messages(before)
    summary.seconds = time.monotonic() - started_at
    return summary
