"""`compact` and `retire`: fewer files and fewer rows, and never a message more or less than that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import deltalake
import pytest

from penstock.spark.jobs import JobFailed, Run, archive, compact, drain, retire
from tests.spark.jobs.test_delta import archived, drained, finish, scanned


def compacted(plant: Any, dry_run: bool = False, **options: Any) -> Any:
    return compact(plant.root, run=Run(plant.spark, dry_run=dry_run), **options)


def retired(plant: Any, days: int, dry_run: bool = False, **options: Any) -> Any:
    return retire(plant.root, days, now_ms=plant.clock(), run=Run(plant.spark, dry_run=dry_run), **options)


def files(plant: Any, root: str = "messages") -> int:
    return len(deltalake.DeltaTable(f"{plant.root}/{root}").file_uris())


def test_small_files_are_merged(plant) -> None:
    plant.client.update_queue("q", ledger="bodies")
    for number in range(3):
        plant.send("q", f"{number}")
        drained(plant)
        archived(plant)
    plant.send("other", "x")
    drained(plant, "other")
    before = plant.drained("body", "queue", "consumer", "shipment", "sent_at", "id")
    manifests = [plant.lake.manifest(place) for place in plant.lake.shipped()]
    assert compacted(plant, dry_run=True).small_files == 6
    assert files(plant) == 4
    summary = compacted(plant)
    assert (summary.partitions, summary.small_files, summary.files, summary.vacuumed) == (2, 6, 2, 0)
    assert (files(plant), files(plant, "ledger")) == (2, 1)
    assert plant.drained("body", "queue", "consumer", "shipment", "sent_at", "id") == before
    assert [plant.lake.manifest(place) for place in plant.lake.shipped()] == manifests
    assert sorted(row.number for row in plant.lake.read_ledger("number").collect()) == [1, 2, 3]
    [place] = [it for it in plant.lake.shipped("q") if it.number == 2]
    assert [bytes(row.body) for row in plant.lake.read_messages("body", places=[place]).collect()] == [b"1"]
    assert compacted(plant).partitions == 0


def test_only_one_queue(plant) -> None:
    for queue in ("q", "other"):
        for body in ("a", "b"):
            plant.send(queue, body)
            drained(plant, queue)
    assert compacted(plant, queue="other").small_files == 2
    assert files(plant) == 3


def test_beside_a_running_drain(plant) -> None:
    bodies = [f"{number:04}" for number in range(300)]
    plant.send("q", *bodies[:20])
    drained(plant, limit=5, lanes=1)
    plant.send("q", *bodies[20:])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(drained, plant, limit=10, lanes=2)
        merged = compacted(plant).small_files
        while not running.done():
            merged += compacted(plant).small_files
        assert running.result().messages == 280
    assert merged > 0
    assert plant.drained() == [body.encode() for body in bodies]
    assert sorted(row["body"].decode() for row in scanned(plant)) == bodies


def test_plain_files_stay_as_they_are(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    with pytest.raises(JobFailed, match="cannot be replaced in one step") as failed:
        compacted(plant)
    assert "\n" not in str(failed.value)


def test_where_there_is_no_lake(plant) -> None:
    with pytest.raises(JobFailed, match="there is no lake at"):
        compacted(plant)
    with pytest.raises(JobFailed, match="there is no lake at"):
        retired(plant, 1)


def test_files_that_may_still_be_read_are_not_removed(plant) -> None:
    with pytest.raises(ValueError, match="an hour old"):
        compacted(plant, older_than_ms=1000)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_what_is_old_enough_is_retired(plant, format: str) -> None:  # noqa: A002
    run = Run(plant.spark)
    for body in ("old", "young"):
        plant.send("other", f"{body} too")
        finish(plant, body)
        drain(plant.server, "other", plant.root, format=format, run=run)
        archive(plant.server, plant.root, format=format, run=run)
        if body == "old":
            plant.clock.advance(3 * 86_400)
    rows = plant.lake.read_ledger("number").count()
    assert retired(plant, 3).messages == 0
    would = retired(plant, 2, dry_run=True)
    assert (would.shipments, would.messages, would.exports) == (1, 1, 1)
    assert len(plant.drained()) == 2
    summary = retired(plant, 2)
    assert (summary.shipments, summary.messages, summary.exports) == (1, 1, 1)
    assert summary.rows == would.rows > 0
    assert plant.drained() == [b"young too"]
    assert plant.lake.read_ledger("number").count() == rows - summary.rows
    [gone] = plant.lake.retired()
    manifest = plant.lake.manifest(gone)
    assert (manifest.rows, manifest.kept) == (1, 0)
    assert manifest.files[0].retired_at is not None
    assert len(plant.lake.retired("ledger")) == 1
    assert [place.number for place in plant.lake.shipped("other")] == [2]
    again = retired(plant, 2)
    assert (again.messages, again.rows) == (0, 0)


def test_plain_files_of_a_retirement_that_died(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    [place] = plant.lake.shipped()
    data = plant.lake.storage.read(place.file)
    plant.clock.advance(3 * 86_400)
    retired(plant, 1)
    assert plant.lake.storage.size(place.file) is None
    plant.lake.storage.put(place.file, data)
    retired(plant, 1)
    assert plant.lake.storage.size(place.file) is None


def test_the_messages_of_one_queue(plant) -> None:
    for queue in ("q", "other"):
        plant.send(queue, queue)
        drained(plant, queue)
    plant.clock.advance(3 * 86_400)
    assert retired(plant, 1, queue="q").messages == 1
    assert plant.drained() == [b"other"]
