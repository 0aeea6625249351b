"""A Delta table of the lake, without Spark or a server: one transaction for each claim, beside others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from penstock.spark.errors import JobFailed, ShipmentGone
from penstock.spark.manifest import Manifest, Place, places_below, read_manifest
from penstock.spark.storage import Storage
from penstock.spark.tables import Retired, chosen_format, delta, format_of, table_of
from penstock.spark.tables.delta import DeltaTable

DAY_MS = 86_400_000
NOON = 20_000 * DAY_MS + DAY_MS // 2  # of 2024-10-04


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return DeltaTable(Storage.at(str(tmp_path / "lake")), "messages")


def place(number: int = 1, claimed_at: int = NOON, consumer: str = "drain", queue: str = "q") -> Place:
    return Place(consumer, number, claimed_at, queue)


def rows(*ids: str, sent_at: int = NOON, claimed_at: int = NOON, body: pa.Array | None = None) -> pa.RecordBatch:
    instant = pa.timestamp("us", "UTC")
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids),
            "body": pa.array([b"-"] * len(ids), pa.binary()) if body is None else body,
            "sent_at": pa.array([sent_at * 1000] * len(ids), pa.int64()).cast(instant),
            "claimed_at": pa.array([claimed_at * 1000] * len(ids), pa.int64()).cast(instant),
        }
    )


def write(table: DeltaTable, at: Place, *batches: pa.RecordBatch, check: Any = lambda: None) -> Manifest:
    return table.write(at, iter(batches), sum(batch.num_rows for batch in batches), check)


def found(table: DeltaTable, *columns: str) -> list[Any]:
    """By delta-rs' own reader."""
    opened = deltalake.DeltaTable(table.storage.address(table.root))
    told = pa.table(opened.scan(columns=list(columns or ["id"]))).to_pylist()
    return sorted(tuple(row.values()) if columns else row["id"] for row in told)


def data_files(table: DeltaTable) -> list[str]:
    return [file.path for file in table.storage.files(table.root) if "_delta_log" not in file.path]


def test_a_shipment_is_one_commit_with_its_manifest(table) -> None:
    manifest = write(table, place(), rows("a", "b"), rows("c", sent_at=NOON + DAY_MS))
    assert manifest.rows == 3
    assert [(file.rows, file.least, file.most, file.newest) for file in manifest.files] == [
        (2, "a", "b", NOON),
        (1, "c", "c", NOON + DAY_MS),
    ]
    assert read_manifest(table.storage, place()) == manifest
    assert found(table, "id", "queue", "consumer", "shipment") == [(it, "q", "drain", 1) for it in "abc"]
    opened = deltalake.DeltaTable(table.storage.address("messages"))
    assert opened.metadata().partition_columns == ["queue", "day"]
    assert [it["operation"] for it in opened.history()] == ["WRITE", "CREATE TABLE"]
    assert {file.path for file in manifest.files} == {file.path for file in table.files(None)} == set(data_files(table))
    assert [file.constants for file in table.files(None)] == [
        {"queue": "q", "day": "2024-10-04"},
        {"queue": "q", "day": "2024-10-05"},
    ]


def test_a_claim_that_is_there_is_not_written_again(table) -> None:
    manifest = write(table, place(), rows("a"))
    assert write(table, place(), rows("a")) == manifest
    assert found(table) == ["a"]
    assert data_files(table) == [manifest.files[0].path]


def test_writers_of_one_claim_at_the_same_time(table) -> None:
    write(table, place(), rows("-"))
    writers = 4
    together = threading.Barrier(writers)

    def attempt(_: int) -> Manifest:
        waited: list[bool] = []

        def check() -> None:
            """All have opened the table and found nothing when the first of them commits."""
            if not waited:
                waited.append(True)
                together.wait(30)

        return write(table, place(2), rows("a", "b"), check=check)

    with ThreadPoolExecutor(writers) as pool:
        manifests = list(pool.map(attempt, range(writers)))
    assert all(manifest == manifests[0] for manifest in manifests)
    assert found(table) == ["-", "a", "b"]
    assert len(data_files(table)) == 2


def test_the_first_writers_of_a_table_at_the_same_time(table) -> None:
    together = threading.Barrier(4)

    def attempt(number: int) -> Manifest:
        together.wait(30)
        return write(table, place(1, consumer=f"drain.{number}"), rows(f"of {number}"))

    with ThreadPoolExecutor(4) as pool:
        assert [it.rows for it in pool.map(attempt, range(4))] == [1] * 4
    assert found(table) == [f"of {number}" for number in range(4)]


def test_a_writer_that_was_believed_dead_adds_nothing(table) -> None:
    """It commits when its messages have come again with a later number."""

    def check() -> None:
        if read_manifest(table.storage, place(2)) is None:
            write(table, place(2), rows("a"))
        else:
            raise ShipmentGone("lost", "lost")

    with pytest.raises(ShipmentGone):
        write(table, place(1), rows("a"), check=check)
    assert found(table, "id", "shipment") == [("a", 2)]


def test_a_queue_made_anew_counts_from_one_again(table) -> None:
    write(table, place(1), rows("old"))
    write(table, place(2, NOON + 5), rows("older"))
    write(table, place(1, NOON + 10), rows("new"))
    assert found(table) == ["new", "old", "older"]
    assert [table.known(it) is not None for it in (place(1), place(1, NOON + 10), place(3))] == [True, True, False]


def test_a_clock_that_goes_back(table) -> None:
    write(table, place(1), rows("a"))
    write(table, place(2, NOON - 60_000), rows("b"))
    write(table, place(2, NOON - 60_000), rows("b"))
    write(table, place(3, NOON - 50_000), rows("c"))
    write(table, place(3, NOON - 50_000), rows("c"))
    assert found(table) == ["a", "b", "c"]


def test_a_run_that_died_between_commit_and_manifest(table) -> None:
    manifest = write(table, place(), rows("a", "b"))
    table.storage.remove(place().manifest)
    assert table.known(place()) == manifest
    assert read_manifest(table.storage, place()) == manifest


def test_the_number_of_a_claim_outlives_checkpoints(table) -> None:
    write(table, place(), rows("a"))
    opened = deltalake.DeltaTable(table.storage.address("messages"))
    opened.create_checkpoint()
    assert write(table, place(), rows("a")).rows == 1
    assert found(table) == ["a"]


def test_rows_that_are_missing(table) -> None:
    write(table, place(1), rows("a"))
    with pytest.raises(ShipmentGone):
        table.write(place(2), iter([rows("b")]), 2, lambda: None)
    assert found(table) == ["a"]
    assert len(data_files(table)) == 1
    assert table.storage.files("_staging") == []


def test_more_days_than_are_written_at_once(table) -> None:
    days = [rows(f"{day:03}", sent_at=NOON + day * DAY_MS) for day in range(40)]
    manifest = write(table, place(), *days, *days[:2])
    assert manifest.rows == 42
    assert len(manifest.files) == 42
    assert len(found(table)) == 42


def test_a_batch_of_two_days(table) -> None:
    both = pa.Table.from_batches([rows("a"), rows("b", sent_at=NOON + DAY_MS)]).combine_chunks().to_batches()[0]
    write(table, place(), both)
    assert found(table, "id", "day")[0][0] == "a"
    assert [it["day"].isoformat() for it in _partitions(table)] == ["2024-10-04", "2024-10-05"]


def _partitions(table: DeltaTable) -> list[dict[str, Any]]:
    opened = deltalake.DeltaTable(table.storage.address(table.root))
    told = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    return sorted(({"day": it["partition.day"]} for it in told), key=str)


def test_names_that_a_path_does_not_carry(table) -> None:
    name = "a:b@c.d-007"
    write(table, place(queue=name, consumer="c:1"), rows("x"))
    write(table, place(queue="007"), rows("y"))
    assert found(table, "id", "queue", "consumer") == [("x", name, "c:1"), ("y", "007", "drain")]
    assert all(table.storage.size(file.path) for file in table.files(None))
    assert [file.constants["queue"] for file in table.files([place(queue=name, consumer="c:1")])] == [name]


def test_only_files_that_may_hold_a_place_are_read(table) -> None:
    places = [place(number, NOON + number) for number in (1, 2, 3)]
    written = [write(table, it, rows(f"{it.number}")).files[0].path for it in places]
    assert [file.path for file in table.files([places[1]])] == [written[1]]


def test_removing_a_shipment(table) -> None:
    for number in (1, 2):
        write(table, place(number, NOON + number), rows(f"{number}", claimed_at=NOON + number))
    gone = place(1, NOON + 1)
    assert table.held([gone, place(2, NOON + 9), place(3)]) == [gone]
    table.remove(gone)
    assert found(table) == ["2"]
    assert table.held([gone]) == []
    assert read_manifest(table.storage, gone) is None


def test_a_schema_that_grows(table) -> None:
    before = pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))
    after = pa.array([{"a": 2, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    write(table, place(1), rows("1", body=before))
    write(table, place(2), rows("2", body=after))
    write(table, place(3), rows("3", body=before))
    scanned = pa.table(deltalake.DeltaTable(table.storage.address("messages")).scan(columns=["id", "body"]))
    assert {it["id"]: it["body"] for it in scanned.to_pylist()} == {
        "1": {"a": 1, "b": None},
        "2": {"a": 2, "b": "x"},
        "3": {"a": 1, "b": None},
    }
    assert table.body_type(None) == "struct<a:int,b:string>"
    operations = [it["operation"] for it in deltalake.DeltaTable(table.storage.address("messages")).history()]
    assert operations.count("ADD COLUMN") == 1


def test_a_schema_that_does_not_fit(table) -> None:
    write(table, place(1), rows("1", body=pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))))
    with pytest.raises(JobFailed, match="holds columns of other types") as failed:
        write(table, place(2), rows("2", body=pa.array([{"a": "1"}], pa.struct([("a", pa.string())]))))
    assert "\n" not in str(failed.value)
    with pytest.raises(JobFailed, match="holds columns of other types"):
        write(table, place(2), rows("2"))
    assert found(table) == ["1"]


def test_a_lake_remembers_its_format(table, tmp_path: Path) -> None:
    storage = table.storage
    assert format_of(storage) is None
    assert chosen_format(storage, None) == "parquet"
    write(table, place(), rows("a"))
    assert chosen_format(storage, None) == "delta"
    with pytest.raises(JobFailed, match="is a lake of format delta, not parquet"):
        chosen_format(storage, "parquet")
    other = Storage.at(str(tmp_path / "plain"))
    table_of(other, "messages", "parquet").write(place(), iter([rows("a")]), 1, lambda: None)
    with pytest.raises(JobFailed, match="is a lake of format parquet, not delta"):
        chosen_format(other, "delta")


def test_a_table_that_needs_more_of_its_readers(table) -> None:
    write(table, place(), rows("a"))
    opened = deltalake.DeltaTable(table.storage.address("messages"))
    opened.alter.add_feature(deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(JobFailed, match="deletionVectors"):
        table.files(None)


KILLED = """
import os, signal, sys
from penstock.spark.tables import delta
from tests.spark.tables.test_delta import *

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

table = DeltaTable(Storage.at(sys.argv[1]), "messages")
if sys.argv[2] == "manifest":
    delta.put_manifest = killed
check = killed if sys.argv[2] == "commit" else lambda: None
write(table, place(2), rows("a", "b"), rows("c", sent_at=NOON + DAY_MS), check=check)
"""


@pytest.mark.parametrize("before", ["commit", "manifest"])
def test_a_process_that_is_killed(table, before: str) -> None:
    write(table, place(1), rows("-"))
    killed = subprocess.run([sys.executable, "-c", KILLED, table.storage.root, before], check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert found(table) == (["-"] if before == "commit" else ["-", "a", "b", "c"])
    assert read_manifest(table.storage, place(2)) is None
    if before == "commit":
        assert table.known(place(2)) is None
    assert write(table, place(2), rows("a", "b"), rows("c", sent_at=NOON + DAY_MS)).rows == 3
    assert found(table) == ["-", "a", "b", "c"]
    assert table.known(place(2)) == read_manifest(table.storage, place(2))


def test_the_manifest_in_the_log_is_the_whole_one(table) -> None:
    manifest = write(table, place(), rows("a"))
    [commit] = [it for it in deltalake.DeltaTable(table.storage.address("messages")).history() if delta._MANIFEST in it]
    assert commit[delta._MANIFEST]["files"][0]["sha256"] == manifest.files[0].sha256


def test_merging_small_files(table) -> None:
    write(table, place(1, queue="other"), rows("x"))
    for number in range(1, 6):
        write(table, place(number), rows(f"{number}"), rows(f"{number}b", sent_at=NOON + DAY_MS))
    before = found(table, "id", "queue", "consumer", "shipment", "day")
    partitions = table.scattered(None, 1 << 20)
    assert [(it.values["queue"], it.values["day"], it.files) for it in partitions] == [
        ("q", "2024-10-04", 5),
        ("q", "2024-10-05", 5),
    ]
    assert table.scattered("other", 1 << 20) == []
    assert [(it.removed, it.added) for it in (table.merge(them, 1 << 20) for them in partitions)] == [(5, 1), (5, 1)]
    assert table.scattered(None, 1 << 20) == []
    assert found(table, "id", "queue", "consumer", "shipment", "day") == before
    assert len(table.files(None)) == 3
    assert len(table.files([place(3)])) == 2
    assert all(table.storage.size(file.path) for file in table.files(None))
    # What is there is found by its claim, whichever file it is in by now.
    assert write(table, place(3), rows("3")).rows == 2
    table.remove(place(2))
    assert found(table) == ["1", "1b", "3", "3b", "4", "4b", "5", "5b", "x"]


def test_merging_files_of_two_schemas(table) -> None:
    before = pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))
    after = pa.array([{"a": 2, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    write(table, place(1), rows("1", body=before))
    write(table, place(2), rows("2", body=after))
    [partition] = table.scattered(None, 1 << 20)
    assert table.merge(partition, 1 << 20).added == 1
    scanned = pa.table(deltalake.DeltaTable(table.storage.address("messages")).scan(columns=["id", "body"]))
    assert {it["id"]: it["body"] for it in scanned.to_pylist()} == {"1": {"a": 1, "b": None}, "2": {"a": 2, "b": "x"}}


def test_merging_beside_writers(table) -> None:
    """Two consumers write, one merges, and one gives shipments back, all at the same time."""
    shipments = 25
    write(table, place(1, consumer="first"), rows("first"))
    done = threading.Event()

    def consume(consumer: str) -> None:
        for number in range(1, shipments + 1):
            claimed_at = NOON + number
            at = place(number, claimed_at, consumer)
            write(table, at, rows(f"{consumer} {number}", claimed_at=claimed_at))
            if number % 5 == 0:
                table.remove(at)

    def merge() -> int:
        merged = 0
        while not done.is_set():
            for partition in table.scattered(None, 1 << 20):
                merged += table.merge(partition, 1 << 20).removed
        return merged

    with ThreadPoolExecutor(3) as pool:
        merging = pool.submit(merge)
        for consumer in [pool.submit(consume, name) for name in ("a", "b")]:
            consumer.result()
        done.set()
        assert merging.result() > 0
    expected = [f"{name} {number}" for name in "ab" for number in range(1, shipments + 1) if number % 5]
    assert found(table) == sorted([*expected, "first"])


def test_files_that_are_no_part_of_the_table(table) -> None:
    for number in (1, 2):
        write(table, place(number), rows(f"{number}"))
    [kept, other] = data_files(table)
    with pytest.raises(ShipmentGone):
        write(table, place(3), rows("3"), check=_gone)
    [orphan] = set(data_files(table)) - {kept, other}
    assert table.vacuum(1, dry_run=False) == []  # somebody may be about to commit it
    long_ago = 1_000_000_000
    os.utime(f"{table.storage.root}/{orphan}", (long_ago, long_ago))
    assert table.vacuum(1, dry_run=True) == [orphan]
    assert orphan in data_files(table)
    assert table.vacuum(1, dry_run=False) == [orphan]
    assert data_files(table) == [kept, other]
    [partition] = table.scattered(None, 1 << 20)
    table.merge(partition, 1 << 20)
    assert table.vacuum(1, dry_run=False) == []  # somebody may be reading them
    assert table.vacuum(0, dry_run=False) == [kept, other]
    assert found(table) == ["1", "2"]


def _gone() -> None:
    raise ShipmentGone("lost", "lost")


def test_files_that_are_vacuumed_before_their_commit(table) -> None:
    write(table, place(1), rows("1"))
    before = set(data_files(table))

    with pytest.raises(JobFailed, match="was vacuumed"):
        write(table, place(2), rows("2"), check=_removing(table, before))
    assert found(table) == ["1"]


def _removing(table: DeltaTable, before: set[str]) -> Any:
    """A check that takes longer than a vacuum allows, and has to be asked again."""

    def check() -> None:
        for file in set(data_files(table)) - before:
            table.storage.remove(file)
        opened = deltalake.DeltaTable(table.storage.address("messages"))
        opened.alter.set_table_description("changed")

    return check


def test_retiring_days(table) -> None:
    write(table, place(1), rows("a", "b"))
    write(table, place(2), rows("c"), rows("d", sent_at=NOON + DAY_MS))
    write(table, place(1, queue="other"), rows("x"))
    midnight = NOON + DAY_MS // 2
    assert table.retire(midnight - DAY_MS, None, NOON, dry_run=False) == Retired()
    assert table.retire(midnight, "q", NOON, dry_run=True) == Retired(2, 3, 2)
    assert len(found(table)) == 5
    assert table.retire(midnight, "q", NOON, dry_run=False) == Retired(2, 3, 2)
    assert found(table) == ["d", "x"]
    assert table.retire(midnight, "q", NOON, dry_run=False) == Retired()
    first, second = (read_manifest(table.storage, place(number)) for number in (1, 2))
    assert (first.rows, first.kept, first.retired_at is not None) == (2, 0, True)
    assert (second.rows, second.kept, second.retired_at is not None) == (2, 1, False)
    assert places_below(table.storage, "messages/queue=q") == [place(2)]
    assert places_below(table.storage, "messages/queue=q", retired=True) == [place(1)]


def test_a_retirement_that_died_before_its_commit(table) -> None:
    write(table, place(1), rows("a"))
    table._mark_retired("2024-10-05", None, NOON, dry_run=False)
    assert found(table) == ["a"]
    assert table.retire(NOON + DAY_MS // 2, None, NOON, dry_run=False).files == 1
    assert found(table) == []
