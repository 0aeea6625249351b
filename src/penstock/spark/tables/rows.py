"""Rows into one Parquet file on this machine, and what is known of them when they are written.

They leave as row groups: memory holds one group, however large the file becomes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.manifest import LakeFile, summed

# A row group: large enough for readers, small enough to be held.
GROUP_ROWS = 128 * 1024
GROUP_BYTES = 64 * 1024 * 1024
# What repeats from row to row. An attempt to find repetitions among ids and bodies takes longer than writing them.
_REPEATED = (
    "content_type", "receives", "claimed_at", "group", "queue", "outcome", "exported_at", "consumer", "shipment",
    "export",
)  # fmt: skip


class RowFile:
    """To be closed whether or not it went well."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._writer: pq.ParquetWriter | None = None
        self.held_bytes = 0
        self.rows = 0
        self.bad = 0
        self.least: str | int | None = None
        self.most: str | int | None = None
        self.oldest: int | None = None
        self.newest: int | None = None
        self.outcomes: dict[str, dict[str, int]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.held_bytes += batch.nbytes
        if self._held_rows >= GROUP_ROWS or self.held_bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            repeated = [column for column in _REPEATED if column in table.column_names]
            self._writer = pq.ParquetWriter(
                self._name, table.schema, compression="zstd", compression_level=1, use_dictionary=repeated
            )
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._count(table)
        self._held.clear()
        self._held_rows = self.held_bytes = 0

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def described(self, path: str) -> LakeFile:
        """When it is closed."""
        with open(self._name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = Path(self._name).stat().st_size
        return LakeFile(
            path, self.rows, size, digest, self.least, self.most, self.oldest, self.newest, outcomes=self.outcomes
        )

    def _count(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        is_ledger = "number" in rows.column_names
        least, most = _bounds(rows["number" if is_ledger else "id"])
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
        first, last = _bounds(rows["finished_at" if is_ledger else "sent_at"].cast(pa.int64()))
        self.oldest = first // 1000 if self.oldest is None else min(self.oldest, first // 1000)
        self.newest = last // 1000 if self.newest is None else max(self.newest, last // 1000)
        if "bad_record" in rows.column_names:
            self.bad += rows.num_rows - rows["bad_record"].null_count
        if is_ledger:
            counted = rows.group_by(["queue", "outcome"]).aggregate([([], "count_all")]).to_pylist()
            self.outcomes = summed(
                [self.outcomes, *({row["queue"]: {row["outcome"]: row["count_all"]}} for row in counted)]
            )


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]
