from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from penstock.client import Client
from penstock.spark.jobs import JobFailed, Run, Server
from penstock.spark.report import Scope, report
from penstock.spark.report.files import TABLES
from penstock.spark.report.publish import write_by_hadoop
from tests.lacking import not_installed
from tests.servers import ThreadServer
from tests.spark.report.conftest import EIGHT, HOUR, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Archived = Callable[..., str]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = b"<script>document.title = 'taken over'</script>"


def day() -> list[tuple[object, ...]]:
    rows = [row(number, number * HOUR // 2, queue=f"q{number % 3}") for number in range(1, 49)]
    return [*rows, row(49, receives=3, queue="q0", body=HOSTILE), row(50, outcome="dead-lettered", queue="q1")]


def test_a_browser_shows_the_plots(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    if CHROMIUM is None:
        not_installed("chromium")
    page = tmp_path / "report.html"
    report(archived(day()), str(page), run=Run(spark))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    shown = subprocess.run([CHROMIUM, *flags, page.as_uri()], capture_output=True, text=True, check=True).stdout
    assert shown.count('<figure class="plot') == 4 * 8 + 1
    without = "two queues have nothing that was not processed, and no message was there at the end of an hour"
    assert shown.count('<p class="nothing">') == 2 + 4, without
    assert "2026-10-09 09:00 – 10:00 UTC\nsent: 2\nfinished: 2" in shown
    assert "<title>Penstock: what the ledger tells</title>" in shown
    assert "&lt;script&gt;document.title" in shown


def test_the_summary_says_what_was_read_and_where_the_page_is(
    spark: SparkSession, archived: Archived, tmp_path: Path
) -> None:
    to = tmp_path / "new" / "report.html"
    summary = report(archived(day()), str(to), run=Run(spark))
    assert (summary.rows, summary.queues, summary.consumer, summary.problems) == (50, 3, "archive", [])
    assert summary.bytes == to.stat().st_size
    assert str(to) in summary.lines()[0]


def test_again_it_writes_the_page_anew_and_leaves_nothing_else(
    spark: SparkSession, archived: Archived, tmp_path: Path
) -> None:
    to = tmp_path / "report.html"
    to.write_text("old")
    report(archived([row(1)]), to.as_uri(), run=Run(spark))
    assert to.read_text().startswith("<!doctype html>")
    assert [it.name for it in tmp_path.iterdir()] == ["report.html"]


def test_a_page_by_hadoop_replaces_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    for page in (b"one", b"two"):
        write_by_hadoop(spark, page, to.as_uri())
        assert to.read_bytes() == page
    assert [it.name for it in tmp_path.iterdir()] == ["report.html"]


def test_a_dry_run_writes_nothing(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    assert "would report" in report(archived([row(1)]), str(to), run=Run(spark, dry_run=True)).lines()[0]
    assert not to.exists()


def test_a_lake_without_a_ledger_gives_a_page_that_says_so(spark: SparkSession, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    summary = report(str(tmp_path / "lake"), str(to), figures=str(tmp_path / "figures"), run=Run(spark))
    assert summary.rows == 0
    assert "Nothing yet" in to.read_text()
    for name, columns in TABLES.items():
        table = pq.read_table(tmp_path / "figures" / f"{name}.parquet")
        assert (table.num_rows, table.column_names) == (0, list(columns))


def test_the_figures_say_what_they_are_of(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    lake, folder = archived(day()), tmp_path / "figures"
    summary = report(lake, str(tmp_path / "report.html"), figures=f"{folder.as_uri()}/", queues=2, run=Run(spark))
    assert sorted(Path(it).name for it in summary.figures) == sorted(it.name for it in folder.iterdir())
    assert all(it in "\n".join(summary.lines()) for it in summary.figures)
    totals = pq.read_table(folder / "totals.parquet")
    assert [(it["of"], it["queue"]) for it in totals.select(["of", "queue"]).to_pylist()] == [
        ("all", None), ("queue", "q0"), ("queue", "q1"), ("others", None),
    ]  # fmt: skip
    about = totals.schema.metadata
    assert about is not None
    assert (about[b"penstock.lake"].decode(), about[b"penstock.consumer"]) == (lake, b"archive")
    assert {str(it.type) for it in totals.schema if it.name.endswith("_at")} == {"timestamp[ms, tz=UTC]"}


def test_one_message_that_nobody_claimed_is_a_report(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    assert report(archived([row(1, wait=None, outcome="expired")]), str(to), run=Run(spark)).rows == 1
    assert "1 of 1 messages were lost, 100 %: 1 expired." in to.read_text()
    assert "past the queue&#39;s retention, never handed out" in to.read_text()


def test_of_many_queues_the_largest_are_shown(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    rows = [row(number, queue=f"q{number}") for number in range(1, 300)]
    assert report(archived([*rows, row(300, queue="q7")]), str(to), queues=1, run=Run(spark)).queues == 299
    assert "298 other queues" in to.read_text()
    assert ">q7</h2>" in to.read_text()
    assert ">q8</h2>" not in to.read_text()


def test_one_queue_and_a_part_of_the_time(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    since, until = (datetime.fromtimestamp((EIGHT + hours * HOUR) / 1000, UTC) for hours in (3, 6))
    summary = report(archived(day()), str(to), Scope(since, until, queue="q1"), run=Run(spark))
    assert summary.rows == 2
    assert "Only since 2026-10-09 11:00:00 and until 2026-10-09 14:00:00 UTC" in to.read_text()
    assert ">q1</h2>" in to.read_text()
    assert "q0" not in to.read_text()


def test_the_same_ledger_archived_twice_counts_once(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    to = str(tmp_path / "report.html")
    lake = archived([row(1), row(2)], "archive", "other")
    assert report(lake, to, run=Run(spark)).rows == 2
    assert report(lake, to, Scope(consumer="other"), run=Run(spark)).consumer == "other"
    with pytest.raises(JobFailed, match="choose one of left, right"):
        report(archived([row(1)], "left", "right"), to, run=Run(spark))


def test_a_time_that_ends_before_it_begins_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    when = datetime(2026, 10, 9, tzinfo=UTC)
    with pytest.raises(JobFailed, match="earlier"):
        report(str(tmp_path), str(tmp_path / "r.html"), Scope(when, when), run=Run(spark))


def test_it_tells_what_the_queues_hold_now(
    spark: SparkSession, archived: Archived, server: ThreadServer, tmp_path: Path
) -> None:
    to = tmp_path / "report.html"
    with Client(server.url) as client:
        client.create_queue("q0")
        client.send_many("q0", ["1", "2"])
        report(archived(day()), str(to), server=Server(server.url), run=Run(spark))
    table = to.read_text().partition("Queue by queue</h2>")[2].partition("</table>")[0]
    cells = re.findall(r"<a href=\"#queue-\d\">(q\d)</a>.*?>([^<>]+)</td></tr>", table)
    assert dict(cells) == {"q0": "2", "q1": "–", "q2": "–"}
