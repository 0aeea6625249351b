"""The data pipeline: draining and loading beside plain Python on the same kind of file, the report beside a bare read,
and a second worker beside the first.

Spark's session is open and warm before anything is timed. `--seconds` scales the number of messages: the usual five
seconds stand for 500,000 messages of 200 bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq

from bench import ledgers, servers
from bench.measure import Effort, Result, at_least, at_most
from devtools.spark_cluster import Cluster
from penstock.clock import system_clock
from penstock.ids import body_hash
from penstock.model import Draft, Message, Receipt, Settings
from penstock.spark.jobs import Body, Run, Server, Shape, drain, load
from penstock.spark.report.job import report
from penstock.spark.session import open_session
from penstock.stores import open_store

MESSAGES = 500_000
USUAL_SECONDS = 5
TIMES_DEEPER = 10
LEDGER_ROWS = 5_000_000
QUEUE = "q"
# As many as our own shipments claim and settle in a unit.
PLAIN_BATCH = 5_000
FILE_ROWS = 100_000
ROUNDS = 2
_SENT = 10_000
_JSON_SCHEMA = "order BIGINT, customer STRING, total DOUBLE, note STRING"


def pipeline(effort: Effort) -> Iterator[Result]:
    seconds = effort.seconds
    count = max(10_000, int(MESSAGES * seconds / USUAL_SECONDS))
    spark = open_session("bench")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
            folder = Path(name)
            _warm(spark, folder)
            rate, result = _drains(spark, folder, count)
            yield result
            yield _loads(spark, folder, count)
            yield from _deeper(spark, folder, count, rate)
            yield _reports(spark, folder, int(LEDGER_ROWS * seconds / USUAL_SECONDS))
    finally:
        spark.stop()
    yield _workers(count)


def _body(number: int) -> bytes:
    """An order of 200 bytes, as JSON."""
    head = b'{"order": %d, "customer": "c%d", "total": %d.5, "note": "' % (number, number % 997, number % 89)
    return head + b"x" * (198 - len(head)) + b'"}'


def _fill(store: Path, count: int) -> None:
    opened = open_store(f"sqlite:///{store}")
    with opened.unit() as unit:
        unit.create_queue(QUEUE, Settings(), system_clock())
    for start in range(0, count, _SENT):
        drafts = [Draft(_body(number)) for number in range(start, min(count, start + _SENT))]
        with opened.unit() as unit:
            unit.send(QUEUE, drafts, system_clock())
    opened.close()


@contextmanager
def _filled(folder: Path, count: int) -> Iterator[Path]:
    """A folder with a store that holds so many messages."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        _fill(Path(name, "penstock.db"), count)
        yield Path(name)


def _timed(function: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    function()
    return time.perf_counter() - started_at


def _warm(spark: Any, folder: Path) -> None:
    with _filled(folder, 10_000) as store, servers.penstock(store) as (url, _process):
        drain(Server(url), QUEUE, str(store / "lake"), limit=5_000, run=Run(spark))
        _write_rows(store / "rows", 10_000)
        load(Server(url), [str(store / "rows")], QUEUE, shape=Shape(body_column="body"), run=Run(spark))


# Draining


def _drains(spark: Any, folder: Path, count: int) -> tuple[float, Result]:
    """Each side's best of a few rounds, one after the other."""
    ours, plain = [], []
    for _ in range(ROUNDS):
        with _filled(folder, count) as store:
            plain.append(count / _timed(partial(_plain_drain, store, count)))
        with _filled(folder, count) as store, servers.penstock(store) as (url, _process):
            took = _timed(partial(_checked_drain, spark, url, store, count))
            ours.append(count / took)
    result = at_least(
        "`drain` to Parquet ÷ plain Python claiming, writing and acking on the file",
        0.7,
        max(ours) / max(plain),
        drain=max(ours),
        plain=max(plain),
        messages=count,
    )
    return max(ours), result


def _checked_drain(spark: Any, url: str, store: Path, count: int, **options: Any) -> None:
    done = drain(Server(url), QUEUE, str(store / "lake"), run=Run(spark), **options)
    if done.messages != count or done.problems:
        raise RuntimeError(f"drained {done.messages} of {count}: {done.problems}")


def _plain_drain(folder: Path, count: int) -> None:
    """The store's own verbs in a loop, and Arrow's own writer: no server, no Spark."""
    store = open_store(f"sqlite:///{folder}/penstock.db")
    done, file, held = 0, 0, []
    while done < count:
        with store.unit() as unit:
            messages = unit.claim(QUEUE, PLAIN_BATCH, system_clock(), 3_600_000).messages
        held += messages
        done += len(messages)
        if len(held) >= FILE_ROWS or done == count:
            pq.write_table(_table(held), folder / f"plain-{file}.parquet")
            for start in range(0, len(held), PLAIN_BATCH):
                receipts = [Receipt(it.id, it.claim, QUEUE) for it in held[start : start + PLAIN_BATCH]]
                with store.unit() as unit:
                    unit.ack(receipts, system_clock())
            held = []
            file += 1
    store.close()


def _table(messages: list[Message]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([it.id for it in messages]),
            "body": pa.array([it.body for it in messages], pa.binary()),
            "content_type": pa.array([it.content_type for it in messages], pa.string()),
            "sent_at": pa.array([it.sent_at for it in messages], pa.timestamp("ms", tz="UTC")),
            "receives": pa.array([it.receives for it in messages], pa.int32()),
        }
    )


def _deeper(spark: Any, folder: Path, count: int, rate: float) -> Iterator[Result]:
    deep = count * TIMES_DEEPER
    with _filled(folder, deep) as store, servers.penstock(store) as (url, process):
        before = _jvm_mb(spark)
        took = _timed(partial(_checked_drain, spark, url, store, deep))
        yield at_least(
            f"`drain` of {deep:,} ÷ of {count:,}",
            0.9,
            deep / took / rate,
            messages_per_s=deep / took,
            server_mb=servers.resident_mb(process),
            driver_mb=_jvm_mb(spark),
            driver_mb_before=before,
        )


def _jvm_mb(spark: Any) -> float:
    """What the driver's JVM holds, Python workers not counted."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


# Loading


def _write_rows(folder: Path, count: int) -> None:
    folder.mkdir()
    for file, start in enumerate(range(0, count, FILE_ROWS)):
        bodies = [_body(number) for number in range(start, min(count, start + FILE_ROWS))]
        pq.write_table(pa.table({"body": pa.array(bodies, pa.binary())}), folder / f"{file}.parquet")


def _loads(spark: Any, folder: Path, count: int) -> Result:
    rows = folder / "rows"
    _write_rows(rows, count)
    ours, plain = [], []
    for _ in range(ROUNDS):
        with _filled(folder, 0) as store:
            plain.append(count / _timed(partial(_plain_load, store, rows)))
        with _filled(folder, 0) as store, servers.penstock(store) as (url, _process):
            took = _timed(partial(_checked_load, spark, url, rows, count))
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
    ledgers.write(lake / "ledger" / "consumer=bench" / "export=1", rows)
    read = min(_timed(partial(_count, spark, lake)) for _ in range(ROUNDS))
    took = min(_timed(partial(report, str(lake), str(folder / "report.html"), run=Run(spark))) for _ in range(ROUNDS))
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


# Two workers


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[str]:
    cluster = Cluster(folder / "cluster", workers)
    try:
        yield cluster.url
    finally:
        cluster.stop()


def _workers(count: int) -> Result:
    """A drain that parses JSON, on a standalone cluster of one worker and of two, each with one core."""
    rates = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name, _cluster(Path(name), workers) as master:
            spark = open_session("bench", master=master)
            try:
                folder = Path(name)
                body = Body("json", _JSON_SCHEMA)
                with _filled(folder, 10_000) as store, servers.penstock(store) as (url, _process):
                    _checked_drain(spark, url, store, 10_000, body=body)
                with _filled(folder, count) as store, servers.penstock(store) as (url, _process):
                    took = _timed(partial(_checked_drain, spark, url, store, count, body=body))
                rates[workers] = count / took
            finally:
                spark.stop()
    return at_least(
        "two standalone workers ÷ one, draining JSON",
        1.3,
        rates[2] / rates[1],
        two=rates[2],
        one=rates[1],
        messages=count,
    )


MEASURES = {"pipeline": pipeline}
