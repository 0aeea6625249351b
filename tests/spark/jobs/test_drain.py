"""`drain`: every message in the lake once, whatever happens in between."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.client import Client, ShipmentRef
from penstock.spark.jobs import JobFailed, Run, drain
from penstock.spark.landing import Landing
from penstock.spark.lease import Lease
from penstock.spark.manifest import Place
from penstock.terminal import Quiet
from tests.waiting import wait_until

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
    assert not Path(plant.root).exists()


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
    [place] = plant.lake.shipped("q", "drain")
    assert place.number == 2
    plant.send("q", "d")
    file = land(plant, plant.client.claim_shipment(ShipmentRef("q", "drain", 3), 10, HOUR_MS))
    before = file.stat()
    assert plant.drain().messages == 1
    assert file.stat() == before
    assert plant.drained() == [b"c", b"d"]


def test_written_without_a_manifest(plant) -> None:
    """The file of a run that died before it had put the manifest is replaced by its like."""
    plant.send("q", "a", "b", "c")
    shipment = plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    file = land(plant, shipment)
    Path(plant.root, place_of(shipment).manifest).unlink()
    assert plant.lake.shipped() == []
    assert plant.drain().messages == 3
    assert list(file.parent.iterdir()) == [file]
    assert plant.drained() == [b"a", b"b", b"c"]


def test_a_file_that_is_not_what_its_manifest_says_is_written_again(plant) -> None:
    plant.send("q", "a", "b", "c")
    file = land(plant, plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS))
    file.write_bytes(b"half")
    plant.drain()
    assert plant.drained() == [b"a", b"b", b"c"]


def test_what_a_dead_run_has_left_half_written_is_taken_away(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    staged = Path(plant.root, "_staging", "0123")
    staged.parent.mkdir(exist_ok=True)
    staged.write_bytes(b"half")
    plant.send("q", "b")
    plant.drain()
    assert staged.exists(), "another drain, to another queue's place, may be writing it"
    os.utime(staged, (1, 1))
    plant.send("q", "c")
    plant.drain()
    assert not staged.exists()
    assert plant.drained() == [b"a", b"b", b"c"]


def test_spark_is_not_started_for_nothing(plant) -> None:
    """There is no such master: a session would fail."""
    assert drain(plant.server, "q", plant.root, run=Run(master="nowhere")).messages == 0


@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("end", ["released", "lost"])
def test_the_file_of_a_shipment_that_was_given_back_is_removed(plant, end: str, has_manifest: bool) -> None:
    plant.send("q", "a")
    shipment = plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    file = land(plant, shipment)
    if not has_manifest:
        Path(plant.root, place_of(shipment).manifest).unlink()
    if end == "released":
        plant.client.release_shipment(ShipmentRef("q", "drain", 1))
    else:
        plant.clock.advance(3601)
        while plant.client.shipment(ShipmentRef("q", "drain", 1)).state != "lost":
            pass
    assert plant.drain(dry_run=True).removed == [str(file)]
    assert file.exists()
    summary = plant.drain()
    assert summary.removed == [str(file)]
    assert plant.drained("body", "shipment") == [(b"a", 2)]


def test_a_shipment_is_one_file_and_says_what_is_in_it(plant) -> None:
    plant.send("q", "a", "b", "c")
    plant.drain(limit=2)
    [first, second] = plant.lake.shipped("q")
    manifest = plant.lake.manifest(first)
    [file] = manifest.files
    assert (manifest.rows, manifest.bad, file.path) == (2, 0, first.file)
    stored = Path(plant.root, file.path)
    ids = pq.read_table(stored)["id"].to_pylist()
    assert (file.rows, file.bytes, file.least, file.most) == (2, stored.stat().st_size, min(ids), max(ids))
    assert json.loads(Path(plant.root, second.manifest).read_text())["rows"] == 1
    assert sorted(Path(plant.root).rglob("*.parquet")) == sorted(Path(plant.root, it.file) for it in (first, second))


def test_the_server_knows_where_a_shipment_is(plant) -> None:
    plant.send("q", "a")
    plant.drain()
    assert plant.client.shipment(ShipmentRef("q", "drain", 1)).stored_in == plant.root


def test_several_lanes(plant) -> None:
    plant.send("q", *map(str, range(50)))
    summary = plant.drain(limit=10, lanes=2)
    assert (summary.messages, summary.lanes) == (50, 2)
    assert plant.drained() == sorted(str(number).encode() for number in range(50))
    assert {place.consumer for place in plant.lake.shipped("q")} == {"drain", "drain.2"}
    assert plant.client.queue("q").count.total == 0


def test_lanes_claim_one_after_the_other(plant, monkeypatch) -> None:
    """And each has several shipments, although one could hold everything: so one is read while another is claimed."""
    # The package has a function of the same name.
    monkeypatch.setattr(sys.modules["penstock.spark.jobs.drain"], "_LEAST_SHIPMENT", 5)
    claim, claiming, most = Client.claim_shipment, threading.Semaphore(100), []

    def watched(client, *args):
        with claiming:
            most.append(100 - claiming._value)
            return claim(client, *args)

    monkeypatch.setattr(Client, "claim_shipment", watched)
    plant.send("q", *map(str, range(80)))
    summary = plant.drain(lanes=2)
    assert (summary.messages, summary.shipments) == (80, 4)
    assert max(most) == 1


def test_a_lane_that_an_earlier_run_has_left_open_is_finished(plant) -> None:
    plant.send("q", "a", "b")
    plant.client.claim_shipment(ShipmentRef("q", "drain.3", 1), 1, HOUR_MS)
    assert plant.drain().messages == 2
    assert plant.drained("body", "consumer") == [(b"a", "drain.3"), (b"b", "drain")]


def test_a_large_queue_has_one_lane_more_than_cores(plant, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["penstock.spark.jobs.drain"], "_LANE_MESSAGES", 2)
    plant.send("q", *map(str, range(80)))
    summary = plant.drain()
    assert (summary.messages, summary.lanes) == (80, plant.spark.sparkContext.defaultParallelism + 1)


def test_one_lane_is_enough_for_little(plant) -> None:
    plant.send("q", "a", "b")
    assert plant.drain(limit=1).lanes == 1


def test_a_second_drain_of_the_same_consumer_is_refused(plant) -> None:
    plant.send("q", "a")
    with Lease(plant.client, "q", "drain", Quiet(), hold_ms=2_000):
        with pytest.raises(JobFailed, match="another run works on q for the consumer 'drain'"):
            plant.drain()
        assert plant.drain(consumer="second").messages == 1
    assert plant.drain().messages == 0


def test_a_second_drain_can_wait(plant) -> None:
    plant.send("q", "a")
    lease = Lease(plant.client, "q", "drain", Quiet(), hold_ms=2_000)
    with lease:
        timer = threading.Timer(1.0, plant.client.drop_lease, ("q", "drain", lease.holder))
        timer.start()
        lease.stop()
        assert plant.drain(wait=True).messages == 1
        timer.join()


def test_the_lease_of_a_run_that_has_died_is_not_waited_for(plant) -> None:
    plant.send("q", "a")
    host = Lease(plant.client, "q", "drain", Quiet()).holder.rpartition(" ")[0]
    plant.client.take_lease("q", "drain", f"{host} 1.999.ab", 3_600_000)
    assert plant.drain().messages == 1


def test_a_drain_that_has_lost_its_lease_settles_nothing(plant) -> None:
    plant.send("q", "a")
    lease = Lease(plant.client, "q", "drain", Quiet(), hold_ms=1_000)
    with lease:
        plant.client.drop_lease("q", "drain", lease.holder)
        plant.client.take_lease("q", "drain", "another", 60_000)
        wait_until(lambda: not lease.is_prolonged, 60)
        with pytest.raises(JobFailed, match="another works for 'drain' now"):
            lease.check()


def test_messages_that_are_purged_meanwhile(plant) -> None:
    plant.send("q", "a", "b")
    plant.client.claim_shipment(ShipmentRef("q", "drain", 1), 10, HOUR_MS)
    plant.client.purge("q")
    plant.send("q", "c")
    summary = plant.drain()
    assert summary.problems == ["shipment 1 of drain was purged before it was settled"]
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
    assert [(place.queue, place.consumer) for place in plant.lake.shipped()] == [("007", "drain"), (name, "c:1")]


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


def place_of(shipment) -> Place:
    return Place(shipment.consumer, shipment.number, shipment.claimed_at, shipment.queue)


def land(plant, shipment) -> Path:
    """What a drain that is then killed has done."""
    landed = Landing(plant.server, plant.lake.storage, shipment).land()
    assert landed.manifest is not None
    return Path(plant.root, landed.manifest.files[0].path)
