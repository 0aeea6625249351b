"""`archive`: the ledger's rows from the server into the lake, each exactly once.

Export by export: claim number n, write its file, settle n. The rows stay in the server's ledger, which has
its own rules for how long it keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.client import Client, Export, ExportRef, ShipmentConflict, ShipmentEnded
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.lake import Lake
from penstock.spark.landing import Landing
from penstock.spark.server import Server
from penstock.spark.session import WITHOUT_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 1_000_000


@dataclass
class ArchiveSummary(Summary):
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
        return [f"export {number} could not be read: the ledger no longer has its rows" for number in self.swept]

    def lines(self) -> list[str]:
        if self.dry_run:
            return [f"would archive the ledger to {self.lake} from export {self.next_export} on"]
        return [
            f"archived {self.rows:,} ledger rows in {self.exports:,} exports to {self.lake} in {self.seconds:.1f} s"
        ]


def archive(
    server: Server,
    lake: str,
    *,
    consumer: str = "archive",
    limit: int = LIMIT,
    max_rows: int | None = None,
    format: str | None = None,  # noqa: A002
    run: Run = Run(),
) -> ArchiveSummary:
    """Archives until the ledger has no row that is not in the lake, or about `max_rows` are archived. `format` is what
    the lake's tables are to be, as for `drain`."""
    summary = ArchiveSummary(consumer, lake, run.dry_run)
    with timed(summary), server.client() as client:
        summary.next_export = client.next_export(consumer).number
        if not run.dry_run:
            with run.session("archive", WITHOUT_ROWS) as session:
                into = Lake(session, lake, format)
                _Archive(session, server, client, into, into.format, summary, run).all(limit, max_rows)
    return summary


@dataclass
class _Archive:
    spark: SparkSession
    server: Server
    client: Client
    lake: Lake
    format: str
    summary: ArchiveSummary
    run: Run

    def all(self, limit: int, max_rows: int | None) -> None:
        summary = self.summary
        number = summary.next_export
        self.lake.clear_staging()
        while max_rows is None or summary.rows < max_rows:
            most = limit if max_rows is None else min(limit, max_rows - summary.rows)
            try:
                export = self.client.claim_export(ExportRef(summary.consumer, number), most)
            except (ShipmentEnded, ShipmentConflict):
                # Another archive of the same consumer was faster.
                number = self.client.next_export(summary.consumer).number
                continue
            if export is None:
                break
            self._one(export)
            number += 1
            self.run.progress.show("archiving the ledger: rows", summary.rows)
        self.run.progress.end()

    def _one(self, export: Export) -> None:
        landed = Landing(self.server, self.lake.storage, export, table_format=self.format).run(self.spark)
        if landed.error is not None:
            raise JobFailed(landed.error)
        if landed.ended == "settled":
            return  # by another archive of the same consumer, which has put the same file there
        if landed.manifest is None:
            self.summary.swept.append(export.number)
            raise JobFailed(self.summary.problems[-1])
        self.client.settle_export(export)
        self.summary.exports += 1
        self.summary.rows += landed.manifest.rows
