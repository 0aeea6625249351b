"""The data pipeline but for its drains: loading beside plain inserts, and the report beside a bare read.

Spark's session is open and warm before anything is timed. `--seconds` scales the number of messages: the usual five
seconds stand for 500,000 messages of 200 bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq

from bench import ledgers, servers
from bench.drains import PLAIN_BATCH, QUEUE, body_of, filled, timed
from bench.measure import Effort, Result, at_least, at_most
from penstock.clock import system_clock
from penstock.ids import body_hash
from penstock.spark.jobs import Run, Server, Shape, load
from penstock.spark.report.job import report
from penstock.spark.session import open_session

MESSAGES = 500_000
USUAL_SECONDS = 5
LEDGER_ROWS = 5_000_000
FILE_ROWS = 100_000
ROUNDS = 2


def pipeline(effort: Effort) -> Iterator[Result]:
    seconds = effort.seconds
    count = max(10_000, int(MESSAGES * seconds / USUAL_SECONDS))
    spark = open_session("bench")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
            folder = Path(name)
            _warm(spark, folder)
            yield _loads(spark, folder, count)
            yield _reports(spark, folder, int(LEDGER_ROWS * seconds / USUAL_SECONDS))
    finally:
        spark.stop()


def _warm(spark: Any, folder: Path) -> None:
    with filled(folder, 0) as store, servers.penstock(store) as (url, _process):
        _write_rows(store / "rows", 10_000)
        load(Server(url), [str(store / "rows")], QUEUE, shape=Shape(body_column="body"), run=Run(spark))


# Loading


def _write_rows(folder: Path, count: int) -> None:
    folder.mkdir()
    for file, start in enumerate(range(0, count, FILE_ROWS)):
        bodies = [body_of(number) for number in range(start, min(count, start + FILE_ROWS))]
        pq.write_table(pa.table({"body": pa.array(bodies, pa.binary())}), folder / f"{file}.parquet")


def _loads(spark: Any, folder: Path, count: int) -> Result:
    rows = folder / "rows"
    _write_rows(rows, count)
    ours, plain = [], []
    for _ in range(ROUNDS):
        with filled(folder, 0) as store:
            plain.append(count / timed(partial(_plain_load, store, rows)))
        with filled(folder, 0) as store, servers.penstock(store) as (url, _process):
            took = timed(partial(_checked_load, spark, url, rows, count))
            ours.append(count / took)
    shutil.rmtree(rows)
    return at_least(
        "`load` of Parquet over HTTP ÷ plain `apsw` inserts of 5,000 rows a transaction",
        0.8,
        max(ours) / max(plain),
        load=max(ours),
        plain=max(plain),
        messages=count,
    )


def _checked_load(spark: Any, url: str, rows: Path, count: int) -> None:
    done = load(Server(url), [str(rows)], QUEUE, shape=Shape(body_column="body"), run=Run(spark))
    if done.stored != count:
        raise RuntimeError(f"loaded {done.stored} of {count}")


def _plain_load(folder: Path, rows: Path) -> None:
    """The same rows into the same table, its index and hash included, with nothing around it."""
    connection = apsw.Connection(str(folder / "penstock.db"))
    connection.execute("PRAGMA synchronous = FULL")
    seq, now = 0, system_clock()
    for file in sorted(rows.iterdir()):
        for batch in pq.ParquetFile(file).iter_batches(PLAIN_BATCH):
            bodies = batch.column("body").to_pylist()
            with connection:
                connection.executemany(
                    """INSERT INTO message (seq, queue, ready_at, sent_at, receives, claim, body_hash, body)
                       VALUES (?, 1, 0, ?, 0, 0, ?, ?)""",
                    [(seq + at, now, body_hash(body), body) for at, body in enumerate(bodies, 1)],
                )
            seq += len(bodies)
    connection.close()


# Reporting


def _reports(spark: Any, folder: Path, rows: int) -> Result:
    lake = folder / "lake"
    ledgers.write(lake, rows)
    read = min(timed(partial(_count, spark, lake)) for _ in range(ROUNDS))
    took = min(timed(partial(report, str(lake), str(folder / "report.html"), run=Run(spark))) for _ in range(ROUNDS))
    shutil.rmtree(lake)
    return at_most(
        f"`report` over a ledger of {rows:,} rows ÷ Spark reading and counting it",
        6,
        took / read,
        report_s=took,
        read_s=read,
    )


def _count(spark: Any, lake: Path) -> int:
    """A bare count would look at the files' footers only: this reads the rows."""
    [row] = spark.read.parquet(str(lake / "ledger")).groupBy().count().collect()
    spark.read.parquet(str(lake / "ledger")).write.format("noop").mode("overwrite").save()
    return int(row[0])


MEASURES = {"pipeline": pipeline}
