"""A Delta table of the lake, without Spark or a server: one transaction for each claim, whoever else writes."""

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
from penstock.spark.manifest import Manifest, Place, read_manifest
from penstock.spark.storage import Storage
from penstock.spark.tables import chosen_format, delta, format_of, table_of
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
