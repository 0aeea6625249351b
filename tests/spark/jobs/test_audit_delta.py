"""`audit` of a lake of Delta tables: their log says which files they have, and files may be merged and retired."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from penstock.spark.jobs import audit
from tests.spark.jobs.test_compact import compacted, retired
from tests.spark.jobs.test_delta import archived, drained

DAY_MS = 24 * 3_600_000


@pytest.fixture
def busy(plant):
    """Three shipments of two messages, an export of each, and what is live."""
    for number in range(3):
        plant.send("q", f"a{number}", f"b{number}")
        drained(plant)
        archived(plant)
    plant.send("other", "x")
    return plant


def vacuum(plant) -> list[str]:
    removed = []
    for root in ("messages", "ledger"):
        table = deltalake.DeltaTable(f"{plant.root}/{root}")
        removed += table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    return removed


def test_all_is_well(busy) -> None:
    summary = busy.audit()
    assert (summary.findings, summary.shipments, summary.messages, summary.ledger_rows) == ([], 3, 6, 6)
    assert busy.audit(deep=True).findings == []
    assert busy.audit().compared == 0


def test_files_that_were_merged(busy) -> None:
    assert busy.audit().findings == []
    assert compacted(busy).files == 2
    assert busy.audit().findings == []
    assert vacuum(busy) != []
    assert busy.audit().findings == []
    summary = busy.audit(deep=True)
    assert (summary.findings, summary.messages) == ([], 6)


def test_what_was_retired(busy) -> None:
    assert busy.audit().findings == []
    busy.clock.ahead_ms += 2 * DAY_MS
    busy.send("q", "new")
    drained(busy)
    assert retired(busy, 1, queue="q").messages == 6
    summary = busy.audit()
    assert (summary.findings, summary.messages, summary.retired_messages) == ([], 1, 6)
    vacuum(busy)
    assert busy.audit(full=True).findings == []


def test_a_file_that_is_missing(busy) -> None:
    [first, *_] = sorted(deltalake.DeltaTable(f"{busy.root}/messages").file_uris())
    Path(first.removeprefix("file://")).unlink()
    for _ in range(2):
        [finding] = busy.audit().findings
        assert finding.startswith("messages: the table's log names files that are missing or of another size: ")


def test_rows_that_were_deleted(busy) -> None:
    """In a transaction of the table, behind our back: its log has fewer rows than the manifests."""
    assert busy.audit().findings == []
    deltalake.DeltaTable(f"{busy.root}/messages").delete("shipment = 2")
    assert busy.audit().findings == ["q: the table has 4 rows, but manifests name 6"]
    first, second = busy.audit(full=True).findings
    assert first == "q: the table has 4 rows, but manifests name 6"
    assert "shipment 2 of q for drain in " in second
    assert second.endswith(" has 0 rows in the table, but its manifest says 2")
    assert second in busy.audit().findings


def test_rows_that_are_there_twice(busy) -> None:
    table = deltalake.DeltaTable(f"{busy.root}/messages")
    rows = table.to_pyarrow_table()
    deltalake.write_deltalake(table, rows.filter(rows["shipment"].cast("int64").to_numpy() == 3), mode="append")
    findings = busy.audit().findings
    assert any("2 messages are in the lake more than once" in finding for finding in findings)
    assert audit(busy.server, busy.root, elsewhere=["drain"]).findings == findings
