"""A stream whose Python process starts too slowly for Spark is started again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

import penstock.spark
from penstock.spark.errors import JobFailed
from penstock.spark.slow_start import is_slow_start
from tests.spark.conftest import Queue

# Longer than Spark waits, and once.
_SLOW_ONCE = """#!/bin/sh
case "$*" in *streaming_source_runner*) mkdir {once} 2>/dev/null && sleep 12;; esac
exec {python} "$@"
"""


@pytest.mark.parametrize(
    ("error", "slow"),
    [
        (SparkRuntimeException("org.apache.spark.SparkException: Python worker failed to connect back."), True),
        (SparkRuntimeException("Timed out while waiting for the Python worker to connect back"), True),
        (SparkRuntimeException("Python worker exited unexpectedly (crashed)"), False),
        (JobFailed("Python worker failed to connect back"), False),
    ],
)
def test_slow_starts(error: Exception, slow: bool) -> None:
    assert is_slow_start(error) is slow


def test_a_stream_is_started_again(
    spark: SparkSession, queue: Queue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(_SLOW_ONCE.format(once=tmp_path / "once", python=sys.executable))
    python.chmod(0o755)
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(python)
    try:
        # The source remembers with which Python it was registered.
        penstock.spark.register(spark)
        queue.send("a", "b")
        stream = queue.stream(consumer="s").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream = stream.trigger(availableNow=True).format("parquet").option("path", str(tmp_path / "out"))
        query = penstock.spark.start_stream(stream)
        query.awaitTermination()
    finally:
        context.pythonExec = before
        penstock.spark.register(spark)
    assert (tmp_path / "once").is_dir()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2
    assert capsys.readouterr().err.count("starting again, 2 of 3\n") == 1


def test_a_stream_that_fails_otherwise_is_not(spark: SparkSession, queue: Queue, tmp_path: Path) -> None:
    stream = queue.stream(consumer="s", queue="nowhere", patienceSeconds=0).writeStream.format("noop")
    query = penstock.spark.start_stream(stream.option("checkpointLocation", str(tmp_path / "checkpoint")))
    with pytest.raises(Exception, match="nowhere"):
        query.awaitTermination()
