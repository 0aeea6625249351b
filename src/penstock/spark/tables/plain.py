"""Plain Parquet files, one for each shipment or export.

    <lake>/messages/queue=<q>/consumer=<c>/shipment=<n>/<claimed_at>.parquet
    <lake>/ledger/consumer=<c>/export=<n>/<claimed_at>.parquet

The name says which claim of which number a file holds, so anyone who writes it writes the same rows to the same
place: a task that is tried again, or two drains at once, replace a file by its like. It appears in one step, on disks
and on object stores alike, so a reader that knows nothing of all this, such as a glob over `*.parquet`, sees whole
shipments only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from penstock.spark.errors import JobFailed, ShipmentGone
from penstock.spark.manifest import (
    MANIFESTS,
    Manifest,
    Place,
    escaped,
    manifests_below,
    places_below,
    put_manifest,
    read_manifest,
    retired,
)
from penstock.spark.storage import Storage
from penstock.spark.tables.rows import RowFile
from penstock.spark.tables.table import LoggedFile, Merged, Partition, Retired, TableFile


@dataclass(frozen=True)
class PlainTable:
    storage: Storage
    root: str

    @property
    def mixes_places(self) -> bool:
        return False

    def known(self, place: Place) -> Manifest | None:
        storage = self.storage
        known = read_manifest(storage, place)
        if known is not None and all(storage.size(file.path) == file.bytes for file in known.files):
            return known
        if any(name != f"{place.claimed_at}.parquet" for name in storage.names(place.folder)):
            raise JobFailed(
                f"{storage.address(place.folder)} holds rows of another claim of number {place.number}: the queue or "
                "the store was created again. Use another lake or another consumer"
            )
        return None

    def write(self, place: Place, batches: Iterator[pa.RecordBatch], rows: int, check: Callable[[], None]) -> Manifest:
        with self.storage.writing(place.file) as name:
            file = RowFile(name)
            try:
                for batch in batches:
                    file.add(batch)
                file.flush()
            finally:
                file.close()
            if file.rows != rows:
                raise ShipmentGone(f"of {rows:,} rows only {file.rows:,} were read", "purged")
            described = file.described(place.file)
            check()
        # The counts of the one file are those of the whole.
        files = (msgspec.structs.replace(described, outcomes={}),)
        manifest = Manifest(
            place.consumer, place.number, place.claimed_at, file.rows, files, place.queue, file.bad, file.outcomes
        )
        put_manifest(self.storage, manifest)
        return manifest

    def held(self, places: Sequence[Place]) -> list[Place]:
        below = {f"{self.root}/queue={escaped(place.queue)}" if place.queue else self.root for place in places}
        folders = (folder for it in below for folder in (it, f"{MANIFESTS}/{it}"))
        there = {file.path for folder in folders for file in self.storage.files(folder)}
        return [place for place in places if place.file in there or place.manifest in there]

    def remove(self, place: Place) -> None:
        """Its manifest first: from then on no job reads the file."""
        self.storage.remove(place.manifest)
        self.storage.remove(place.file)
        self.storage.remove_empty(place.folder)

    def described(self, place: Place) -> str:
        return self.storage.address(place.file)

    def files(self, places: Sequence[Place] | None) -> list[TableFile]:
        chosen = places_below(self.storage, self.root) if places is None else places
        return [TableFile(place.file, _constants(place)) for place in chosen]

    def retire(self, before: int, queue: str | None, now: int, *, dry_run: bool) -> Retired:
        """Whole files: those whose newest row is older."""
        storage = self.storage
        below = self.root if queue is None else f"{self.root}/queue={escaped(queue)}"
        found = Retired()
        for manifest in manifests_below(storage, below):
            changed = retired(manifest, lambda file: file.newest is not None and file.newest < before, now)
            if changed != manifest:
                files = len(manifest.files)
                found = Retired(found.places + 1, found.rows + manifest.kept - changed.kept, found.files + files)
                if not dry_run:
                    put_manifest(storage, changed)
        if not dry_run:
            # Also those of a run that died here.
            gone = places_below(storage, below, retired=True)
            for place in self.held(gone):
                self.remove(place)
        return found

    def scattered(self, queue: str | None, target_size: int) -> list[Partition]:  # noqa: ARG002
        raise JobFailed(
            f"{self.storage.root} holds plain Parquet files, which cannot be replaced in one step for readers that "
            "know nothing of it: drain to a lake of format delta to compact it"
        )

    def merge(self, partition: Partition, target_size: int) -> Merged:  # noqa: ARG002
        return Merged(0, 0)

    def vacuum(self, hours: int, *, dry_run: bool) -> list[str]:  # noqa: ARG002
        return []

    def logged(self) -> list[LoggedFile] | None:
        return None

    def body_type(self, places: Sequence[Place] | None) -> str | None:
        """A schema of JSON that has grown since is one with all of its fields."""
        kinds: list[DataType] = []
        for place in _latest(places_below(self.storage, self.root) if places is None else places):
            with self.storage.open(place.file) as file:
                kinds.append(from_arrow_type(pq.read_schema(file).field("body").type))
        if not kinds:
            return None
        kind = kinds[0]
        for other in kinds[1:]:
            kind = _merged(kind, other)
        return kind.simpleString()


def _constants(place: Place) -> dict[str, str | int]:
    if place.queue is None:
        return {"consumer": place.consumer, "export": place.number}
    return {"queue": place.queue, "consumer": place.consumer, "shipment": place.number}


def _latest(places: Sequence[Place]) -> list[Place]:
    """The last of each queue and consumer, the newest of them first."""
    last = {(place.queue, place.consumer): place for place in sorted(places)}
    return sorted(last.values(), key=lambda place: -place.claimed_at)


def _merged(kind: DataType, other: DataType) -> DataType:
    if isinstance(kind, StructType) and isinstance(other, StructType):
        known = {field.name: field for field in kind}
        for field in other:
            before = known.get(field.name)
            merged = field.dataType if before is None else _merged(before.dataType, field.dataType)
            known[field.name] = StructField(field.name, merged)
        return StructType(list(known.values()))
    if kind != other:
        raise JobFailed(
            f"the lake holds bodies of two kinds, {kind.simpleString()} and {other.simpleString()}: "
            "drain to one lake in one way"
        )
    return kind
