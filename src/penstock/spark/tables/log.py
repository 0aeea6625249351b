"""The log of a Delta table: opening the table, committing to it beside others, and bringing it to stable media."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from penstock.spark.errors import JobFailed
from penstock.spark.storage import Storage

_ATTEMPTS = 50
_MOST_PAUSE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class DeltaLog:
    storage: Storage
    root: str

    def opened(self) -> deltalake.DeltaTable | None:
        """As it is now; None where there is none."""
        try:
            return deltalake.DeltaTable(self.address)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise JobFailed(f"{self.address} cannot be opened as a Delta table: {first_line(error)}") from None

    def must_open(self) -> deltalake.DeltaTable:
        table = self.opened()
        if table is None:
            raise JobFailed(f"{self.address} was a Delta table, and is no longer there")
        return table

    @property
    def address(self) -> str:
        return self.storage.address_elsewhere(self.root)

    def retried(self, attempt: Callable[[], T]) -> T:
        """Until no other commit comes in between."""
        for number in range(_ATTEMPTS):
            try:
                return attempt()
            except CommitFailedError as error:
                failure = error
                time.sleep(random.uniform(0, min(_MOST_PAUSE_S, 0.01 * 2**number)))  # noqa: S311
        raise JobFailed(f"{self.address}: other writers were faster {_ATTEMPTS} times: {first_line(failure)}")

    def sync_merged(self, after: int) -> None:
        """The files that a merge has written, before the ones that they replace may go."""
        table = self.must_open()
        if self.storage.scheme == "file" and table.version() > after:
            earlier = {row["path"] for row in added_to(deltalake.DeltaTable(self.address, version=after))}
            new = [row["path"] for row in added_to(table) if row["path"] not in earlier]
            self.storage.sync(*(f"{self.root}/{unquote(path)}" for path in new))
            self.sync(after)

    def sync(self, after: int) -> None:
        """What Delta has written to the log beyond this version, or for a checkpoint: it does not wait for disks."""
        if self.storage.scheme == "file":
            log = f"{self.root}/_delta_log"
            names = [name for name in self.storage.names(log) if not name.startswith("_") and "tmp" not in name]
            new = [name for name in names if name[:20].isdecimal() and int(name[:20]) > after]
            self.storage.sync(*(f"{log}/{name}" for name in new))


def added_to(table: deltalake.DeltaTable) -> list[dict[str, Any]]:
    """The files of the table, and what its log says of them."""
    return pa.table(table.get_add_actions(flatten=True)).to_pylist()  # type: ignore[no-any-return]


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
