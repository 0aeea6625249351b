"""The session that `open_session` opens."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock.spark
from penstock.spark.errors import SparkMissing
from penstock.spark.jobs import Run
from penstock.spark.session import open_session
from tests.spark.conftest import Queue


def test_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"
    assert spark.sparkContext.master == "local[2,2]"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    [row] = spark.sql("select timestamp'2024-01-01 00:00:00' as t").collect()
    assert row.t.astimezone(UTC) == datetime(2024, 1, 1, tzinfo=UTC)


def test_workers_are_this_python(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_a_second_one_is_the_first(spark: SparkSession) -> None:
    assert open_session("another").sparkContext is spark.sparkContext


def test_java_home_stays_as_it_was(spark: SparkSession) -> None:
    before = os.environ.get("JAVA_HOME")
    open_session("another")
    assert os.environ.get("JAVA_HOME") == before


def test_registering_a_later_session(spark: SparkSession, queue: Queue) -> None:
    other = spark.newSession()
    penstock.spark.register(other)
    penstock.spark.register(other)
    assert other.read.format("penstock").options(**queue.options()).load().count() == 0


def test_importing_registers_the_active_session(spark: SparkSession) -> None:
    other = spark.newSession()
    other.createDataFrame([], "a int")  # which makes it the active one
    try:
        importlib.reload(penstock.spark)
        with pytest.raises(PySparkException, match="the option url is missing"):
            other.read.format("penstock").load()
    finally:
        spark.createDataFrame([], "a int")


def test_master_or_remote() -> None:
    with pytest.raises(ValueError, match="not both"):
        open_session("x", master="local", remote="sc://localhost")


def test_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkMissing, match=r"run 'make spark' in the checkout, or pip install 'penstock_mq-"):
        open_session()


def test_settling_needs_no_spark() -> None:
    code = "import sys, penstock.spark, penstock.spark.server; print(sorted({'pyspark', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_job_without_a_session_takes_the_open_one_and_leaves_it_open(spark) -> None:
    with Run().session("test") as taken:
        assert taken.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
