"""The data source `penstock`: what Spark calls to read from and write to that format.

Creating one has no side effects; Spark does so in several processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.spark.columns import schema_of
from penstock.spark.errors import InvalidOption
from penstock.spark.options import Options, read_options
from penstock.spark.reader import PeekReader, ShipmentReader
from penstock.spark.stream import StreamReader
from penstock.spark.writer import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REDACTED = "spark.sql.redaction.options.regex"
_REDACTION = "(?i)url"  # Spark's own


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

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
    register_source(spark, PenstockSource)
    _redact_key(spark)


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
    sessions = type(spark)._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def _redact_key(spark: Any) -> None:
    """Spark shows a source's options in its plans, except those whose name matches this setting."""
    if spark.conf.get(_REDACTED, _REDACTION) == _REDACTION:
        spark.conf.set(_REDACTED, f"{_REDACTION}|key|secret|password|token")
