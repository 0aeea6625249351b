"""`replay`: what matches is sent once, what does not stays, and nothing happens without a yes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client import ShipmentRef
from penstock.spark.jobs import JobFailed
from penstock.spark.jobs.replay import consumer_for, send_shipment
from penstock.spark.lake import Place

HOUR_MS = 3_600_000


def test_without_a_yes_nothing_happens(plant) -> None:
    plant.send("q", "a", "b")
    summary = plant.replay(queue="q", where="body = 'a'")
    assert (summary.dry_run, summary.looked_at, summary.matched, summary.sent) == (True, 2, 1, 0)
    assert plant.bodies("other") == []
    assert plant.client.queue("q").count.ready == 2


def test_a_whole_queue(plant) -> None:
    plant.send("q", "a", b"\xff", content_type="x/y", attributes={"k": "v"})
    summary = plant.replay(queue="q", yes=True, limit=1)
    assert (summary.sent, summary.repeated, summary.problems) == (2, 0, [])
    found = [(it.body, it.content_type, it.attributes) for it in plant.client.peek("other").messages]
    assert sorted(found) == [(b"a", "x/y", {"k": "v"}), (b"\xff", "x/y", {"k": "v"})]
    assert plant.client.queue("q").count.total == 0
    assert plant.replay(queue="q", yes=True).matched == 0


def test_a_whole_queue_that_was_sent_but_not_settled(plant) -> None:
    plant.send("q", "a", "b")
    shipment = plant.client.claim_shipment(ShipmentRef("q", consumer_for("other"), 1), 10, HOUR_MS)
    send_shipment(plant.spark, plant.server, shipment, "other")
    assert plant.bodies("other") == [b"a", b"b"]
    summary = plant.replay(queue="q", yes=True)
    assert (summary.sent, summary.repeated) == (0, 2)
    assert plant.bodies("other") == [b"a", b"b"]
    assert plant.client.queue("q").count.total == 0


def test_what_matches_of_a_queue(plant) -> None:
    plant.send("q", '{"a":1}', attributes={"error": "timeout"})
    plant.send("q", '{"a":2}', b"\xff", attributes={"error": "other"})
    summary = plant.replay(queue="q", where="attributes['error'] = 'timeout' AND body LIKE '%1%'", yes=True)
    assert (summary.matched, summary.sent, summary.left, summary.problems) == (1, 1, 2, [])
    assert plant.bodies("other") == [b'{"a":1}']
    left = plant.client.peek("q").messages
    assert sorted(message.body for message in left) == [b'{"a":2}', b"\xff"]
    assert plant.client.queue("q").count.ready == 2
    ids = {message.id for message in left}
    assert plant.replay(queue="q", where="body = 'nothing'", yes=True).sent == 0
    assert {message.id for message in plant.client.peek("q").messages} == ids


def test_what_matches_was_sent_but_not_acked(plant) -> None:
    plant.send("q", "a", "b")
    [message] = [it for it in plant.client.peek("q").messages if it.body == b"a"]
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"a"], pa.binary()),
            "content_type": pa.array([None], pa.string()),
            "attributes": pa.array([[]], pa.map_(pa.string(), pa.string())),
        }
    )
    plant.client.arrow.send("other", batch, f"replay/{message.id}/0")
    summary = plant.replay(queue="q", where="body = 'a'", yes=True)
    assert (summary.sent, summary.repeated) == (0, 1)
    assert (plant.bodies("other"), plant.bodies("q")) == ([b"a"], [b"b"])


def test_from_the_lake(plant) -> None:
    plant.send("q", "a", "b", "c")
    plant.drain(limit=2)
    assert plant.replay(lake=plant.root, where="body > 'a' AND queue = 'q'").matched == 2
    summary = plant.replay(lake=plant.root, where="body > 'a'", yes=True)
    assert (summary.sent, plant.bodies("other")) == (2, [b"b", b"c"])
    again = plant.replay(lake=plant.root, where="body > 'a'", yes=True)
    assert (again.sent, again.repeated) == (0, 2)
    assert plant.replay(lake=plant.root, where="body > 'a'", yes=True, label="once more").sent == 2
    assert plant.drained() == [b"a", b"b", b"c"]


def test_groups_go_along(plant) -> None:
    plant.send("q", "a", "b", group="g")
    plant.send("q", "c")
    assert plant.replay(queue="q", where="`group` = 'g' AND body = 'b'", yes=True).sent == 1
    assert plant.replay(queue="q", yes=True).sent == 2
    assert {(it.text, it.group) for it in plant.client.peek("other").messages} == {("a", "g"), ("b", "g"), ("c", None)}
    plant.drain("other")
    plant.replay("q", lake=plant.root, where="group IS NOT NULL", yes=True)
    assert {(it.text, it.group) for it in plant.client.peek("q").messages} == {("a", "g"), ("b", "g")}


def test_from_a_lake_of_before_there_were_groups(plant) -> None:
    plant.send("q", "a", group="g")
    plant.drain()
    plant.send("q", "b")
    plant.drain()
    old = plant.lake.folder(Place("drain", 2, "q"))
    rows = plant.spark.read.parquet(old).drop("group").collect()
    schema = plant.spark.read.parquet(old).drop("group").schema
    plant.spark.createDataFrame(rows, schema).write.mode("overwrite").parquet(old)
    assert plant.drained("body", "group") == [(b"a", "g"), (b"b", None)]
    assert plant.replay(lake=plant.root, where="group IS NULL").matched == 1
    plant.replay(lake=plant.root, yes=True)
    assert {(it.text, it.group) for it in plant.client.peek("other").messages} == {("a", "g"), ("b", None)}
    assert plant.replay(lake=plant.root, yes=True).sent == 0


def test_from_a_lake_of_json(plant) -> None:
    """A body that did not decode is replayed as it came."""
    plant.send("q", '{"a":1}', "broken")
    plant.drain(format="json", schema="a int")
    plant.replay(lake=plant.root, yes=True)
    assert plant.bodies("other") == [b"broken", b'{"a":1}']


def test_what_cannot_be_replayed(plant) -> None:
    for options, text in [
        ({"queue": "q", "where": "nonsense ="}, "not understood"),
        ({"queue": "q", "where": "colour = 1"}, "not understood"),
        ({"queue": "other"}, "to itself"),
        ({}, "name one of them"),
    ]:
        with pytest.raises(JobFailed, match=text):
            plant.replay(yes=True, **options)


def test_every_target_has_a_consumer_of_its_own() -> None:
    names = {consumer_for("q"), consumer_for("dedupq/q"), consumer_for("x" * 255), consumer_for("y" * 255)}
    assert len(names) == 4
    assert all(len(name) <= 255 and "/" not in name for name in names)
