"""Rows of a server's ledger as a DataFrame: of one export, or all that the server still has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.client import Export, ExportRef
from penstock.spark.lake import LEDGER_COLUMNS
from penstock.spark.server import Server
from penstock.spark.source import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COLUMNS = {name: kind for name, kind in LEDGER_COLUMNS.items() if name != "exported_at"}


def read_export(spark: SparkSession, server: Server, export: Export, partitions: int) -> DataFrame:
    """An export's rows, in slices of equally many ledger numbers."""
    place = {"consumer": export.consumer, "export": export.number, "after": export.after, "through": export.through}
    rows = _load(spark, server, partitions=partitions, **place)
    return rows.select("*", F.timestamp_millis(F.lit(export.claimed_at)).alias("exported_at"))


def read_ledger(spark: SparkSession, server: Server) -> DataFrame:
    """Every row that the server's ledger still has. Nothing is claimed for that."""
    return _load(spark, server)


def _load(spark: SparkSession, server: Server, **options: object) -> DataFrame:
    register_source(spark, LedgerSource)
    given: dict[str, Any] = {**server.options(), **options}
    return spark.read.format(LedgerSource.name()).options(**given).load()


class LedgerSource(DataSource):
    """For this package alone: its options are numbers that only an export knows."""

    @classmethod
    def name(cls) -> str:
        return "penstock-ledger"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        options = self.options
        server = Server(options["url"], options.get("apiKey"), float(options["patienceSeconds"]))
        if "export" not in options:
            return _LedgerReader(server)
        numbers = (int(options[name]) for name in ("export", "after", "through", "partitions"))
        return _ExportReader(server, options["consumer"], *numbers)


class _LedgerReader(DataSourceReader):
    def __init__(self, server: Server) -> None:
        self._server = server

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._server.client() as client:
            for rows in client.arrow.ledger():
                yield _for_spark(rows)


class _ExportReader(DataSourceReader):
    def __init__(self, server: Server, consumer: str, number: int, after: int, through: int, slices: int) -> None:
        self._server = server
        self._export = ExportRef(consumer, number)
        self._bounds = [after + (through - after) * slice_ // slices for slice_ in range(slices + 1)]

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(bounds) for bounds in pairwise(self._bounds) if bounds[0] < bounds[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._server.client() as client:
            for rows in client.arrow.read_export(self._export, *partition.value):
                yield _for_spark(rows)


def _for_spark(rows: pa.RecordBatch) -> pa.RecordBatch:
    """In the lake's order, and with microseconds: Spark has no other timestamps."""

    def fitting(column: pa.Array) -> pa.Array:
        return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column

    return pa.RecordBatch.from_arrays([fitting(rows[name]) for name in _COLUMNS], list(_COLUMNS))
