"""What every job stands on: a session, settings that hold while it runs, and the error that ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.spark import open_session, register
from penstock.spark.failures import Ended
from penstock.spark.folders import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_URL = "http://127.0.0.1:8080"
PATIENCE_S = 300.0
HOLD_MS = 60 * 60 * 1000
# A Spark Connect server does not tell.
_UNKNOWN_CORES = 4


class JobFailed(PenstockError):
    """The job found something that it must not go on with. Nothing was lost; the text says what to do."""


@contextmanager
def session_of(
    spark: SparkSession | None, name: str, master: str | None = None, remote: str | None = None
) -> Iterator[SparkSession]:
    """The caller's session, or one of our own that is stopped at the end."""
    if spark is not None:
        register(spark)
        yield spark
        return
    opened = open_session(f"penstock {name}", master, remote)
    try:
        yield opened
    finally:
        opened.stop()


def how_it_ended(reading: Iterable[object]) -> str | None:
    """Spark tells of a failed task in words only. So what it was to read is read here: None where that works."""
    try:
        for _ in reading:
            pass
    except Ended as error:
        return error.how
    return None


def slices(spark: SparkSession, wanted: int | None) -> int:
    """Into how many parts a batch is cut: one for each core at work, unless somebody knows better. Smaller ones would
    only cost more tasks, each with a Python process to feed."""
    if wanted is not None:
        return wanted
    return _UNKNOWN_CORES if is_connect(spark) else max(1, spark.sparkContext.defaultParallelism)


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, and afterwards as it was."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
