"""The rows of one claim, into Parquet files by day: what a Delta table is given to add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.manifest import LEDGER, LakeFile, Manifest, Place, escaped, summed
from penstock.spark.storage import Storage
from penstock.spark.tables.rows import GROUP_BYTES, RowFile

# Days that are written at the same time: rows come in about the order of their days.
_DAYS_AT_ONCE = 16


@dataclass
class Days:
    """The rows of one claim, into a file for each day; more than one if days come again and again."""

    storage: Storage
    root: str
    partitions: Sequence[str]
    evolve: Callable[[pa.Schema], None]
    place: Place
    open: dict[str, tuple[RowFile, str, ExitStack]] = field(default_factory=dict)
    files: list[LakeFile] = field(default_factory=list)
    bad: int = 0
    schema: pa.Schema | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        instants = rows["finished_at" if self.root == LEDGER else "sent_at"]
        rows = self._completed(rows)
        if self.schema is None:
            self.schema = rows.schema
            of_folders = [pa.field(name, pa.date32() if name == "day" else pa.string()) for name in self.partitions]
            self.evolve(pa.schema([*rows.schema, *of_folders]))
        days = instants.cast(pa.date32())
        distinct = pc.unique(days)
        for day in distinct:
            chosen = rows if len(distinct) == 1 else rows.filter(pc.equal(days, day))
            self._file(day.as_py().isoformat()).add(chosen)
        if sum(file.held_bytes for file, _, _ in self.open.values()) >= GROUP_BYTES:
            for file, _, _ in self.open.values():
                file.flush()

    def close(self) -> None:
        for day in list(self.open):
            self._finish(day)

    def manifest(self) -> Manifest:
        place = self.place
        return Manifest(
            place.consumer,
            place.number,
            place.claimed_at,
            sum(file.rows for file in self.files),
            tuple(self.files),
            place.queue,
            self.bad,
            summed([file.outcomes for file in self.files]),
        )

    def abandon(self, error: BaseException) -> None:
        for file, _, stack in self.open.values():
            file.close()
            stack.__exit__(type(error), error, error.__traceback__)
        self.open.clear()
        self.remove()

    def remove(self) -> None:
        for file in self.files:
            self.storage.remove(file.path)

    def _completed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Compaction mixes shipments: each row says where it is from."""
        place = self.place
        number = "export" if place.queue is None else "shipment"
        added = {"consumer": pa.scalar(place.consumer), number: pa.scalar(place.number, pa.int64())}
        columns = {
            **dict(zip(rows.schema.names, rows.columns, strict=True)),
            **{name: pa.repeat(value, rows.num_rows) for name, value in added.items()},
        }
        return pa.RecordBatch.from_pydict(columns)

    def _file(self, day: str) -> RowFile:
        if day in self.open:
            # The one that waited longest for rows is the first to be finished.
            self.open[day] = self.open.pop(day)
            return self.open[day][0]
        if len(self.open) == _DAYS_AT_ONCE:
            self._finish(next(iter(self.open)))
        place = self.place
        name = f"{escaped(place.consumer)}-{place.number}-{place.claimed_at}-{uuid4().hex[:12]}.parquet"
        of_queue = "" if place.queue is None else f"queue={escaped(place.queue)}/"
        path = f"{self.root}/{of_queue}day={day}/{name}"
        stack = ExitStack()
        file = RowFile(stack.enter_context(self.storage.writing(path)))
        self.open[day] = (file, path, stack)
        return file

    def _finish(self, day: str) -> None:
        file, path, stack = self.open.pop(day)
        with stack:
            try:
                file.flush()
            finally:
                file.close()
            described = file.described(path)
            self.bad += file.bad
        self.files.append(described)


def day_of(file: LakeFile) -> str:
    return file.path.rpartition("/")[0].rpartition("day=")[2]
