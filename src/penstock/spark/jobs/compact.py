"""`compact`: the small files of a lake's Delta tables into larger ones, and away with what no reader has any longer.

Each partition is merged by a task, in a transaction of its own, so drains may go on meanwhile, and readers see a
partition before or after. Rows and manifests stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.lake import Lake
from penstock.spark.manifest import LEDGER, MESSAGES
from penstock.spark.tables import Merged, Partition
from penstock.spark.tasks import each_in_task

TARGET_SIZE = 128 * 1024 * 1024
OLDER_THAN_MS = 7 * 24 * 60 * 60 * 1000
_HOUR_MS = 60 * 60 * 1000


@dataclass
class CompactSummary(Summary):
    lake: str
    queue: str | None = None
    dry_run: bool = False
    partitions: int = 0
    # Before and after, in those partitions.
    small_files: int = 0
    files: int = 0
    bytes: int = 0
    vacuumed: int = 0
    seconds: float = 0.0

    def lines(self) -> list[str]:
        what = (
            f"{self.small_files:,} small files ({self.bytes:,} bytes) in {self.partitions:,} partitions of {self.lake}"
        )
        if self.dry_run:
            return [f"would merge {what}, and remove {self.vacuumed:,} files that are no longer part of it"]
        return [
            f"merged {what} into {self.files:,}, and removed {self.vacuumed:,} files that were no longer part of it, "
            f"in {self.seconds:.1f} s"
        ]


def compact(
    lake: str,
    *,
    queue: str | None = None,
    target_size: int = TARGET_SIZE,
    older_than_ms: int = OLDER_THAN_MS,
    run: Run = Run(),
) -> CompactSummary:
    """Merges until files have about `target_size` bytes, and removes files that have not been part of the tables for
    `older_than_ms`: those who began to read or to write them then must be done by now. Of one queue, or of all and
    the ledger."""
    if older_than_ms < _HOUR_MS:
        raise ValueError("files must be an hour old at least: others may still be reading or writing them")
    summary = CompactSummary(lake, queue, run.dry_run)
    with timed(summary), run.session("compact") as session:
        place = Lake(session, lake)
        place.check_exists()
        for root in (MESSAGES,) if queue is not None else (MESSAGES, LEDGER):
            table = place.table(root)
            scattered = place.do(partial(table.scattered, queue, target_size), list[Partition])
            summary.partitions += len(scattered)
            summary.bytes += sum(it.bytes for it in scattered)
            if run.dry_run:
                summary.small_files += sum(it.files for it in scattered)
            else:
                run.progress.say(f"merging files in {len(scattered):,} partitions of {root}")
                merged = each_in_task(session, partial(table.merge, target_size=target_size), scattered, Merged)
                summary.small_files += sum(it.removed for it in merged)
                summary.files += sum(it.added for it in merged)
            hours = -(-older_than_ms // _HOUR_MS)
            run.progress.say(f"looking for files that are not part of {root} any longer")
            summary.vacuumed += len(place.do(partial(table.vacuum, hours, dry_run=run.dry_run), list[str]))
    return summary
