"""`report`: what the archived ledger tells, as one HTML page and as Parquet. It reads the lake and changes nothing; run
again, it replaces what it has written."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client
from penstock.clock import system_clock
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.run import Run, Summary, settings, timed
from penstock.spark.lake import Lake
from penstock.spark.report import figures as numbers
from penstock.spark.report.axis import DAY_MS, HOUR_MS, Axis, make_axis
from penstock.spark.report.files import files_of
from penstock.spark.report.live import held
from penstock.spark.report.page import Facts, render
from penstock.spark.report.publish import publish
from penstock.spark.report.tables import Cause, Days, days_of, entries, series_of
from penstock.spark.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# The name under which `archive` archives unless it is told another.
_USUAL_CONSUMER = "archive"
# More would not be read: the small ones are shown together.
QUEUES_TOLD = 12
MESSAGES_LISTED = 10
CAUSES_LISTED = 20
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
    figures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        if self.dry_run:
            return [
                f"would report on the ledger in {self.lake} (archived as {self.consumer or 'no consumer'}) to {self.to}"
            ]
        if self.rows:
            done = f"reported on {self.rows:,} ledger rows of {self.queues:,} queues in {self.seconds:.1f} s: {self.to}"
        else:
            done = f"no ledger rows in {self.lake}: a page that says so is in {self.to}"
        return [done, *(f"figures: {path}" for path in self.figures)]


def report(
    lake: str,
    to: str,
    scope: Scope = Scope(),
    *,
    figures: str | None = None,
    queues: int = QUEUES_TOLD,
    server: Server | None = None,
    run: Run = Run(),
) -> ReportSummary:
    """Writes the page to `to`, a local file or a path that Hadoop knows, and the figures on it as Parquet files into
    the folder `figures`. The `queues` with the most messages are shown one by one. With a `server` the page also tells
    what its queues hold now, and held during the last day."""
    summary = ReportSummary(lake, to, run.dry_run)
    if scope.since_ms is not None and scope.until_ms is not None and scope.since_ms >= scope.until_ms:
        raise JobFailed("`since` must be earlier than `until`")
    with timed(summary), server.client() if server else nullcontext() as client, run.session("report") as session:
        place = Lake(session, lake)
        summary.consumer = _chosen(place.archivists(), scope.consumer)
        if not run.dry_run:
            with settings(session, _FOR_FEW_GROUPS):
                facts = _facts(place, scope, queues, summary, client, run)
            summary.rows, summary.queues = facts.rows, facts.distinct
            page = render(facts).encode()
            summary.bytes = len(page)
            if figures is not None:
                for name, content in files_of(facts).items():
                    path = f"{figures.rstrip('/')}/{name}"
                    publish(session, content, path)
                    summary.figures.append(path)
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


def _facts(lake: Lake, scope: Scope, queues: int, summary: ReportSummary, client: Client | None, run: Run) -> Facts:
    since, until = scope.since_ms, scope.until_ms
    empty = Facts(summary.lake, summary.consumer, system_clock(), since=since, until=until, queue=scope.queue)
    archived = lake.read_ledger().where(F.col("consumer") == (summary.consumer or ""))
    rows = numbers.within(archived, since, until, scope.queue)
    run.progress.say("looking at the ledger")
    total = numbers.totals(rows, queues).collect()[0]
    if not total.messages:
        return empty
    names = [it.queue for it in total.queues]
    axis = _axis(total, scope)
    run.progress.say(f"counting {total.messages:,} rows per {axis.unit}")
    found = series_of(_values(numbers.figures(numbers.histogram(rows, axis, names), axis, names)), axis)
    known_to = numbers.known_to(archived).collect()[0].known_to
    run.progress.say("comparing the last day with the day before")
    compared = _days(archived, scope, min(total.finished_to, axis.to_ms - 1), known_to, names)
    run.progress.say("looking for lost, slow, large and retried messages")
    ended = numbers.finished_in(rows, axis)
    lost = [Cause(**it) for it in _values(numbers.causes(ended, CAUSES_LISTED))]
    [most] = _values(numbers.extremes(ended, MESSAGES_LISTED))
    slowest, retried, largest = (list(most[name] or ()) for name in ("slowest", "retried", "largest"))
    wanted = sorted({*slowest, *retried, *largest})
    listed = _values(numbers.looked_up(rows, wanted, _EXCERPT_BYTES)) if wanted else []
    # All queues together come first, and the small ones last.
    order: dict[str | None, int] = {name: place for place, name in enumerate([None, *names])}
    return replace(
        empty,
        axis=axis,
        rows=total.messages,
        distinct=total.distinct,
        known_to=known_to,
        series=dict(sorted(found.items(), key=lambda it: order.get(it[0], len(order)))),
        days=compared,
        causes=lost,
        slowest=entries(listed, slowest),
        retried=entries(listed, retried),
        largest=entries(listed, largest),
        live=None if client is None else held(client, names, axis),
    )


def _values(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _axis(total: Row, scope: Scope) -> Axis:
    """From the first send to the last finish. But a few messages that were sent long before anything finished must not
    squeeze all the others into a corner: what came before is shown as backlog."""
    since, until = scope.since_ms, scope.until_ms
    last = total.finished_to if until is None else min(total.finished_to, until - 1)
    if since is not None:
        axis = make_axis(since, max(last, since))
    else:
        lead = max(last - total.finished_from, HOUR_MS)
        first = max(total.sent_from, total.finished_from - lead)
        axis = make_axis(min(first, last), last)
    return replace(axis, since_ms=since, until_ms=until)


def _days(archived: DataFrame, scope: Scope, last_ms: int, known_to: int, names: list[str]) -> Days:
    """The day of the last finish, as far as the archive knows it, and the day before even if that is not asked for."""
    day = last_ms // DAY_MS * DAY_MS
    until = min(day + DAY_MS, known_to, scope.until_ms or known_to)
    rows = archived if scope.queue is None else archived.where(F.col("queue") == scope.queue)
    return days_of(_values(numbers.days(rows, day, until, names)), day, until)
