"""A lake's files and manifests by their names, for those who check the ones against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.spark.lake import Lake
from penstock.spark.manifest import (
    LEDGER,
    MANIFESTS,
    MESSAGES,
    Manifest,
    Place,
    each,
    place_of_manifest,
    read_manifests,
)
from penstock.spark.storage import Storage
from penstock.spark.tables import LoggedFile


@dataclass(frozen=True)
class Listing:
    """Every look is taken where the storage is in reach."""

    lake: Lake

    def files(self) -> dict[str, int]:
        """The bytes of every file of rows, by its path."""
        return self._sizes(MESSAGES, LEDGER)

    def logs(self) -> dict[str, dict[str, LoggedFile]]:
        """What the logs of tables name, by the root of the table and the path; nothing for those without a log."""
        kind: Any = list[LoggedFile] | None
        logged = {root: self.lake.do(self.lake.table(root).logged, kind) for root in (MESSAGES, LEDGER)}
        return {root: {it.path: it for it in files} for root, files in logged.items() if files is not None}

    def manifest_sizes(self) -> dict[Place, int]:
        found = self._sizes(MANIFESTS)
        return {place: size for path, size in found.items() if (place := place_of_manifest(path)) is not None}

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Of single files, as they are now. None where there is no such file."""
        kind: Any = list[int | None]
        return list(self.lake.do(partial(each, self.lake.storage.size, paths), kind))

    def manifests(self, places: Sequence[Place]) -> list[Manifest | str | None]:
        """None where there is none, and a text where there is something else."""
        kind: Any = list[Manifest | str | None]
        return list(self.lake.do(partial(read_manifests, self.lake.storage, places), kind))

    def read(self, path: str) -> bytes | None:
        """A small file. None where there is no such file."""
        kind: Any = bytes | None
        data: bytes | None = self.lake.do(partial(self.lake.storage.read, path), kind)
        return data

    def put(self, path: str, data: bytes) -> None:
        nothing: Any = None
        self.lake.do(partial(self.lake.storage.put, path, data), nothing)

    def _sizes(self, *folders: str) -> dict[str, int]:
        return dict(self.lake.do(partial(_sizes, self.lake.storage, folders), list[tuple[str, int]]))


def _sizes(storage: Storage, folders: Sequence[str]) -> list[tuple[str, int]]:
    return [(file.path, file.bytes) for folder in folders for file in storage.files(folder)]
