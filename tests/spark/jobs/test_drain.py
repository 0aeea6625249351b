"""`drain`: every message in the lake once, whatever happens in between."""

from __future__ import annotations

import pytest

from penstock.client import ShipmentRef
from penstock.spark import folders
from penstock.spark.jobs import JobFailed
from penstock.spark.jobs.drain import kept
from penstock.spark.lake import Place

HOUR_MS = 3_600_000


def test_every_message_is_in_the_lake_once(plant) -> None:
    plant.send("q", "a", b"\xff\x00", "", content_type="text/plain", attributes={"lang": "en"})
    summary = plant.drain(limit=2)
    assert (summary.shipments, summary.messages, summary.problems) == (2, 3, [])
    rows = plant.drained("body", "content_type", "attributes", "receives", "queue", "consumer", "shipment")
    assert [(bytes(row[0]), *row[1:]) for row in rows] == [
        (b"", "text/plain", {"lang": "en"}, 1, "q", "drain", 2),
        (b"a", "text/plain", {"lang": "en"}, 1, "q", "drain", 1),
        (b"\xff\x00", "text/plain", {"lang": "en"}, 1, "q", "drain", 1),
    ]
    assert plant.client.queue("q").count.total == 0


def test_a_second_run_drains_only_what_is_new(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    assert plant.drain().messages == 0
    plant.send("q", "b")
    assert plant.drain().messages == 1
    assert plant.drained() == [b"a", b"b"]


def test_a_dry_run_changes_nothing(plant) -> None:
    plant.send("q", "a", "b")
    summary = plant.drain(dry_run=True)
    assert (summary.ready, summary.messages) == (2, 0)
    assert plant.client.queue("q").count.ready == 2
    assert not folders.exists(plant.spark, plant.root)


def test_claimed_but_not_written(plant) -> None:
    plant.send("q", "a", "b")
    plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 1, HOUR_MS)
    assert plant.drain().messages == 2
    assert plant.drained("body", "shipment") == [(b"a", 1), (b"b", 2)]


def test_written_but_not_settled(plant) -> None:
    """The rows are there already: they are neither lost nor written once more."""
    plant.send("q", "a", "b")
    plant.drain(lake=f"{plant.root}-of-another")
    plant.send("q", "c")
    plant.drain()
    [folder] = plant.lake.numbers("q", "drain")
    assert folder == 2
    plant.send("q", "d")
    shipment = plant.client.claim_shipment(ShipmentRef("q", "drain", 3), 10, HOUR_MS)
    write(plant, shipment)
    before = folders.files(plant.spark, plant.lake.folder(Place("drain", 3, "q")))
    assert plant.drain().messages == 1
    assert folders.files(plant.spark, plant.lake.folder(Place("drain", 3, "q"))) == before
    assert plant.drained() == [b"c", b"d"]


def test_written_in_part(plant) -> None:
    plant.send("q", "a", "b", "c")
    shipment = plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    write(plant, shipment, limit=2)
    plant.drain()
    assert plant.drained() == [b"a", b"b", b"c"]


def test_the_staging_folder_of_a_dead_run_is_taken_away(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    staging = plant.lake.staging(Place("drain", 1, "q"))
    plant.spark.range(3).write.parquet(staging)
    assert plant.drained() == [b"a"]
    plant.drain()
    assert not folders.exists(plant.spark, staging)


@pytest.mark.parametrize("end", ["released", "lost"])
def test_the_folder_of_a_shipment_that_was_given_back_is_removed(plant, end: str) -> None:
    plant.send("q", "a")
    shipment = plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    write(plant, shipment)
    if end == "released":
        plant.client.release_shipment(ShipmentRef("q", "drain", 1))
    else:
        plant.clock.advance(3601)
        while plant.client.shipment(ShipmentRef("q", "drain", 1)).state != "lost":
            pass
    assert plant.drain(dry_run=True).removed
    assert plant.lake.numbers("q", "drain") == [1]
    summary = plant.drain()
    assert summary.removed == [plant.lake.folder(Place("drain", 1, "q"))]
    assert plant.drained("body", "shipment") == [(b"a", 2)]


def test_messages_that_are_purged_meanwhile(plant) -> None:
    plant.send("q", "a", "b")
    plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    plant.client.purge("q")
    plant.send("q", "c")
    summary = plant.drain()
    assert summary.ended == {1: "purged"}
    assert summary.problems
    assert plant.drained("body", "shipment") == [(b"c", 2)]


def test_a_queue_that_was_made_anew_overwrites_nothing(plant) -> None:
    plant.send("q", "old")
    plant.drain()
    plant.client.delete_queue("q")
    plant.client.create_queue("q")
    plant.send("q", "new")
    with pytest.raises(JobFailed, match="was created again"):
        plant.drain()
    assert plant.drained() == [b"old"]
    plant.client.release_shipment(ShipmentRef("q", "drain", 1))
    assert plant.drain(consumer="second").messages == 1
    assert plant.drained("body", "consumer") == [(b"new", "second"), (b"old", "drain")]
    assert plant.drain(dry_run=True).removed == []


def test_no_more_than_was_asked_for(plant) -> None:
    plant.send("q", *"abcde")
    assert plant.drain(max_messages=3, limit=2).messages == 3
    assert plant.client.queue("q").count.ready == 2


def test_names_that_a_path_does_not_carry(plant) -> None:
    name = "a:b@c.d-007"
    plant.client.create_queue(name)
    plant.client.create_queue("007")
    plant.send(name, "x")
    plant.send("007", "y")
    plant.drain(name, consumer="c:1")
    plant.drain("007")
    assert plant.drained("queue", "consumer") == [("007", "drain"), (name, "c:1")]
    assert plant.lake.shipped() == [("007", "drain"), (name, "c:1")]


def test_json_by_a_schema(plant) -> None:
    two = [b'{"a":1}{"a":2}', b'{"a":1},{"a":2}']
    bad = [*two, b'{"a":"x"}', b"\xff", b'{"a":1} and more', b"null", b"", b"[1]", b'{"a":1']
    plant.send("q", '{"a":1,"b":"x"}', ' {"a":2} ', "{}", *bad)
    summary = plant.drain(format="json", schema="a int, b string")
    assert (summary.messages, summary.bad_records, summary.problems) == (3 + len(bad), len(bad), [])
    rows = plant.lake.read_messages("body", "bad_record").collect()
    good = [row.body.asDict() for row in rows if row.bad_record is None]
    assert sorted(good, key=str) == sorted([{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": None, "b": None}], key=str)
    assert sorted(bytes(row.bad_record) for row in rows if row.body is None) == sorted(bad)


def test_text(plant) -> None:
    plant.send("q", "é", b"\xff")
    assert plant.drain(format="text").bad_records == 1
    rows = plant.lake.read_messages("body", "bad_record").collect()
    assert {(row.body, row.bad_record and bytes(row.bad_record)) for row in rows} == {("é", None), (None, b"\xff")}


def write(plant, shipment, limit: int | None = None) -> None:
    """What a drain that is then killed has done."""
    frame = plant.server.read(plant.spark, "q", consumer="drain", shipment=shipment.number)
    frame = kept(frame if limit is None else frame.limit(limit), shipment.claimed_at)
    frame.write.parquet(plant.lake.folder(Place("drain", shipment.number, "q")))
