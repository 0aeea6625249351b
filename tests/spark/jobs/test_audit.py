"""`audit`: silent when everything adds up, and never when something does not."""

from __future__ import annotations

import apsw
import pytest

from penstock.client import ShipmentRef
from penstock.spark import folders
from penstock.spark.lake import Place
from tests.spark.jobs.test_drain import write

HOUR_MS = 3_600_000


@pytest.fixture
def busy(plant):
    """Messages drained, acked, archived, live, claimed and in an open shipment."""
    plant.send("q", *"abcde")
    plant.drain(max_messages=3, limit=2)
    plant.send("other", *"fgh")
    plant.client.ack("other", plant.client.claim("other", 2))
    plant.archive()
    plant.client.claim("other", 1)
    plant.client.claim_shipment(ShipmentRef("q", "drain", 3), 1, HOUR_MS)
    return plant


def test_all_is_well(busy) -> None:
    summary = busy.audit()
    assert summary.findings == []
    assert (summary.queues, summary.arrived, summary.live, summary.departed) == (2, 8, 3, 5)
    assert (summary.folders, summary.messages, summary.ledger_rows) == (2, 3, 5)
    assert busy.audit(lake=None).findings == []


def test_a_folder_that_is_gone(busy) -> None:
    folders.remove(busy.spark, busy.lake.folder(Place("drain", 1, "q")))
    [finding] = busy.audit().findings
    assert "shipment 1 is settled, but not in the lake" in finding


def test_a_file_that_is_there_twice(busy) -> None:
    folder = busy.lake.folder(Place("drain", 2, "q"))
    busy.spark.read.parquet(folder).write.mode("append").parquet(folder)
    first, second = busy.audit().findings
    assert "shipment 2 held 1 messages, the lake has 2 of it" in first
    assert "1 messages are in the lake more than once" in second


def test_a_message_in_two_consumers_folders(busy) -> None:
    rows = busy.spark.read.parquet(busy.lake.folder(Place("drain", 2, "q")))
    rows.write.parquet(busy.lake.folder(Place("thief", 1, "q")))
    findings = " ".join(busy.audit().findings)
    assert "consumer thief: the lake has shipment 1, which the server does not know" in findings
    assert "q/drain/2, q/thief/1" in findings


def test_a_folder_of_a_released_shipment(busy) -> None:
    write(busy, busy.client.shipment(ShipmentRef("q", "drain", 3)))
    assert busy.audit().findings == []
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    [finding] = busy.audit().findings
    assert "shipment 3, which was released" in finding


def test_a_message_that_the_ledger_does_not_know(busy) -> None:
    folder = busy.lake.folder(Place("drain", 2, "q"))
    rows = busy.spark.read.parquet(folder).collect()
    schema = busy.spark.read.parquet(folder).schema
    changed = [("strange", *list(row)[1:]) for row in rows]
    busy.spark.createDataFrame(changed, schema).write.mode("overwrite").parquet(folder)
    [finding] = busy.audit().findings
    assert finding == "q: 1 drained messages have no ledger row as processed, such as strange"


def test_a_message_that_vanished_from_the_store(busy, tmp_path) -> None:
    """Behind the server's back: its counters know better."""
    database = apsw.Connection(str(tmp_path / "data" / "penstock.db"))
    database.set_busy_timeout(60_000)
    database.execute("DELETE FROM message WHERE seq = (SELECT max(seq) FROM message)")
    database.execute("DELETE FROM ledger WHERE number = (SELECT max(number) FROM ledger)")
    database.close()
    findings = busy.audit(lake=None).findings
    assert any("arrived, but" in finding for finding in findings)
    assert any("ledger rows" in finding for finding in findings)


def test_a_dry_run(busy) -> None:
    summary = busy.audit(dry_run=True)
    assert (summary.queues, summary.messages) == (2, 0)
