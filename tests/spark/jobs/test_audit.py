"""`audit`: silent when everything adds up, and never when something does not."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
from pathlib import Path

import apsw
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.client import ShipmentRef
from penstock.spark.jobs import JobFailed, Run, retire
from penstock.spark.jobs.inventory import named
from penstock.spark.manifest import LakeFile, Manifest, Place
from tests.lacking import path_of
from tests.spark.jobs.test_drain import land

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


def place_of(plant, number: int, consumer: str = "drain") -> Place:
    [place] = [it for it in plant.lake.shipped("q", consumer) if it.number == number]
    return place


def file_of(plant, number: int) -> Path:
    return Path(plant.root, place_of(plant, number).file)


def rows_of(plant, number: int) -> pa.Table:
    return pq.ParquetFile(file_of(plant, number)).read()


def put(plant, place: Place, rows: pa.Table) -> None:
    """A file with its manifest, as a drain would put them."""
    file = Path(plant.root, place.file)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)
    data, ids = file.read_bytes(), rows["id"].to_pylist()
    digest = hashlib.sha256(data).hexdigest()
    whole = LakeFile(place.file, rows.num_rows, len(data), digest, min(ids), max(ids))
    manifest = Manifest(place.consumer, place.number, place.claimed_at, rows.num_rows, (whole,), place.queue)
    target = Path(plant.root, place.manifest)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(msgspec.json.encode(manifest))


def renamed(rows: pa.Table, *ids: str) -> pa.Table:
    return rows.set_column(rows.column_names.index("id"), "id", pa.array(ids))


def test_all_is_well(busy) -> None:
    summary = busy.audit()
    assert summary.findings == []
    assert (summary.queues, summary.arrived, summary.live, summary.departed) == (2, 8, 3, 5)
    assert (summary.shipments, summary.messages, summary.ledger_rows) == (2, 3, 5)
    assert (summary.full, summary.new_shipments, summary.new_messages) == (True, 2, 3)
    assert busy.audit(lake=None).findings == []


# What is settled is in a lake


def test_all_that_was_drained_is_deleted(busy) -> None:
    shutil.rmtree(busy.root)
    expected = "q, consumer drain: shipments 1 to 2 are settled, but not in the lake (3 messages)"
    assert busy.audit().findings == [expected]
    assert busy.audit().findings == [expected], "until it is back"


def test_all_is_deleted_after_an_audit(busy) -> None:
    """Also of the ledger: then it is known that there was one."""
    assert busy.audit().findings == []
    for folder in ("messages", "ledger", "_manifests"):
        shutil.rmtree(Path(busy.root, folder))
    assert busy.audit().findings == [
        "q, consumer drain: shipments 1 to 2 are settled, but not in the lake (3 messages)",
        "ledger, consumer archive: export 1 is settled, but not in the lake (5 rows)",
    ]


def test_a_shipment_that_is_gone(busy) -> None:
    busy.lake.remove(place_of(busy, 1))
    [finding] = busy.audit().findings
    assert finding == "q, consumer drain: shipment 1 is settled, but not in the lake (2 messages)"


def test_the_files_of_a_consumer_are_gone(busy) -> None:
    shutil.rmtree(Path(busy.root, "messages", "queue=q", "consumer=drain"))
    [finding] = busy.audit().findings
    assert finding.startswith(f"q, consumer drain: its folder is gone from {busy.root}; manifests name 2 files")


def test_a_manifest_without_its_file(busy) -> None:
    file = file_of(busy, 2)
    for full in (True, False, False):
        file.unlink(missing_ok=True)
        [finding] = busy.audit(full=full).findings
        assert finding == f"q, consumer drain: manifests name files that are missing, with 1 rows: {file}"


def test_a_file_without_its_manifest(busy) -> None:
    Path(busy.root, place_of(busy, 2).manifest).unlink()
    [finding] = busy.audit().findings
    assert finding == (
        "q, consumer drain: shipment 2 is settled, but of the lake's file the manifest is gone (1 messages)"
    )


def test_files_that_no_manifest_names(busy) -> None:
    folder = file_of(busy, 2).parent
    shutil.copy(file_of(busy, 2), folder / "copy.parquet")
    (folder / "_note").write_text("hidden from readers")
    [finding] = busy.audit().findings
    assert finding == f"no manifest names this file: {folder}/copy.parquet"


def test_a_manifest_that_is_none(busy) -> None:
    Path(busy.root, place_of(busy, 2).manifest).write_text("{")
    first, second = busy.audit().findings
    assert "shipment 2 is settled, but of the lake's file the manifest is gone" in first
    assert "is not a manifest" in second


def test_a_lake_that_was_moved(busy, tmp_path) -> None:
    assert busy.audit().findings == []
    moved = shutil.move(busy.root, tmp_path / "moved")
    summary = busy.audit(lake=str(moved))
    assert (summary.findings, summary.full) == ([], False)


def test_two_lakes(busy) -> None:
    """A consumer may have drained to both; neither alone is enough."""
    second = f"{busy.root}-2"
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    busy.drain(lake=second)
    [finding] = busy.audit().findings
    assert finding == (
        f"q, consumer drain: shipment 4 is settled and stored in {second}, but in no lake that was audited (2 messages)"
    )
    summary = busy.audit(lake=[busy.root, second])
    assert (summary.findings, summary.messages, summary.lakes) == ([], 5, [busy.root, second])
    assert busy.audit(elsewhere=["drain"]).findings == []
    assert busy.audit(elsewhere=["other/drain"]).findings != []
    summary = busy.audit(elsewhere=["q/drain"])
    assert (summary.elsewhere, summary.elsewhere_messages) == (1, 2)


def test_a_shipment_of_which_nobody_says_where_it_is(busy) -> None:
    """A stream's, or a program's of your own."""
    shipment = busy.client.claim_shipment(ShipmentRef("q", "mine", 1), 1, HOUR_MS)
    busy.client.settle_shipment(shipment)
    summary = busy.audit()
    assert (summary.findings, summary.elsewhere, summary.elsewhere_messages) == ([], 1, 1)


def test_what_was_retired(busy) -> None:
    now = busy.clock() + 48 * HOUR_MS
    assert retire(busy.root, 1, queue="q", now_ms=now, run=Run(busy.spark)).messages == 3
    for _ in range(2):
        summary = busy.audit()
        assert (summary.findings, summary.messages, summary.retired_messages) == ([], 0, 3)


def test_what_the_server_has_forgotten(busy) -> None:
    """An audit remembers what it has seen."""
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    busy.drain()
    busy.archive()
    assert busy.audit().findings == []
    busy.clock.ahead_ms += 31 * 24 * HOUR_MS
    assert [it.number for it in busy.client.shipments("q", "drain")] == [4]
    busy.lake.remove(place_of(busy, 1))
    expected = "q, consumer drain: shipment 1 is no longer in the lake, as an earlier audit found it (2 messages)"
    assert busy.audit().findings == [expected]
    assert busy.audit(full=True).findings == [expected]
    assert busy.audit(elsewhere=["drain"]).findings == []


def test_a_lane_is_its_consumers(busy) -> None:
    shipment = busy.client.claim_shipment(ShipmentRef("q", "drain.2", 1), 1, HOUR_MS)
    busy.client.settle_shipment(shipment, stored_in=busy.root)
    [finding] = busy.audit().findings
    assert "consumer drain.2: shipment 1 is settled, but not in the lake" in finding
    assert busy.audit(elsewhere=["drain"]).findings == []


def test_a_shipment_that_lost_rows(busy) -> None:
    place, rows = place_of(busy, 1), rows_of(busy, 1)
    put(busy, place, rows.slice(1))
    [finding] = busy.audit().findings
    assert finding == "q, consumer drain: shipment 1 held 2 messages, the lake has 1 of it"


def test_a_folder_of_a_released_shipment(busy) -> None:
    land(busy, busy.client.shipment(ShipmentRef("q", "drain", 3)))
    assert busy.audit().findings == []
    busy.client.take_lease("q", "drain", "somebody", HOUR_MS)
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    assert busy.audit().findings == [], "a drain is at work"
    busy.client.drop_lease("q", "drain", "somebody")
    [finding] = busy.audit().findings
    assert "shipment 3, which was released" in finding
    Path(busy.root, place_of(busy, 3).manifest).unlink()
    [finding] = busy.audit().findings
    assert finding.startswith("no manifest names this file")


def test_an_export_that_lost_rows(busy) -> None:
    [place] = busy.lake.exported()
    manifest = busy.lake.manifest(place)
    path = Path(busy.root, place.manifest)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, rows=4)))
    [finding] = busy.audit().findings
    assert finding == "ledger, consumer archive: export 1 had 5 rows, the lake has 4 of it"


# What is in the files


def test_a_file_of_another_size(busy) -> None:
    file = file_of(busy, 2)
    file.write_bytes(b"another")
    for _ in range(2):
        [finding] = busy.audit().findings
        assert finding.startswith(f"{file} has 7 bytes, but its manifest says ")


def test_a_file_that_cannot_be_read(busy) -> None:
    """As long as the one that belongs there, and found again by the next audit, until it is back."""
    file = file_of(busy, 2)
    whole = file.read_bytes()
    file.write_bytes(bytes(len(whole)))
    [finding] = busy.audit().findings
    assert finding.startswith(f"{file} cannot be read: ")
    summary = busy.audit()
    assert (summary.findings, summary.full, summary.new_shipments) == ([finding], False, 0)
    file.write_bytes(whole)
    summary = busy.audit()
    assert (summary.findings, summary.new_shipments) == ([], 1)


def test_a_file_that_was_changed_is_found_by_a_deep_audit(busy) -> None:
    file = file_of(busy, 2)
    data = bytearray(file.read_bytes())
    assert busy.audit().findings == []
    data[-12] ^= 1  # in the text that says who wrote it, or in nothing that a reader needs
    rest = data.find(b"parquet-cpp")
    data[rest] ^= 1
    data[-12] ^= 1
    file.write_bytes(data)
    assert busy.audit().findings == []
    assert busy.audit(full=True).findings == []
    expected = [f"{file} is not the file that was written: its SHA-256 is another"]
    assert busy.audit(deep=True).findings == expected
    assert busy.audit().findings == expected


def test_a_message_in_two_consumers_folders(busy) -> None:
    put(busy, Place("thief", 1, place_of(busy, 2).claimed_at, "q"), rows_of(busy, 2))
    for _ in range(2):
        findings = busy.audit().findings
        assert "q, consumer thief: the lake has shipment 1, which the server does not know" in findings
        [twice] = [it for it in findings if "more than once" in it]
        assert twice.startswith("1 messages are in the lake more than once: ")
        assert twice.endswith(" in q/drain/2, q/thief/1")


def test_a_message_twice_in_one_file(busy) -> None:
    rows = rows_of(busy, 1)
    put(busy, place_of(busy, 1), pa.concat_tables([rows, rows.slice(0, 1)]))
    first, second = busy.audit().findings
    assert "shipment 1 held 2 messages, the lake has 3 of it" in first
    assert "1 messages are in the lake more than once" in second


def test_a_message_that_an_earlier_audit_has_seen(busy) -> None:
    """Among new ones that are not: only the old file that may hold it is read. It is found until it is gone."""
    assert busy.audit().findings == []
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    busy.drain()
    new, old = rows_of(busy, 4), rows_of(busy, 1)
    put(busy, place_of(busy, 4), renamed(new, old["id"][0].as_py(), new["id"][1].as_py()))
    summary = busy.audit()
    [twice] = [it for it in summary.findings if "more than once" in it]
    assert twice == f"1 messages are in the lake more than once: {old['id'][0]} in q/drain/1, q/drain/4"
    assert (summary.full, summary.new_messages) == (False, 2)
    again = busy.audit()
    assert (again.findings, again.new_messages) == ([twice], 0)
    put(busy, place_of(busy, 4), new)
    summary = busy.audit()
    assert (summary.findings, summary.new_shipments) == ([], 2)


def test_a_message_that_the_ledger_does_not_know(busy) -> None:
    rows = rows_of(busy, 2)
    put(busy, place_of(busy, 2), renamed(rows, "strange"))
    expected = ["q: 1 drained messages have no ledger row as processed, such as strange"]
    assert busy.audit().findings == expected
    assert busy.audit().findings == expected
    put(busy, place_of(busy, 2), rows)
    summary = busy.audit()
    assert (summary.findings, summary.new_messages) == ([], 1)


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


# Only what is new


def test_only_what_is_new_is_read(busy) -> None:
    busy.audit()
    again = busy.audit()
    assert (again.findings, again.full, again.new_shipments, again.compared) == ([], False, 0, 0)
    assert (again.shipments, again.messages, again.ledger_rows) == (2, 3, 5)
    busy.client.release_shipment(ShipmentRef("q", "drain", 3))
    busy.drain()
    summary = busy.audit()
    assert (summary.findings, summary.new_shipments, summary.new_messages) == ([], 1, 2)
    assert (summary.messages, summary.ledger_rows) == (5, 7)
    busy.archive()
    assert busy.audit().findings == []
    assert busy.audit(full=True).findings == []


def test_rows_that_were_counted_may_be_freed(busy, tmp_path) -> None:
    """They are in the lake, or were when they were counted."""
    assert busy.audit().findings == []
    with apsw.Connection(str(tmp_path / "data" / "penstock.db")) as database:
        database.set_busy_timeout(60_000)
        database.execute("DELETE FROM ledger WHERE number <= 3")
    assert busy.audit().findings == []
    assert busy.audit(full=True).findings == [], "the lake has them"


def test_a_queue_that_was_created_again(busy) -> None:
    assert busy.audit().findings == []
    busy.clock.ahead_ms += 1
    busy.client.delete_queue("q")
    busy.clock.ahead_ms += 1
    busy.client.create_queue("q")
    assert busy.audit().findings == []
    busy.send("q", "x")
    busy.drain(consumer="second")
    summary = busy.audit()
    assert (summary.findings, summary.messages) == ([], 4)


def test_the_record_of_another_store(busy) -> None:
    """The numbers of its ledger say nothing here."""
    busy.audit()
    [record] = Path(busy.root, "_audit").iterdir()
    told = json.loads(record.read_bytes())
    assert told["mark"][0] == 5
    record.write_text(json.dumps({**told, "mark": [5, "another"]}))
    summary = busy.audit()
    assert (summary.findings, summary.full) == ([], True)
    record.write_text(json.dumps({**told, "mark": [500, told["mark"][1]]}))
    assert busy.audit().full
    record.write_text("nonsense")
    assert busy.audit().full
    assert not busy.audit().full


def test_beside_drains_that_run(plant) -> None:
    """What is between two of its steps is not a finding."""
    ended = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(2):
                plant.send("q", *(f"{number} {at}" for at in range(100)))
                plant.drain(limit=20, lanes=2)
                plant.archive(limit=70)
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    audits = 0
    while not ended.is_set():
        assert plant.audit(full=audits % 2 == 1).findings == []
        audits += 1
    thread.join()
    assert failed == []
    assert audits > 1
    summary = plant.audit()
    assert (summary.findings, summary.messages, summary.ledger_rows) == ([], 200, 200)


def test_a_settlement_that_takes_several_steps(busy, tmp_path) -> None:
    """The end of a shipment is decided before all its messages have left."""
    shipment = busy.client.shipment(ShipmentRef("q", "drain", 3))
    land(busy, shipment)
    with apsw.Connection(str(tmp_path / "data" / "penstock.db")) as database:
        database.set_busy_timeout(60_000)
        decided = "UPDATE shipment SET state = 'settled', ended_at = ?, stored_in = ?, due_at = ? WHERE number = 3"
        database.execute(decided, (busy.clock(), busy.root, 2**40 * 1000))
    assert busy.audit().findings == []
    assert busy.audit().new_messages == 1, "which was not compared yet"
    busy.client.settle_shipment(shipment, stored_in=busy.root)
    assert busy.audit().findings == []
    assert busy.audit().new_messages == 0


# The verdict


def test_the_verdict_is_written(busy, tmp_path) -> None:
    verdict, metrics = tmp_path / "verdict.json", tmp_path / "penstock.prom"
    busy.audit(to=str(verdict), metrics=str(metrics))
    told = json.loads(verdict.read_bytes())
    assert (told["verdict"], told["findings"], told["messages"]) == ("well", [], 3)
    assert "penstock_audit_findings 0\n" in metrics.read_text()
    shutil.rmtree(busy.root)
    busy.audit(to=str(verdict), metrics=str(metrics))
    told = json.loads(verdict.read_bytes())
    assert (told["verdict"], len(told["findings"])) == ("findings", 1)
    text = metrics.read_text()
    assert "penstock_audit_findings 1\n" in text
    assert f"penstock_audit_finished_timestamp_seconds {told['finished_at'] / 1000}\n" in text
    checked = subprocess.run([path_of("promtool"), "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert sorted(it.name for it in tmp_path.iterdir() if it.name.startswith(("verdict", "penstock"))) == [
        "penstock.prom", "verdict.json",
    ]  # fmt: skip
    with pytest.raises(JobFailed, match="cannot be written"):
        busy.audit(to=str(tmp_path / "nowhere" / "verdict.json"))


def test_a_dry_run(busy) -> None:
    summary = busy.audit(dry_run=True)
    assert (summary.queues, summary.messages) == (2, 0)
    assert not Path(busy.root, "_audit").exists()


def test_numbers_are_told_in_ranges() -> None:
    assert named("shipment", [7]) == "shipment 7"
    assert named("shipment", [3, 1, 2]) == "shipments 1 to 3"
    assert named("export", [1, 2, 3, 7, 9]) == "exports 1 to 3, 7 and 9"
    assert named("export", range(1, 20, 2)) == "exports 1, 3, 5 and 7 more ranges"
