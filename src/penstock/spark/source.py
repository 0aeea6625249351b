"""The data source `penstock`: what Spark calls to read from and write to that format.

Creating one has no side effects; Spark does so in several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameWriter
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from penstock.spark import secrets
from penstock.spark.columns import schema_of
from penstock.spark.errors import InvalidOption
from penstock.spark.options import Options, read_options
from penstock.spark.reader import PeekReader, ShipmentReader
from penstock.spark.stream import StreamReader
from penstock.spark.writer import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "penstock"
_REDACTED = "spark.sql.redaction.options.regex"
_REDACTION = "(?i)url"  # Spark's own
_KNOWING = "_knows_penstock"


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return schema_of(self._read())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_batch()
        return (PeekReader if options.consumer is None else ShipmentReader)(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        return StreamReader(self._read(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        _refuse_overwrite(overwrite)
        return BatchWriter(self._read_batch(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        _refuse_overwrite(overwrite)
        return StreamWriter(self._read_batch(), schema)

    def _read(self) -> Options:
        return read_options(self.options)

    def _read_batch(self) -> Options:
        options = self._read()
        options.check_batch()
        return options


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise InvalidOption("a queue cannot be overwritten: write with mode append, after a purge if it must be empty")


def register(spark: SparkSession) -> None:
    """Make the format `penstock` known to a session, classic or of Spark Connect. Doing it again does no harm."""
    secrets.install()
    register_source(spark, PenstockSource)
    _redact_key(spark)
    _write_from_any_thread()


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    with _active(spark):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Spark looks for a namesake in the active session, whichever session a source is to be registered with."""
    if not hasattr(spark, "_jsparkSession"):  # of Spark Connect, where sessions do not share
        yield
        return
    sessions = _sessions(spark)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def _sessions(spark: Any) -> Any:
    return type(spark)._get_j_spark_session_class(spark._jvm)


def _write_from_any_thread() -> None:
    """Of a write, Spark looks for the format in the session that is active in the thread, and in a new thread of Python
    none is. PySpark has no hook for that; so naming this format in a writer makes the writer's own session active where
    there is none."""
    for writer in (DataFrameWriter, DataStreamWriter):
        if not hasattr(writer.format, _KNOWING):
            writer.format = _with_session(writer.format)  # type: ignore[method-assign]


def _with_session(naming: Callable[[Any, str], Any]) -> Any:
    @wraps(naming)
    def format(self: Any, source: str) -> Any:  # noqa: A001
        if source.lower() == NAME:
            sessions = _sessions(self._spark)
            if sessions.getActiveSession().isEmpty():
                sessions.setActiveSession(self._spark._jsparkSession)
        return naming(self, source)

    setattr(format, _KNOWING, True)
    return format


def _redact_key(spark: Any) -> None:
    """Spark shows a source's options in its plans, except those whose name matches this setting."""
    if spark.conf.get(_REDACTED, _REDACTION) == _REDACTION:
        spark.conf.set(_REDACTED, f"{_REDACTION}|key|secret|password|token")
