"""`prepare`: an archive of the classes that Spark loads, with which later jobs of this user start in half the time.

It moves no messages and needs no server. Where the cache is gone after each run, as in containers, it belongs into the
image.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.classes import archive_for
from penstock.spark.errors import JobFailed
from penstock.spark.java import find_java
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.session import Start, end_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass
class PrepareSummary(Summary):
    path: str = ""
    bytes: int = 0
    seconds: float = 0.0

    def lines(self) -> list[str]:
        return [f"put Spark's classes into {self.path} ({self.bytes:,} bytes) in {self.seconds:.1f} s"]


def prepare(*, run: Run = Run()) -> PrepareSummary:
    """Needs a process without a session. One that is there is replaced."""
    summary = PrepareSummary()
    with timed(summary):
        java = find_java()
        archive = archive_for(java)
        if archive is None:
            raise JobFailed(
                f"the Java at {java.program} cannot use an archive of classes; another one in JAVA_HOME may"
            )
        with run.session("prepare", Start(prepare=True)) as session, tempfile.TemporaryDirectory() as folder:
            _use(session, folder)
        run.progress.begin("writing the archive")
        end_java()
        if not archive.path.is_file():
            raise JobFailed(f"{java.program} has written no archive of classes")
        summary.path, summary.bytes = str(archive.path), archive.path.stat().st_size
    return summary


def _use(spark: SparkSession, folder: str) -> None:
    """What jobs use: files, groups, joins, tasks in Python."""
    rows = spark.range(100).selectExpr("id % 3 AS kind", "concat('row ', id) AS text")
    rows.groupBy("kind").count().write.partitionBy("kind").parquet(f"{folder}/kinds")
    rows.mapInArrow(_same, rows.schema).write.parquet(f"{folder}/rows")
    spark.read.parquet(f"{folder}/rows").join(spark.read.parquet(f"{folder}/kinds"), "kind").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
