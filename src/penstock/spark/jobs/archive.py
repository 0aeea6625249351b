"""`archive`: the ledger's rows from the server into the lake, each exactly once.

Export by export: claim number n, write it to the folder of n, settle n. The rows stay in the server's ledger, which
has its own rules for how long it keeps them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.jobs.running import DEFAULT_URL, PATIENCE_S, JobFailed, how_it_ended, session_of, slices
from penstock.spark.lake import Lake, Place
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Conflict, Ended, Export, Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 1_000_000


@dataclass
class ArchiveSummary:
    consumer: str
    lake: str
    dry_run: bool = False
    exports: int = 0
    rows: int = 0
    # Exports whose rows the server's ledger no longer had.
    swept: list[int] = field(default_factory=list)
    next_export: int = 1
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return [f"export {number} could not be read: the ledger has let go of its rows" for number in self.swept]

    def lines(self) -> list[str]:
        if self.dry_run:
            return [f"would archive the ledger to {self.lake} from export {self.next_export} on"]
        return [
            f"archived {self.rows:,} ledger rows in {self.exports:,} exports to {self.lake} in {self.seconds:.1f} s"
        ]


def archive(
    spark: SparkSession | None,
    lake: str,
    *,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    consumer: str = "archive",
    limit: int = LIMIT,
    max_rows: int | None = None,
    partitions: int | None = None,
    patience_s: float = PATIENCE_S,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> ArchiveSummary:
    """Archives until the ledger has no row that is not in the lake, or about `max_rows` are archived."""
    summary = ArchiveSummary(consumer, lake, dry_run)
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire:
        summary.next_export = wire.next_export(consumer)
        if not dry_run:
            with session_of(spark, "archive", master, remote) as session:
                parts = slices(session, partitions)
                job = _Archive(session, wire, Lake(session, lake), summary, progress or Quiet(), api_key, parts)
                job.run(limit, max_rows)
    summary.seconds = time.monotonic() - started_at
    return summary


@dataclass
class _Archive:
    spark: SparkSession
    wire: Wire
    lake: Lake
    summary: ArchiveSummary
    progress: Progress
    api_key: str | None
    partitions: int

    def run(self, limit: int, max_rows: int | None) -> None:
        from penstock.spark.jobs.landing import clear_drafts

        summary = self.summary
        number = summary.next_export
        clear_drafts(self.spark, self.lake, Place(summary.consumer, 0), but=number)
        while max_rows is None or summary.rows < max_rows:
            most = limit if max_rows is None else min(limit, max_rows - summary.rows)
            try:
                export = self.wire.claim_export(summary.consumer, number, most)
            except (Ended, Conflict):
                # Another archive of the same consumer has been faster.
                number = self.wire.next_export(summary.consumer)
                continue
            if export is None:
                break
            self._take(export)
            number += 1
            self.progress.show("archiving the ledger: rows", summary.rows)
        self.progress.end()

    def _take(self, export: Export) -> None:
        from penstock.spark.jobs.landing import land
        from penstock.spark.jobs.ledger import read_export

        place = Place(export.consumer, export.number)
        try:
            landed = land(
                self.spark, self.lake, place, export.claimed_at, export.rows,
                lambda: read_export(self.spark, self.wire.url, self.api_key, export, self.partitions),
            )  # fmt: skip
        except JobFailed:
            raise
        except Exception:
            again = self.wire.read_export(export.consumer, export.number, export.after, export.through)
            how = how_it_ended(again)
            if how is None:
                raise
            if how != "settled":
                self.summary.swept.append(export.number)
                raise JobFailed(self.summary.problems[-1]) from None
            return
        self.wire.settle_export(export.consumer, export.number)
        self.summary.exports += 1
        self.summary.rows += landed.rows
