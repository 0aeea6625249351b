"""A table of Delta Lake, to which a shipment or an export is one transaction.

    <lake>/messages/_delta_log/<version>.json
    <lake>/messages/queue=<q>/day=<yyyy-mm-dd>/<consumer>-<n>-<claimed_at>-<random>.parquet
    <lake>/ledger/day=<yyyy-mm-dd>/<consumer>-<n>-<claimed_at>-<random>.parquet

A day is that of `sent_at`, in the ledger of `finished_at`, in UTC. Files are written first, under names that no one
else uses, and no reader sees them until a commit names them. The commit also raises a number that the table keeps for
each queue and consumer (Delta's `txn`), which is how a second writer of the same claim is noticed: of two commits that
raise the same number at once Delta refuses one, and one that comes later finds it raised. So rows are there once,
however often they are written. What was written in vain is removed, or by a vacuum if its writer has died.

The number is made of the claim's instant and number, and goes up with every commit even if clocks go back. One that is
as high says that this claim may be there: then the history of the table is asked, whose commits hold their manifests.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import deltalake
import msgspec
import pyarrow as pa
from deltalake.exceptions import DeltaError, SchemaMismatchError
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark.sql.types import StructType

from penstock.spark.errors import JobFailed, ShipmentGone
from penstock.spark.manifest import (
    LEDGER,
    LakeFile,
    Manifest,
    Place,
    escaped,
    manifests_below,
    put_manifest,
    read_manifest,
    retired,
)
from penstock.spark.storage import Storage
from penstock.spark.tables.days import Days, day_of
from penstock.spark.tables.log import DeltaLog, added_to, first_line
from penstock.spark.tables.table import LoggedFile, Merged, Partition, Retired, TableFile

_MANIFEST = "penstock"
# More bits than a queue or a ledger has shipments in one millisecond.
_NUMBER_BITS = 20
# What needs more of a reader than to read the files that the log names.
_UNREADABLE = {"deletionVectors", "columnMapping"}


@dataclass(frozen=True)
class DeltaTable:
    storage: Storage
    root: str

    @property
    def mixes_places(self) -> bool:
        return True

    @property
    def partitions(self) -> list[str]:
        return ["day"] if self._is_ledger else ["queue", "day"]

    @property
    def _is_ledger(self) -> bool:
        return self.root == LEDGER

    # Writing

    @property
    def _log(self) -> DeltaLog:
        return DeltaLog(self.storage, self.root)

    def known(self, place: Place) -> Manifest | None:
        known = read_manifest(self.storage, place)
        if known is None:
            table = self._log.opened()
            known = None if table is None else self._committed(table, place)
            if known is not None:
                put_manifest(self.storage, known)
        return known

    def write(self, place: Place, batches: Iterator[pa.RecordBatch], rows: int, check: Callable[[], None]) -> Manifest:
        days = Days(self.storage, self.root, self.partitions, self.evolve, place)
        try:
            for batch in batches:
                days.add(batch)
            days.close()
            manifest = days.manifest()
            if manifest.rows != rows:
                raise ShipmentGone(f"of {rows:,} rows only {manifest.rows:,} were read", "purged")
        except BaseException as error:
            days.abandon(error)
            raise
        # From here on an error leaves the files: the commit that names them may be there all the same.
        committed = self._commit(manifest, check)
        if committed.files != manifest.files:
            days.remove()
        put_manifest(self.storage, committed)
        return committed

    def evolve(self, schema: pa.Schema) -> None:
        """Make the table, or add to it the columns and fields that it lacks. Raises JobFailed if it holds others."""
        wanted = deltalake.Schema.from_arrow(schema)
        kind = StructType.fromJson(json.loads(wanted.to_json()))

        def attempt() -> None:
            table = self._log.opened()
            if table is None:
                self._create(wanted)
                attempt()
            elif _lacks(_kind_of(table), kind):
                before = table.version()
                table.alter.add_columns(wanted.fields)
                self._log.sync(before)

        try:
            self._log.retried(attempt)
        except SchemaMismatchError as error:
            raise JobFailed(
                f"{self.storage.address(self.root)} holds columns of other types ({first_line(error)}): drain to one "
                "lake in one way"
            ) from None

    def _create(self, schema: deltalake.Schema) -> None:
        name = f"penstock_{self.root}"
        try:
            deltalake.DeltaTable.create(
                self._log.address, schema, mode="ignore", partition_by=self.partitions, name=name
            )
        except DeltaError:
            if self._log.opened() is None:
                raise
            # Another writer was faster, with a schema that may lack something.
        self._log.sync(-1)

    def _commit(self, manifest: Manifest, check: Callable[[], None]) -> Manifest:
        """The one that is in the table then: this one, or that of another writer of the same claim."""
        place = manifest.place

        def attempt() -> Manifest:
            table = self._log.must_open()
            known = self._committed(table, place)
            if known is not None:
                return known
            if any(self.storage.size(file.path) is None for file in manifest.files):
                raise JobFailed(f"what was written of {self.described(place)} was vacuumed before it was committed")
            # After the table was opened: if the claim is lost from here on, its messages come again by a commit that
            # this one collides with.
            check()
            last, before = table.transaction_version(_application(place)), table.version()
            table.create_write_transaction(
                [self._added(file, place) for file in manifest.files],
                "append",
                table.schema(),
                partition_by=self.partitions,
                commit_properties=CommitProperties(
                    custom_metadata={_MANIFEST: msgspec.to_builtins(manifest)},
                    app_transactions=[Transaction(_application(place), max(_version(place), (last or 0) + 1))],
                ),
            )
            self._log.sync(before)
            return manifest

        return self._log.retried(attempt)

    def _committed(self, table: deltalake.DeltaTable, place: Place) -> Manifest | None:
        last = table.transaction_version(_application(place))
        if last is None or last < _version(place):
            return None
        for commit in table.history():
            if _MANIFEST in commit:
                manifest = msgspec.convert(commit[_MANIFEST], Manifest)
                if manifest.place == place:
                    return manifest
        if last > _version(place):
            return None  # a later claim, by a clock that has gone back since
        raise JobFailed(
            f"{self.described(place)} is there, but the table's log no longer says what it came to: settle it by hand, "
            "or release it and take another lake"
        )

    def _added(self, file: LakeFile, place: Place) -> AddAction:
        """With what lets readers skip the file."""
        number = "export" if self._is_ledger else "shipment"
        at = "exported_at" if self._is_ledger else "claimed_at"
        same = {"consumer": place.consumer, number: place.number, at: _instant(place.claimed_at)}
        key, instant = ("number", "finished_at") if self._is_ledger else ("id", "sent_at")
        least = {**same, key: file.least, instant: _instant(file.oldest or 0)}
        most = {**same, key: file.most, instant: _instant(file.newest or 0)}
        nulls = dict.fromkeys(least, 0)
        stats = {"numRecords": file.rows, "minValues": least, "maxValues": most, "nullCount": nulls}
        day = day_of(file)
        values = {"day": day} if place.queue is None else {"queue": place.queue, "day": day}
        path = file.path.removeprefix(f"{self.root}/")
        return AddAction(path, file.bytes, values, int(time.time() * 1000), True, json.dumps(stats))

    # Removing

    def held(self, places: Sequence[Place]) -> list[Place]:
        table = self._log.opened()
        if table is None or not places:
            return []
        numbers = ", ".join(sorted({str(place.number) for place in places}))
        queues = ", ".join(sorted({_quoted(place.queue or "") for place in places}))
        columns = ["queue", "consumer", "shipment", "claimed_at"]
        found = pa.table(table.scan(columns=columns, predicate=f"queue IN ({queues}) AND shipment IN ({numbers})"))
        rows = found.group_by(columns).aggregate([]).to_pylist()
        there = {
            Place(it["consumer"], it["shipment"], round(it["claimed_at"].timestamp() * 1000), it["queue"])
            for it in rows
        }
        return [place for place in places if place in there or self.storage.size(place.manifest) is not None]

    def remove(self, place: Place) -> None:
        claimed_at = "exported_at" if self._is_ledger else "claimed_at"
        number = "export" if self._is_ledger else "shipment"
        terms = [
            f"consumer = {_quoted(place.consumer)}",
            f"{number} = {place.number}",
            f"{claimed_at} = {_quoted(_instant(place.claimed_at))}",
        ]
        if place.queue is not None:
            terms.append(f"queue = {_quoted(place.queue)}")
        self.storage.remove(place.manifest)
        self.delete(" AND ".join(terms))

    def delete(self, predicate: str) -> int:
        """The rows of which this holds, in one transaction; returns how many they were."""

        def attempt() -> int:
            table = self._log.must_open()
            before = table.version()
            told = table.delete(predicate)
            self._log.sync(before)
            return int(told["num_deleted_rows"] or 0)

        return self._log.retried(attempt)

    def retire(self, before: int, queue: str | None, now: int, *, dry_run: bool) -> Retired:
        """Whole days, in one transaction. The files are the table's until a vacuum removes them."""
        table = self._log.opened()
        if table is None:
            return Retired()
        day = datetime.fromtimestamp(before / 1000, UTC).date().isoformat()
        files = sum(
            str(row["partition.day"]) < day and (queue is None or row["partition.queue"] == queue)
            for row in added_to(table)
        )
        marked = self._mark_retired(day, queue, now, dry_run=dry_run)
        if files and not dry_run:
            of_queue = "" if queue is None else f" AND queue = {_quoted(queue)}"
            self.delete(f"day < '{day}'{of_queue}")
            # A drain may have committed rows of such days meanwhile.
            late = self._mark_retired(day, queue, now, dry_run=False)
            marked = Retired(marked.places + late.places, marked.rows + late.rows)
        return Retired(marked.places, marked.rows, files)

    def _mark_retired(self, day: str, queue: str | None, now: int, *, dry_run: bool) -> Retired:
        below = self.root if queue is None else f"{self.root}/queue={escaped(queue)}"
        places = rows = 0
        for manifest in manifests_below(self.storage, below):
            changed = retired(manifest, lambda file: day_of(file) < day, now)
            if changed != manifest:
                places += 1
                rows += manifest.kept - changed.kept
                if not dry_run:
                    put_manifest(self.storage, changed)
        return Retired(places, rows)

    # Merging

    def scattered(self, queue: str | None, target_size: int) -> list[Partition]:
        table = self._log.opened()
        small: dict[tuple[str, ...], list[int]] = {}
        for row in [] if table is None else added_to(table):
            values = tuple(str(row[f"partition.{name}"]) for name in self.partitions)
            if row["size_bytes"] < target_size and (queue is None or row["partition.queue"] == queue):
                small.setdefault(values, []).append(row["size_bytes"])
        return [
            Partition(dict(zip(self.partitions, values, strict=True)), len(sizes), sum(sizes))
            for values, sizes in sorted(small.items())
            if -(-sum(sizes) // target_size) < len(sizes)
        ]

    def merge(self, partition: Partition, target_size: int) -> Merged:
        filters = [(name, "=", value) for name, value in partition.values.items()]

        def attempt() -> Merged:
            table = self._log.must_open()
            before = table.version()
            # One at a time: a task has one core.
            told = table.optimize.compact(filters, target_size, max_concurrent_tasks=1)
            self._log.sync_merged(before)
            return Merged(told["numFilesRemoved"], told["numFilesAdded"])

        return self._log.retried(attempt)

    def vacuum(self, hours: int, *, dry_run: bool) -> list[str]:
        table = self._log.opened()
        if table is None:
            return []
        removed = table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)
        return sorted(f"{self.root}/{path}" for path in removed)

    def described(self, place: Place) -> str:
        which = "export" if self._is_ledger else "shipment"
        of = place.consumer if place.queue is None else f"{place.queue} for {place.consumer}"
        return f"{which} {place.number} of {of} in {self.storage.address(self.root)}"

    # Reading

    def files(self, places: Sequence[Place] | None) -> list[TableFile]:
        table = self._log.opened()
        if table is None:
            return []
        protocol = table.protocol()
        unreadable = _UNREADABLE.intersection(protocol.reader_features or ())
        if unreadable or (protocol.min_reader_version == 2):
            raise JobFailed(
                f"{self._log.address} uses what the jobs do not read ({', '.join(unreadable) or 'columnMapping'}): "
                "read it with a reader of Delta"
            )
        chosen = (
            row for row in added_to(table) if places is None or any(self._may_hold(row, place) for place in places)
        )
        return sorted((TableFile(self._path(row), self._constants(row)) for row in chosen), key=lambda it: it.path)

    def logged(self) -> list[LoggedFile] | None:
        table = self._log.opened()
        rows = [] if table is None else added_to(table)
        return [
            LoggedFile(self._path(row), row["size_bytes"], row.get("num_records"), self._constants(row)) for row in rows
        ]

    def _path(self, row: dict[str, Any]) -> str:
        # The log has paths as parts of URLs.
        return f"{self.root}/{unquote(row['path'])}"

    def _constants(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: str(row[f"partition.{name}"]) for name in self.partitions}

    def body_type(self, places: Sequence[Place] | None) -> str | None:  # noqa: ARG002
        table = self._log.opened()
        return None if table is None else str(_kind_of(table)["body"].dataType.simpleString())

    def _may_hold(self, row: dict[str, Any], place: Place) -> bool:
        """By what the log says of a file, which may be nothing."""
        if place.queue is not None and row["partition.queue"] != place.queue:
            return False
        number = "export" if self._is_ledger else "shipment"
        bounds = ((number, place.number), ("consumer", place.consumer))
        for column, value in bounds:
            least, most = row.get(f"min.{column}"), row.get(f"max.{column}")
            if least is not None and most is not None and not least <= value <= most:
                return False
        return True


def _application(place: Place) -> str:
    return f"penstock/{place.consumer}" if place.queue is None else f"penstock/{place.queue}/{place.consumer}"


def _version(place: Place) -> int:
    return (place.claimed_at << _NUMBER_BITS) + place.number % (1 << _NUMBER_BITS)


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _kind_of(table: deltalake.DeltaTable) -> StructType:
    """Delta writes schemas as Spark does."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _lacks(known: StructType, wanted: StructType) -> bool:
    """Whether `wanted` has a field that `known` has not, or has otherwise."""
    there = {found.name: found.dataType for found in known}
    for it in wanted:
        kind = there.get(it.name)
        if isinstance(kind, StructType) and isinstance(it.dataType, StructType):
            if _lacks(kind, it.dataType):
                return True
        elif kind != it.dataType:
            return True
    return False
