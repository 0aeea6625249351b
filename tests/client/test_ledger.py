"""The ledger through the client: page by page, filtered, and handed over in exports."""

from __future__ import annotations

import hashlib

import pytest

from penstock.client import Client, ExportRef, LedgerRow, ShipmentConflict, ShipmentEnded, ShipmentNotFound

FIRST = ExportRef("archive", 1)


@pytest.fixture
def finished(client: Client) -> Client:
    """Three messages of `jobs` and one of `other`, all done with."""
    client.create_queue("jobs", ledger="bodies")
    client.create_queue("other")
    client.send_many("jobs", ["a", b"\xff", "c"])
    client.send("other", "d", content_type="text/plain")
    client.ack("jobs", client.claim("jobs", limit=3))
    client.purge("other")
    return client


def test_rows(finished):
    rows = list(finished.ledger())
    assert [(row.queue, row.outcome, row.receives) for row in rows] == [
        *[("jobs", "processed", 1)] * 3,
        ("other", "purged", 0),
    ]
    assert [row.body for row in rows] == [b"a", b"\xff", b"c", None]
    last = rows[-1]
    assert (last.size, last.body_hash) == (1, hashlib.sha256(b"d").hexdigest())
    assert (last.content_type, last.first_claimed_at) == ("text/plain", None)
    assert isinstance(last, LedgerRow)
    assert list(finished.ledger(per_page=2)) == rows
    assert list(finished.ledger(after=rows[2].number)) == rows[3:]


def test_filters(finished):
    rows = list(finished.ledger())
    assert list(finished.ledger(queue="other")) == rows[3:]
    assert list(finished.ledger(id=rows[1].id)) == rows[1:2]
    assert list(finished.ledger(since=rows[-1].finished_at + 60_000)) == []
    assert list(finished.ledger(before=rows[-1].finished_at + 60_000, queue="jobs")) == rows[:3]


def test_the_life_of_an_export(finished):
    assert finished.next_export("archive") == FIRST
    claimed = finished.claim_export(FIRST, limit=3)
    assert (claimed.ref, claimed.rows, claimed.has_ended) == (FIRST, 3, False)
    assert finished.claim_export(FIRST) == finished.export(FIRST) == claimed
    assert finished.next_export("archive") == FIRST
    rows = list(finished.ledger())
    assert list(finished.read_export(FIRST)) == list(finished.read_export(claimed, per_page=2)) == rows[:3]
    assert list(finished.read_export(FIRST, rows[0].number, rows[1].number)) == rows[1:2]
    assert list(finished.read_export(FIRST, 2, 2)) == []
    with pytest.raises(ShipmentConflict) as caught:
        finished.claim_export(ExportRef("archive", 2))
    assert caught.value.expected == 1
    assert finished.settle_export(FIRST).has_ended
    with pytest.raises(ShipmentEnded) as ended:
        list(finished.read_export(FIRST))
    assert ended.value.how == "settled"
    assert finished.claim_export(finished.next_export("archive")).rows == 1
    assert [one.number for one in finished.exports()] == [one.number for one in finished.exports(per_page=1)] == [1, 2]
    assert list(finished.exports("other")) == []


def test_no_rows_are_no_export(client):
    assert client.claim_export(FIRST) is None
    with pytest.raises(ShipmentNotFound):
        client.export(FIRST)
