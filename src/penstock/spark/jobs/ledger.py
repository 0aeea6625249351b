"""The rows that a server's ledger still has, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.spark.lake import LEDGER_COLUMNS
from penstock.spark.server import Server
from penstock.spark.source import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COLUMNS = {name: kind for name, kind in LEDGER_COLUMNS.items() if name != "exported_at"}


def read_ledger(spark: SparkSession, server: Server) -> DataFrame:
    """Every row that the server's ledger still has. Nothing is claimed for that."""
    register_source(spark, LedgerSource)
    given: dict[str, Any] = dict(server.options())
    return spark.read.format(LedgerSource.name()).options(**given).load()


class LedgerSource(DataSource):
    """For this package alone."""

    @classmethod
    def name(cls) -> str:
        return "penstock-ledger"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        options = self.options
        server = Server(options["url"], options.get("apiKey"), float(options["patienceSeconds"]))
        return _LedgerReader(server)


class _LedgerReader(DataSourceReader):
    def __init__(self, server: Server) -> None:
        self._server = server

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._server.client() as client:
            for rows in client.arrow.ledger():
                yield _for_spark(rows)


def _for_spark(rows: pa.RecordBatch) -> pa.RecordBatch:
    """In the lake's order, and with microseconds: Spark has no other timestamps."""

    def fitting(column: pa.Array) -> pa.Array:
        return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column

    return pa.RecordBatch.from_arrays([fitting(rows[name]) for name in _COLUMNS], list(_COLUMNS))
