"""A lake's files and manifests by their names, for those who check the ones against the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from penstock.spark.errors import JobFailed
from penstock.spark.lake import LEDGER, MANIFESTS, MESSAGES, Lake, Manifest, Place, read_manifest
from penstock.spark.storage import Storage

# Of small files that are read at the same time.
_AT_ONCE = 16
_MANIFEST = re.compile(
    r"(?:queue=(?P<queue>[^/]*)/)?consumer=(?P<consumer>[^/]*)/(?P<number>\d+)-(?P<claimed>\d+)(?:\.retired)?\.json"
)
_FILE = re.compile(
    rf"(?:{MESSAGES}/queue=(?P<queue>[^/]*)/consumer=(?P<consumer>[^/]*)/shipment=|"
    rf"{LEDGER}/consumer=(?P<archivist>[^/]*)/export=)(?P<number>\d+)/(?P<claimed>\d+)\.parquet"
)

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Listing:
    """Every look is taken where the storage is in reach."""

    lake: Lake

    def files(self) -> dict[str, int]:
        """The bytes of every file of rows, by its path."""
        return self._sizes(MESSAGES, LEDGER)

    def manifest_sizes(self) -> dict[Place, int]:
        found = self._sizes(MANIFESTS)
        return {place: size for path, size in found.items() if (place := _place_of_manifest(path)) is not None}

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Of single files, as they are now. None where there is no such file."""
        kind: Any = list[int | None]
        return list(self.lake.do(partial(_each, self.lake.storage.size, paths), kind))

    def manifests(self, places: Sequence[Place]) -> list[Manifest | str | None]:
        """None where there is none, and a text where there is something else."""
        kind: Any = list[Manifest | str | None]
        return list(self.lake.do(partial(_read, self.lake.storage, places), kind))

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


def place_of_file(path: str) -> Place | None:
    """What the name of a file of rows says that it holds."""
    name = _FILE.fullmatch(path)
    return None if name is None else _place(name, name["consumer"] or name["archivist"])


def _place_of_manifest(path: str) -> Place | None:
    name = _MANIFEST.search(path)
    return None if name is None else _place(name, name["consumer"])


def _place(name: re.Match[str], consumer: str) -> Place:
    queue = None if name["queue"] is None else unquote(name["queue"])
    return Place(unquote(consumer), int(name["number"]), int(name["claimed"]), queue)


def _read(storage: Storage, places: Sequence[Place]) -> list[Manifest | str | None]:
    def read(place: Place) -> Manifest | str | None:
        try:
            manifest = read_manifest(storage, place)
        except JobFailed as error:
            return str(error)
        if manifest is not None and manifest.place != place:
            return f"{storage.address(place.manifest)} is not the manifest of what its name says"
        return manifest

    return _each(read, places)


def _sizes(storage: Storage, folders: Sequence[str]) -> list[tuple[str, int]]:
    return [(file.path, file.bytes) for folder in folders for file in storage.files(folder)]


def _each(look: Callable[[K], T], which: Sequence[K]) -> list[T]:
    """What a look at a small file takes is mostly the way there."""
    if len(which) < _AT_ONCE:
        return [look(one) for one in which]
    with ThreadPoolExecutor(_AT_ONCE, "look") as pool:
        return list(pool.map(look, which))
