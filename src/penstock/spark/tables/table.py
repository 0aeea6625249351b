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

    def body_type(self, places: Sequence[Place] | None) -> str | None:
        """What the column `body` is in these places, or in all, as Spark writes types; None where there are none."""
        ...
