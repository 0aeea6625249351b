"""The rows that a server's ledger still has, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.spark.lake import LEDGER_COLUMNS
from penstock.spark.server import Server
from penstock.spark.source import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COLUMNS = {name: kind for name, kind in LEDGER_COLUMNS.items() if name != "exported_at"}


# Rows that are worth a task of their own.
_SLICE_ROWS = 250_000


def read_ledger(
    spark: SparkSession, server: Server, *columns: str, after: int = 0, through: int | None = None
) -> DataFrame:
    """Every row that the server's ledger still has, or only these columns, or only the rows with numbers above `after`
    up to and including `through`, which may be read in parallel. Nothing is claimed for that."""
    register_source(spark, LedgerSource)
    given: dict[str, Any] = {**server.options(), "columns": ",".join(columns or _COLUMNS), "after": after}
    if through is not None:
        given["through"] = through
    return spark.read.format(LedgerSource.name()).options(**given).load()


class LedgerSource(DataSource):
    """For this package alone."""

    @classmethod
    def name(cls) -> str:
        return "penstock-ledger"

    def schema(self) -> str:
        return ", ".join(f"{name} {_COLUMNS[name]}" for name in self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        options = self.options
        server = Server(options["url"], options.get("apiKey"), float(options["patienceSeconds"]))
        through = options.get("through")
        numbers = _Numbers(int(options["after"]), None if through is None else int(through))
        return _LedgerReader(server, options["columns"].split(","), numbers)


class _Numbers(InputPartition):
    """Above `after`, up to and including `through`, or all there are."""

    def __init__(self, after: int, through: int | None) -> None:
        super().__init__((after, through))
        self.after = after
        self.through = through

    def slices(self) -> list[_Numbers]:
        if self.through is None or self.through <= self.after:
            return [self]
        starts = range(self.after, self.through, _SLICE_ROWS)
        return [_Numbers(start, min(start + _SLICE_ROWS, self.through)) for start in starts]


class _LedgerReader(DataSourceReader):
    def __init__(self, server: Server, columns: list[str], numbers: _Numbers) -> None:
        self._server = server
        self._columns = columns
        self._numbers = numbers

    def partitions(self) -> list[InputPartition]:
        return [*self._numbers.slices()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Numbers)  # noqa: S101
        through = partition.through
        with self._server.client() as client:
            for rows in client.arrow.ledger(after=partition.after):
                if through is not None and rows["number"][-1].as_py() >= through:
                    yield _for_spark(rows.filter(pc.less_equal(rows["number"], through)), self._columns)
                    return
                yield _for_spark(rows, self._columns)


def _for_spark(rows: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """In the lake's order, and with microseconds: Spark has no other timestamps."""

    def fitting(column: pa.Array) -> pa.Array:
        return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column

    return pa.RecordBatch.from_arrays([fitting(rows[name]) for name in columns], columns)
