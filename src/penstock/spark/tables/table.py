"""What a format has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from msgspec import Struct

from penstock.spark.manifest import Manifest, Place


class TableFile(Struct, frozen=True):
    """One that readers are to read, and the columns whose only value its path tells."""

    path: str
    constants: dict[str, Any]


class LoggedFile(Struct, frozen=True):
    """One that a table's own log names. `rows` is None where the log does not say."""

    path: str
    bytes: int
    rows: int | None
    constants: dict[str, Any]


class Partition(Struct, frozen=True):
    """The files with the same values in their folders' names, as far as they are worth merging."""

    values: dict[str, str]
    files: int
    bytes: int


class Merged(Struct, frozen=True):
    removed: int
    added: int


class Retired(Struct, frozen=True):
    """Shipments or exports of which rows were retired, and how many. `files` are those that readers have no longer."""

    places: int = 0
    rows: int = 0
    files: int = 0


class Table(Protocol):
    """It can be pickled: a task has the same one."""

    @property
    def root(self) -> str:
        """Its folder in the lake."""
        ...

    @property
    def mixes_places(self) -> bool:
        """Whether one file may hold the rows of several shipments."""
        ...

    def known(self, place: Place) -> Manifest | None:
        """What is there of it. A manifest that is missing is put. Raises JobFailed where it can never be there."""
        ...

    def write(self, place: Place, batches: Iterator[pa.RecordBatch], rows: int, check: Callable[[], None]) -> Manifest:
        """All of its rows, in one step, and then its manifest. If `check` raises, nothing is there: it is asked when
        the rows are written and not in the table yet. Raises ShipmentGone if there are not as many rows."""
        ...

    def held(self, places: Sequence[Place]) -> list[Place]:
        """Those of which there is anything."""
        ...

    def remove(self, place: Place) -> None: ...

    def described(self, place: Place) -> str:
        """Where it is, for people."""
        ...

    def files(self, places: Sequence[Place] | None) -> list[TableFile]:
        """Those with the rows of these places, or of all. They may hold others as well."""
        ...

    def logged(self) -> list[LoggedFile] | None:
        """What the table's own log says it has; None where there is no log but the manifests."""
        ...

    def body_type(self, places: Sequence[Place] | None) -> str | None:
        """What the column `body` is in these places, or in all, as Spark writes types; None where there are none."""
        ...

    def retire(self, before: int, queue: str | None, now: int, *, dry_run: bool) -> Retired:
        """Take out what is older than a midnight, of a queue or of all, and note it in the manifests: those first, so
        that a run that dies on the way leaves rows that are noted as gone, and never takes out rows that are not."""
        ...

    def scattered(self, queue: str | None, target_size: int) -> list[Partition]:
        """Where small files can be merged. Raises JobFailed if files cannot be replaced here."""
        ...

    def merge(self, partition: Partition, target_size: int) -> Merged:
        """In one step for readers, beside those who write meanwhile."""
        ...

    def vacuum(self, hours: int, *, dry_run: bool) -> list[str]:
        """Remove the files that readers have had no longer for so long, or never had; returns their paths."""
        ...
