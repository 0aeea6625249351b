"""`retire`: out of the lake with what is older than so many days, and noted so that no audit misses it.

Delta tables lose whole days, in one transaction. Plain files go as they came, a shipment or an export each, when the
newest of their rows is old enough. The manifest of what has gone says how many rows it had, and since when it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penstock.clock import system_clock
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.lake import Lake
from penstock.spark.manifest import LEDGER, MESSAGES
from penstock.spark.tables import Retired

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass
class RetireSummary(Summary):
    lake: str
    days: int
    queue: str | None = None
    dry_run: bool = False
    shipments: int = 0
    messages: int = 0
    exports: int = 0
    rows: int = 0
    files: int = 0
    seconds: float = 0.0

    def lines(self) -> list[str]:
        verb = "would retire" if self.dry_run else "retired"
        return [
            f"{verb} {self.messages:,} messages of {self.shipments:,} shipments and {self.rows:,} ledger rows of "
            f"{self.exports:,} exports that are older than {self.days:,} days ({self.files:,} files) in {self.lake}"
        ]


def retire(
    lake: str, days: int, *, queue: str | None = None, now_ms: int | None = None, run: Run = Run()
) -> RetireSummary:
    """What was sent before the last `days` days and today, in UTC, and the ledger's rows of what was finished before;
    only messages where a `queue` is named."""
    if days < 0:
        raise ValueError("days are not negative")
    now = system_clock() if now_ms is None else now_ms
    before = (now // _DAY_MS - days) * _DAY_MS
    summary = RetireSummary(lake, days, queue, run.dry_run)
    with timed(summary), run.session("retire") as session:
        place = Lake(session, lake)
        place.check_exists()
        run.progress.say("looking for what is old enough")
        found = place.do(partial(place.table(MESSAGES).retire, before, queue, now, dry_run=run.dry_run), Retired)
        summary.shipments, summary.messages, summary.files = found.places, found.rows, found.files
        if queue is None:
            found = place.do(partial(place.table(LEDGER).retire, before, None, now, dry_run=run.dry_run), Retired)
            summary.exports, summary.rows = found.places, found.rows
            summary.files += found.files
    return summary
