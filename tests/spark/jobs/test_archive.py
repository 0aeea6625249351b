"""`archive`: every ledger row in the lake once."""

from __future__ import annotations

from datetime import datetime

from penstock.client import ExportRef
from penstock.spark.landing import Landing


def finish(plant, *bodies: str) -> None:
    plant.send("q", *bodies)
    plant.client.ack("q", plant.client.claim("q", len(bodies)))


def test_every_row_is_in_the_lake_once(plant) -> None:
    plant.client.update_queue("q", ledger="bodies")
    finish(plant, "a", "b", "c")
    summary = plant.archive(limit=2)
    assert (summary.exports, summary.rows, summary.problems) == (2, 3, [])
    rows = plant.lake.read_ledger().orderBy("number").collect()
    assert [(bytes(row.body), row.outcome, row.queue, row.consumer) for row in rows] == [
        (body, "processed", "q", "archive") for body in (b"a", b"b", b"c")
    ]
    assert [row.export for row in rows] == [1, 1, 2]
    assert isinstance(rows[0].finished_at, datetime)
    assert rows[0].sent_at <= rows[0].first_claimed_at <= rows[0].finished_at


def test_a_second_run_archives_only_what_is_new(plant) -> None:
    finish(plant, "a")
    plant.archive()
    assert plant.archive().rows == 0
    finish(plant, "b")
    assert plant.archive().rows == 1
    assert plant.lake.read_ledger("number").count() == 2


def test_an_export_that_was_claimed_and_left(plant) -> None:
    finish(plant, "a", "b")
    plant.client.claim_export(ExportRef("archive", 1), 1)
    assert plant.archive().rows == 2
    assert [place.number for place in plant.lake.exported("archive")] == [1, 2]
    assert plant.lake.read_ledger("number").distinct().count() == 2


def test_an_export_that_was_written_but_not_settled(plant) -> None:
    finish(plant, "a", "b")
    export = plant.client.claim_export(ExportRef("archive", 1), 10)
    assert Landing(plant.server, plant.lake.storage, export).land().manifest.rows == 2
    assert plant.archive().rows == 2
    assert plant.lake.read_ledger("number").count() == 2


def test_a_dry_run_changes_nothing(plant) -> None:
    finish(plant, "a")
    assert plant.archive(dry_run=True).rows == 0
    assert list(plant.client.exports("archive")) == []


def test_the_manifest_counts_outcomes(plant) -> None:
    finish(plant, "a", "b")
    plant.send("other", "c")
    plant.client.purge("other")
    plant.archive()
    [place] = plant.lake.exported()
    manifest = plant.lake.manifest(place)
    assert manifest.outcomes == {"q": {"processed": 2}, "other": {"purged": 1}}
    assert (manifest.files[0].least, manifest.files[0].most) == (1, 3)
