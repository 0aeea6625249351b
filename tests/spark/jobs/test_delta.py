"""`drain` and `archive` to a lake of Delta tables: the same rows, once, whatever happens in between."""

from __future__ import annotations

from typing import Any

import deltalake
import pyarrow as pa
import pytest

from penstock.client import ExportRef, ShipmentRef
from penstock.spark.jobs import Body, JobFailed, Run, archive, drain
from penstock.spark.landing import Landing
from penstock.spark.manifest import Place

HOUR_MS = 3_600_000


def drained(plant: Any, queue: str = "q", **options: Any) -> Any:
    dry_run = options.pop("dry_run", False)
    return drain(plant.server, queue, plant.root, format="delta", run=Run(plant.spark, dry_run=dry_run), **options)


def archived(plant: Any, **options: Any) -> Any:
    return archive(plant.server, plant.root, format="delta", run=Run(plant.spark), **options)


def landed(plant: Any, batch: Any) -> Any:
    return Landing(plant.server, plant.lake.storage, batch, table_format="delta").land()


def claimed(plant: Any, number: int = 1) -> Any:
    return plant.client.claim_shipment(ShipmentRef("q", "drain", number), 10, HOUR_MS)


def scanned(plant: Any, root: str = "messages") -> list[dict[str, Any]]:
    """By delta-rs, and not by the jobs."""
    return pa.table(deltalake.DeltaTable(f"{plant.root}/{root}").scan()).to_pylist()


def test_every_message_is_in_the_lake_once(plant) -> None:
    plant.send("q", "a", b"\xff\x00", "", content_type="text/plain", attributes={"lang": "en"})
    summary = drained(plant, limit=2, lanes=1)
    assert (summary.shipments, summary.messages, summary.problems) == (2, 3, [])
    rows = plant.drained("body", "content_type", "attributes", "receives", "queue", "consumer", "shipment")
    assert [(bytes(row[0]), *row[1:]) for row in rows] == [
        (b"", "text/plain", {"lang": "en"}, 1, "q", "drain", 2),
        (b"a", "text/plain", {"lang": "en"}, 1, "q", "drain", 1),
        (b"\xff\x00", "text/plain", {"lang": "en"}, 1, "q", "drain", 1),
    ]
    assert sorted(row["body"] for row in scanned(plant)) == [b"", b"a", b"\xff\x00"]
    assert plant.client.queue("q").count.total == 0
    assert [place.number for place in plant.lake.shipped("q", "drain")] == [1, 2]


def test_a_lake_is_read_as_what_it_is(plant) -> None:
    plant.send("q", "a")
    drained(plant)
    assert plant.lake.format == "delta"
    plant.send("q", "b")
    assert plant.drain().messages == 1  # which names no format
    assert plant.drained("body", "group", "bad_record") == [(b"a", None, None), (b"b", None, None)]


def test_another_format_than_the_lake_has(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    plant.send("q", "b")
    with pytest.raises(JobFailed, match="is a lake of format parquet, not delta"):
        drained(plant)
    assert plant.client.queue("q").count.ready == 1
    assert plant.drained() == [b"a"]


def test_lanes_commit_side_by_side(plant) -> None:
    plant.send("q", *(f"{number:03}" for number in range(200)))
    summary = drained(plant, limit=10, lanes=4)
    assert (summary.messages, summary.problems) == (200, [])
    assert plant.drained() == [f"{number:03}".encode() for number in range(200)]
    assert len({(row["consumer"], row["shipment"]) for row in scanned(plant)}) == summary.shipments


def test_committed_but_not_settled(plant) -> None:
    plant.send("q", "a", "b")
    manifest = landed(plant, claimed(plant)).manifest
    summary = drained(plant)
    assert (summary.messages, summary.shipments) == (2, 1)
    assert plant.drained() == [b"a", b"b"]
    assert plant.lake.manifest(manifest.place) == manifest


def test_committed_without_a_manifest(plant) -> None:
    plant.send("q", "a", "b")
    manifest = landed(plant, claimed(plant)).manifest
    plant.lake.storage.remove(manifest.place.manifest)
    assert plant.drained() == [b"a", b"b"]  # the table itself says what is in it
    assert drained(plant).messages == 2
    assert plant.drained() == [b"a", b"b"]
    assert plant.lake.manifest(manifest.place) == manifest


def test_rows_of_a_shipment_that_was_given_back_are_removed(plant) -> None:
    plant.send("q", "a")
    shipment = claimed(plant)
    landed(plant, shipment)
    plant.client.release_shipment(ShipmentRef("q", "drain", 1))
    assert len(drained(plant, dry_run=True).removed) == 1
    assert plant.drained("body", "shipment") == [(b"a", 1)]
    summary = drained(plant)
    assert summary.removed == [f"shipment 1 of q for drain in {plant.root}/messages"]
    assert plant.drained("body", "shipment") == [(b"a", 2)]
    assert drained(plant).removed == []


def test_a_shipment_that_was_given_back_before_the_commit(plant) -> None:
    plant.send("q", "a", "b")
    landing = Landing(plant.server, plant.lake.storage, claimed(plant), table_format="delta")
    with plant.server.client() as client:
        pages = list(client.arrow.read_shipment(landing.batch, 0, 2))
    plant.client.release_shipment(ShipmentRef("q", "drain", 1))
    with plant.server.client() as client, pytest.raises(Exception, match="the queue's again"):
        landing.table.write(
            landing.place, (page.select(["id", "body", "sent_at"]) for page in pages), 2, lambda: landing._check(client)
        )
    assert plant.drained() == []


def test_a_queue_that_was_made_anew(plant) -> None:
    plant.send("q", "old")
    drained(plant)
    plant.client.delete_queue("q")
    plant.client.create_queue("q")
    plant.clock.advance(1)
    plant.send("q", "new")
    assert drained(plant).messages == 1
    assert plant.drained("body", "shipment") == [(b"new", 1), (b"old", 1)]
    assert len(plant.lake.shipped("q")) == 2


def test_only_the_rows_of_some_places(plant) -> None:
    plant.send("q", "a", "b", "c")
    plant.send("other", "d")
    drained(plant, limit=1, lanes=1)
    drained(plant, "other")
    places = plant.lake.shipped()
    assert [(place.queue, place.number) for place in places] == [("other", 1), ("q", 1), ("q", 2), ("q", 3)]
    assert [bytes(row.body) for row in plant.lake.read_messages("body", places=places[:1]).collect()] == [b"d"]
    both = plant.lake.read_messages("body", places=[places[1], places[3]]).collect()
    assert sorted(bytes(row.body) for row in both) == [b"a", b"c"]
    assert plant.lake.read_messages("body", places=[Place("nobody", 1, 1, "q")]).collect() == []


def test_storage_that_spark_does_not_reach(plant) -> None:
    """The same rows, through tasks that read with Arrow."""
    plant.client.create_queue("a:b")
    plant.send("q", '{"a": 1}')
    plant.send("a:b", '{"a": 2, "b": "x"}')
    drained(plant, body=Body("json", "a int"))
    drained(plant, "a:b", body=Body("json", "a int, b string"))
    columns = ("body", "queue", "consumer", "shipment", "attributes", "sent_at")
    expected = plant.drained(*columns)
    plant.lake._is_readable_by_spark = lambda: False
    assert plant.drained(*columns) == expected
    assert [row[0].asDict() for row in expected] == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_a_schema_that_grows_and_one_that_does_not_fit(plant) -> None:
    plant.send("q", '{"a": 1}')
    drained(plant, body=Body("json", "a int"))
    plant.send("q", '{"a": 2, "more": [1.5]}')
    drained(plant, body=Body("json", "a int, more array<double>"))
    found = plant.lake.read_messages("body").collect()
    assert sorted(row.body.asDict()["a"] for row in found) == [1, 2]
    assert {row.body.a: row.body.more for row in found} == {1: None, 2: [1.5]}
    plant.send("q", '{"a": "three"}')
    with pytest.raises(JobFailed, match="holds columns of other types"):
        drained(plant, body=Body("json", "a string"))
    assert len(scanned(plant)) == 2
    assert drained(plant, body=Body("json", "a int")).bad_records == 1


def finish(plant: Any, *bodies: str) -> None:
    plant.send("q", *bodies)
    plant.client.ack("q", plant.client.claim("q", len(bodies)))


def test_the_ledger(plant) -> None:
    plant.client.update_queue("q", ledger="bodies")
    finish(plant, "a", "b", "c")
    summary = archived(plant, limit=2)
    assert (summary.exports, summary.rows) == (2, 3)
    rows = plant.lake.read_ledger().orderBy("number").collect()
    assert [(bytes(row.body), row.outcome, row.queue, row.consumer, row.export) for row in rows] == [
        (b"a", "processed", "q", "archive", 1),
        (b"b", "processed", "q", "archive", 1),
        (b"c", "processed", "q", "archive", 2),
    ]
    assert archived(plant).rows == 0
    [first, _] = plant.lake.exported("archive")
    assert plant.lake.manifest(first).outcomes == {"q": {"processed": 2}}
    assert [row.number for row in plant.lake.read_ledger("number", places=[first]).collect()] == [1, 2]


def test_an_export_that_was_committed_but_not_settled(plant) -> None:
    finish(plant, "a", "b")
    export = plant.client.claim_export(ExportRef("archive", 1), 10)
    assert landed(plant, export).manifest.rows == 2
    assert archived(plant).rows == 2
    assert len(scanned(plant, "ledger")) == 2
