"""Exports: the ledger for one consumer, piece by piece."""

from __future__ import annotations

import pytest

from penstock.errors import ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.limits import Limits
from penstock.model import Counted, ExportRef, LedgerMode
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("exports")


def finish(verbs: Verbs, *bodies: bytes) -> None:
    verbs.send(*bodies)
    while messages := verbs.claim():
        assert all(verbs.ack(*messages))


@pytest.fixture
def five(verbs: Verbs) -> Verbs:
    """Five messages have finished."""
    verbs.create()
    finish(verbs, b"1", b"2", b"3", b"4", b"5")
    return verbs


def test_takes_the_next_rows_up_to_the_limit(five: Verbs) -> None:
    numbers = [row.number for row in five.rows()]
    export = five.claim_export(limit=3)
    assert export is not None
    assert (export.consumer, export.number, export.after, export.through) == ("c", 1, 0, numbers[2])
    assert (export.rows, export.claimed_at, export.settled_at) == (3, five.now, None)
    assert five.exports.read() == five.rows()[:3]


def test_again_gives_the_same(five: Verbs) -> None:
    first = five.claim_export(limit=3)
    finish(five, b"6")
    five.now += 5
    assert five.claim_export(limit=100) == first
    assert len(five.exports.read()) == 3


def test_goes_on_where_the_one_before_has_ended(five: Verbs) -> None:
    first = five.claim_export(1, limit=3)
    assert first is not None
    five.now += 5
    settled = five.exports.settle(1)
    assert settled.settled_at == five.now
    second = five.claim_export(2)
    assert second is not None
    assert (second.after, second.rows) == (first.through, 2)
    assert five.exports.read(2) == five.rows()[3:]
    five.exports.settle(2)
    assert five.claim_export(3) is None
    finish(five, b"6")
    third = five.claim_export(3)
    assert third is not None
    assert (third.after, third.rows) == (second.through, 1)


def test_of_no_rows_makes_nothing(verbs: Verbs) -> None:
    verbs.create()
    assert verbs.claim_export() is None
    assert verbs.exports.list() == []


def test_numbers_are_taken_in_turn(five: Verbs) -> None:
    with pytest.raises(ShipmentConflict) as refusal:
        five.claim_export(2)
    assert refusal.value.expected == 1
    five.claim_export(1, limit=1)
    with pytest.raises(ShipmentConflict) as refusal:
        five.claim_export(2)
    assert refusal.value.expected == 1
    five.exports.settle(1)
    with pytest.raises(ShipmentConflict) as refusal:
        five.claim_export(3)
    assert refusal.value.expected == 2
    with pytest.raises(ShipmentEnded) as ended:
        five.claim_export(1)
    assert ended.value.how == "settled"


def test_every_consumer_gets_all_rows(five: Verbs) -> None:
    five.claim_export(consumer="x", limit=2)
    five.claim_export(consumer="y")
    assert len(five.exports.read(consumer="x")) == 2
    assert five.exports.read(consumer="y") == five.rows()


def test_lists_by_consumer_and_number(five: Verbs) -> None:
    five.claim_export(1, limit=1, consumer="b")
    first = five.exports.settle(1, consumer="b")
    second = five.claim_export(2, limit=1, consumer="b")
    other = five.claim_export(1, consumer="a")
    assert five.exports.list() == [other, first, second]
    assert five.exports.list("b") == [first, second]
    assert five.exports.list("b", after=1) == [second]
    assert five.exports.list(limit=1) == [other]


def test_reads_any_part_of_it(five: Verbs) -> None:
    five.claim_export(limit=4)
    rows = five.rows()
    assert five.exports.read(after=rows[0].number, limit=2) == rows[1:3]
    assert five.exports.read(after=rows[2].number) == rows[3:4]
    assert five.exports.read(after=rows[3].number) == []


def test_reads_no_row_of_an_earlier_one(five: Verbs) -> None:
    five.claim_export(1, limit=2)
    five.exports.settle(1)
    five.claim_export(2, limit=2)
    assert five.exports.read(2, after=0) == five.rows()[2:4]


@pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
def test_stops_early_for_large_bodies(verbs: Verbs) -> None:
    verbs.create(ledger=LedgerMode.BODIES)
    verbs.create("without", ledger=LedgerMode.OUTCOMES)
    verbs.send(b"n" * 50, to="without")
    verbs.ack(*verbs.claim(queue="without"))
    finish(verbs, b"x" * 6, b"y" * 4, b"z", b"w" * 100, b"v")
    verbs.claim_export()
    pages = []
    after = 0
    while page := verbs.exports.read(after=after):
        pages.append([row.size for row in page])
        after = page[-1].number
    assert pages == [[50, 6, 4], [1, 100], [1]]


def test_settling_twice_changes_nothing(five: Verbs) -> None:
    five.claim_export()
    first = five.exports.settle()
    five.now += 5
    assert five.exports.settle() == first


def test_a_settled_one_cannot_be_read(five: Verbs) -> None:
    five.claim_export()
    five.exports.settle()
    with pytest.raises(ShipmentEnded) as refusal:
        five.exports.read()
    assert refusal.value.how == "settled"


def test_one_whose_rows_were_swept_cannot_be_read(five: Verbs) -> None:
    five.claim_export()
    assert five.sweep(limit=2, ledger_before=five.now + 1) == 2
    with pytest.raises(ShipmentEnded) as refusal:
        five.exports.read()
    assert refusal.value.how == "purged"
    assert five.exports.settle().settled_at == five.now
    finish(five, b"6")
    following = five.claim_export(2)
    assert following is not None
    assert following.rows == 1


def test_a_number_that_never_was(five: Verbs) -> None:
    with pytest.raises(ShipmentNotFound):
        five.exports.read()
    with pytest.raises(ShipmentNotFound):
        five.exports.settle()


def test_the_last_of_a_consumer_is_never_forgotten(five: Verbs) -> None:
    for number in (1, 2):
        five.claim_export(number, limit=2)
        five.exports.settle(number)
    five.now += Limits().shipment_remembered_ms
    five.sweep()
    assert len(five.exports.list()) == 2
    five.now += 1
    assert five.sweep() == 1
    assert five.sweep() == 0
    assert [export.number for export in five.exports.list()] == [2]
    following = five.claim_export(3)
    assert following is not None
    assert following.rows == 1


@pytest.mark.parametrize("limits", [Limits(export_count_rows=2)])
def test_the_rows_are_counted_in_steps_and_nothing_is_claimed_before_the_last(five):
    counted = None
    for rows in (2, 4):
        with five.unit() as unit:
            counted = unit.exports.claim(ExportRef("c", 1), 100, five.now, counted)
            assert isinstance(counted, Counted)
            assert counted.rows == rows
        assert five.exports.list() == []
    with five.unit() as unit:
        export = unit.exports.claim(ExportRef("c", 1), 100, five.now, counted)
    assert export.rows == len(five.exports.read()) == 5
    five.exports.settle()
    # What was counted for another number does not count.
    with five.unit() as unit:
        assert unit.exports.claim(ExportRef("c", 2), 100, five.now, counted) is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("limits", [Limits(export_count_rows=2)])
def test_steps_end_at_the_limit(five, limit):
    assert five.claim_export(limit=limit).rows == min(limit, 5)
