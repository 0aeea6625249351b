"""`report`: what the archived ledger tells, as one HTML page. It reads the lake and changes nothing; run again, it
replaces the page."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client, QueueNotFound
from penstock.clock import system_clock
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.run import Run, Summary, settings, timed
from penstock.spark.lake import Lake
from penstock.spark.report import figures
from penstock.spark.report.axis import HOUR_MS, Axis, make_axis
from penstock.spark.report.page import Facts, render
from penstock.spark.report.publish import publish
from penstock.spark.report.tables import entries, series_of
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# The name under which `archive` archives unless it is told another.
_USUAL_CONSUMER = "archive"
# More would not be read: the small ones are shown together.
QUEUES_TOLD = 12
MESSAGES_LISTED = 10
_EXCERPT_BYTES = 512
# What is grouped here becomes small at once: most of Spark's usual 200 partitions would be empty ones.
_FOR_FEW_GROUPS = {"spark.sql.shuffle.partitions": "8"}


@dataclass(frozen=True)
class Scope:
    """What a report is about. `since` and `until` bound the time, `queue` takes one queue only. A lake may hold the
    ledger more than once, archived by several consumers: `consumer` says which to read. A datetime without a zone is
    UTC."""

    since: datetime | None = None
    until: datetime | None = None
    queue: str | None = None
    consumer: str | None = None

    @property
    def since_ms(self) -> int | None:
        return _ms(self.since)

    @property
    def until_ms(self) -> int | None:
        return _ms(self.until)


@dataclass
class ReportSummary(Summary):
    lake: str
    to: str
    dry_run: bool = False
    consumer: str | None = None
    rows: int = 0
    queues: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def lines(self) -> list[str]:
        if self.dry_run:
            return [
                f"would report on the ledger in {self.lake} (archived as {self.consumer or 'no consumer'}) to {self.to}"
            ]
        if not self.rows:
            return [f"no ledger rows in {self.lake}: a page that says so is in {self.to}"]
        return [f"reported on {self.rows:,} ledger rows of {self.queues:,} queues in {self.seconds:.1f} s: {self.to}"]


def report(
    lake: str, to: str, scope: Scope = Scope(), *, server: Server | None = None, run: Run = Run()
) -> ReportSummary:
    """Writes the page to `to`, a local file or a path that Hadoop knows. With a `server` the page also tells how many
    messages its queues hold now."""
    summary = ReportSummary(lake, to, run.dry_run)
    if scope.since_ms is not None and scope.until_ms is not None and scope.since_ms >= scope.until_ms:
        raise JobFailed("`since` must be earlier than `until`")
    with timed(summary), server.client() if server else nullcontext() as client, run.session("report") as session:
        place = Lake(session, lake)
        summary.consumer = _chosen(place.archivists(), scope.consumer)
        if not run.dry_run:
            with settings(session, _FOR_FEW_GROUPS):
                facts = _facts(place, scope, summary, client, run)
            summary.rows, summary.queues = facts.rows, facts.distinct
            page = render(facts).encode()
            summary.bytes = len(page)
            publish(session, page, to)
    return summary


def _ms(when: datetime | None) -> int | None:
    if when is None:
        return None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _chosen(found: list[str], wanted: str | None) -> str | None:
    """Two consumers have archived the same rows: to read both would count them twice."""
    if wanted is not None or not found:
        return wanted
    if _USUAL_CONSUMER in found or len(found) == 1:
        return _USUAL_CONSUMER if _USUAL_CONSUMER in found else found[0]
    raise JobFailed(f"several consumers have archived the ledger there: choose one of {', '.join(found)}")


def _facts(lake: Lake, scope: Scope, summary: ReportSummary, client: Client | None, run: Run) -> Facts:
    since, until = scope.since_ms, scope.until_ms
    empty = Facts(summary.lake, summary.consumer, system_clock(), since=since, until=until, queue=scope.queue)
    archived = lake.read_ledger().where(F.col("consumer") == (summary.consumer or ""))
    rows = figures.within(archived, since, until, scope.queue)
    run.progress.say("looking at the ledger")
    total = figures.totals(rows, QUEUES_TOLD).collect()[0]
    if not total.messages:
        return empty
    names = [it.queue for it in total.queues]
    axis = _axis(total, scope)
    run.progress.say(f"counting {total.messages:,} rows per {axis.unit}")
    found = series_of(
        (row.asDict() for row in figures.figures(figures.histogram(rows, axis), names).collect()), axis.count
    )
    run.progress.say("looking for the slowest and the most retried")
    slowest, retried = _extremes(rows)
    listed = _looked_up(rows, [*slowest, *retried])
    order = {name: place for place, name in enumerate(names)}
    return replace(
        empty,
        axis=axis,
        rows=total.messages,
        distinct=total.distinct,
        series=dict(sorted(found.items(), key=lambda it: order.get(it[0] or "", len(order)))),
        slowest=entries(listed, slowest),
        retried=entries(listed, retried),
        live=None if client is None else _live(client, names),
    )


def _axis(total: Row, scope: Scope) -> Axis:
    """From the first send to the last finish. But a few messages that were sent long before anything finished must not
    squeeze all the others into a corner: what came before is shown as backlog."""
    since, until = scope.since_ms, scope.until_ms
    last = total.finished_to if until is None else min(total.finished_to, until - 1)
    if since is not None:
        return make_axis(since, max(last, since))
    lead = max(last - total.finished_from, HOUR_MS)
    first = max(total.sent_from, total.finished_from - lead)
    return make_axis(min(first, last), last)


def _extremes(rows: DataFrame) -> tuple[list[int], list[int]]:
    found = figures.extremes(rows, MESSAGES_LISTED).collect()[0]
    return list(found.slowest or []), list(found.retried or [])


def _looked_up(rows: DataFrame, numbers: list[int]) -> list[dict[str, object]]:
    if not numbers:
        return []
    return [row.asDict() for row in figures.looked_up(rows, sorted(set(numbers)), _EXCERPT_BYTES).collect()]


def _live(client: Client, names: list[str]) -> dict[str, int]:
    """How many messages each queue holds now; a queue that is gone is left out."""
    live = {}
    for name in names:
        try:
            live[name] = counted(client, name)[0].total
        except QueueNotFound:
            continue
    return live
