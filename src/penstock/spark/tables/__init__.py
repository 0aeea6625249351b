"""The formats of the lake's two tables: how a shipment becomes part of one, in one step, and which files hold its rows.

`parquet` are plain files, a shipment each; `delta` is a table of Delta Lake, a shipment one of its transactions. A lake
has one of them for both of its tables, and is known by its files. Nothing here talks to a server or to Spark.
"""

from __future__ import annotations

from penstock.spark.errors import JobFailed
from penstock.spark.manifest import LEDGER, MANIFESTS, MESSAGES
from penstock.spark.storage import Storage
from penstock.spark.tables.plain import PlainTable
from penstock.spark.tables.table import LoggedFile, Merged, Partition, Retired, Table, TableFile

__all__ = [
    "DELTA", "FORMATS", "PARQUET", "LoggedFile", "Merged", "Partition", "Retired", "Table", "TableFile",
    "chosen_format", "format_of", "table_of",
]  # fmt: skip

PARQUET = "parquet"
DELTA = "delta"
FORMATS = (PARQUET, DELTA)
# Readers of Delta call it so.
_LOG = "_delta_log"


def format_of(storage: Storage) -> str | None:
    """None where nothing is there yet."""
    if any(storage.names(f"{root}/{_LOG}") for root in (MESSAGES, LEDGER)):
        return DELTA
    return PARQUET if storage.names(MANIFESTS) else None


def chosen_format(storage: Storage, wanted: str | None) -> str:
    """Raises JobFailed if the lake has another one already."""
    there = format_of(storage)
    if wanted is not None and there is not None and wanted != there:
        raise JobFailed(f"{storage.root} is a lake of format {there}, not {wanted}: use that format, or another lake")
    return wanted or there or PARQUET


def table_of(storage: Storage, root: str, format: str) -> Table:  # noqa: A002
    if format == DELTA:
        # Not for the others: importing it takes as long as writing thousands of messages.
        from penstock.spark.tables.delta import DeltaTable

        return DeltaTable(storage, root)
    return PlainTable(storage, root)
