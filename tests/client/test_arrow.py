"""The verbs that carry much, in Arrow."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from penstock.client import (
    Client,
    ExportRef,
    InvalidRequest,
    SendConflict,
    SentCounts,
    ShipmentEnded,
    ShipmentRef,
    UnexpectedAnswer,
)
from tests.client.test_transport import answer, listen  # noqa: F401

FIRST = ShipmentRef("jobs", "lake", 1)


@pytest.fixture
def jobs(client: Client) -> Client:
    client.create_queue("jobs")
    return client


def batch(*bodies: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": list(bodies)})


def bodies(batches: object) -> list[bytes]:
    return [body for one in batches for body in one["body"].to_pylist()]


def test_a_send_with_a_key_is_stored_once(jobs):
    assert jobs.arrow.send("jobs", batch("a", "b"), "k") == SentCounts(2, 2, repeated=False)
    assert jobs.arrow.send("jobs", batch("a", "b"), "k") == SentCounts(2, 2, repeated=True)
    with pytest.raises(SendConflict):
        jobs.arrow.send("jobs", batch("b", "a"), "k")
    assert jobs.arrow.send("jobs", pa.table({"body": ["c"]})) == SentCounts(1, 1)
    assert jobs.arrow.peek("jobs").batch["body"].to_pylist() == [b"a", b"b", b"c"]


def test_peeking_page_by_page(jobs):
    jobs.arrow.send("jobs", batch(*"01234"))
    found, after = [], None
    while (peeked := jobs.arrow.peek("jobs", limit=2, after=after)).after is not None:
        found.append(peeked.batch)
        after = peeked.after
    assert bodies(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert peeked.batch.num_rows == 0


def test_claims_and_acks(jobs):
    jobs.arrow.send("jobs", batch("a", "b"))
    claimed = jobs.arrow.claim("jobs", limit=10)
    assert claimed["body"].to_pylist() == [b"a", b"b"]
    assert jobs.arrow.ack("jobs", claimed["receipt"]) == [True, True]
    assert jobs.arrow.ack("jobs", claimed["receipt"]) == [False, False]
    nothing = jobs.arrow.claim("jobs")
    assert nothing.num_rows == 0
    assert jobs.arrow.ack("jobs", nothing["receipt"]) == []


def test_renewals_and_releases(jobs):
    jobs.arrow.send("jobs", batch("a", "b"))
    receipts = jobs.arrow.claim("jobs", limit=10)["receipt"]
    assert jobs.arrow.renew("jobs", receipts, 60_000) == [True, True]
    assert jobs.arrow.release("jobs", receipts[:1]) == [True]
    assert jobs.arrow.release("jobs", pa.chunked_array([receipts[1:]]), delay_ms=60_000) == [True]
    count = jobs.queue("jobs").count
    assert (count.ready, count.delayed) == (1, 1)
    assert jobs.arrow.renew("jobs", receipts[:0], 60_000) == jobs.arrow.release("jobs", receipts[:0]) == []
    for verb in (jobs.arrow.ack, jobs.arrow.release, lambda queue, none: jobs.arrow.renew(queue, none, 60_000)):
        with pytest.raises(InvalidRequest, match="a receipt must not be null"):
            verb("jobs", pa.array([None], pa.string()))


def test_a_shipment_is_read_by_position(jobs):
    jobs.arrow.send("jobs", batch(*"01234"))
    jobs.claim_shipment(FIRST)
    read = jobs.arrow.read_shipment
    assert bodies(read(FIRST)) == bodies(read(FIRST, per_page=2)) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(read(FIRST, 1, 3)) == bodies(read(FIRST, 1, 3, per_page=1)) == [b"1", b"2"]
    assert list(read(FIRST, 3, 3)) == list(read(FIRST, 9)) == []
    jobs.release_shipment(FIRST)
    with pytest.raises(ShipmentEnded):
        list(read(FIRST))


def test_the_ledger_and_its_exports(jobs):
    jobs.arrow.send("jobs", batch(*"01234"))
    jobs.purge("jobs")
    numbers = [row.number for row in jobs.ledger()]

    def found(batches: object) -> list[int]:
        return [number for one in batches for number in one["number"].to_pylist()]

    assert found(jobs.arrow.ledger()) == found(jobs.arrow.ledger(per_page=2)) == numbers
    assert found(jobs.arrow.ledger(queue="jobs", after=numbers[3])) == numbers[4:]
    assert found(jobs.arrow.ledger(queue="nowhere")) == []
    export = jobs.claim_export(ExportRef("archive", 1))
    read = jobs.arrow.read_export
    assert found(read(export)) == found(read(export, per_page=2)) == numbers
    assert found(read(export, numbers[0], numbers[2])) == found(read(export, numbers[0], numbers[2], 1)) == numbers[1:3]
    assert found(read(export, numbers[2], numbers[2])) == []


def test_an_answer_that_is_not_arrow(listen, connect):  # noqa: F811
    listener = listen([answer(200, b"{}")])
    with connect(listener.url) as client, pytest.raises(UnexpectedAnswer, match="Arrow"):
        client.arrow.peek("jobs")


def test_without_pyarrow_only_arrow_is_missing():
    program = """
import sys
sys.modules["pyarrow"] = None
from penstock.client import Client
try:
    Client().arrow
except ImportError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pyarrow" in told
