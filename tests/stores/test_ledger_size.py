from __future__ import annotations

import pytest

from penstock.errors import ShipmentEnded
from penstock.model import LedgerMode, LedgerSize
from penstock.policy import LEDGER_ROW_BYTES as ROW
from penstock.stores.protocol import needed


def measure(verbs, limit: int = 1_000) -> int:
    with verbs.unit() as unit:
        return needed(unit.ledger, "ledger").measure(limit)


def size(verbs) -> LedgerSize:
    with verbs.unit(write=False) as unit:
        return needed(unit.ledger, "ledger").size()


def finish(verbs, *bodies: bytes, queue: str = "q") -> None:
    verbs.send(*bodies, to=queue)
    assert all(verbs.ack(*verbs.claim(limit=len(bodies), queue=queue)))


def test_an_empty_ledger(verbs):
    assert measure(verbs) == 0
    assert size(verbs) == LedgerSize(0, 0, None)


def test_rows_are_counted_once_and_with_the_bodies_that_are_kept(verbs):
    verbs.create()
    verbs.create("bodies", ledger=LedgerMode.BODIES)
    at = verbs.now
    finish(verbs, b"12345", b"x")
    verbs.now += 10
    finish(verbs, b"12345", queue="bodies")
    assert size(verbs) == LedgerSize(0, 0, at)
    assert measure(verbs) == 3
    assert measure(verbs) == 0
    assert size(verbs) == LedgerSize(3, 3 * ROW + 5, at)
    finish(verbs, b"4")
    assert measure(verbs) == 1
    assert size(verbs).rows == 4


def test_a_few_at_a_time(verbs):
    verbs.create(ledger=LedgerMode.BODIES)
    finish(verbs, *[b"xx"] * 7)
    assert [measure(verbs, 3) for _ in range(4)] == [3, 3, 1, 0]
    assert size(verbs).bytes == 7 * (ROW + 2)


def test_a_lost_unit_has_counted_nothing(verbs):
    verbs.create()
    finish(verbs, b"x")

    def lose() -> None:
        with verbs.unit() as unit:
            assert needed(unit.ledger, "ledger").measure(10) == 1
            raise KeyError

    with pytest.raises(KeyError):
        lose()
    assert size(verbs).rows == 0
    assert measure(verbs) == 1


def test_the_oldest_rows_go_while_there_are_too_many(verbs):
    verbs.create(ledger=LedgerMode.BODIES)
    for _ in range(6):
        finish(verbs, b"x" * 100)
        verbs.now += 10
    measure(verbs)
    at_most = 2 * (ROW + 100) + 50
    assert verbs.sweep(3, ledger_bytes=at_most) == 3
    assert verbs.sweep(3, ledger_bytes=at_most) == 1
    assert verbs.sweep(3, ledger_bytes=at_most) == 0
    assert size(verbs) == LedgerSize(2, 2 * (ROW + 100), verbs.now - 20)
    assert verbs.sweep(3, ledger_bytes=None) == 0


def test_rows_that_were_not_counted_are_not_taken_off(verbs):
    verbs.create()
    finish(verbs, b"1", b"2", b"3")
    measure(verbs, 2)
    verbs.now += 10
    assert verbs.sweep(ledger_before=verbs.now) == 3
    assert size(verbs) == LedgerSize(0, 0, None)
    finish(verbs, b"4")
    assert measure(verbs) == 1
    assert size(verbs).rows == 1


def test_what_is_old_goes_even_if_there_is_room(verbs):
    verbs.create()
    finish(verbs, b"1", b"2")
    verbs.now += 10
    finish(verbs, b"3")
    measure(verbs)
    assert verbs.sweep(ledger_before=verbs.now, ledger_bytes=1_000_000) == 2
    assert size(verbs) == LedgerSize(1, ROW, verbs.now)


def test_an_export_ends_when_its_rows_have_gone(verbs):
    """As it does when they were too old."""
    verbs.create()
    finish(verbs, b"1", b"2", b"3")
    verbs.claim_export()
    measure(verbs)
    assert verbs.sweep(ledger_bytes=2 * ROW) == 1
    with pytest.raises(ShipmentEnded):
        verbs.exports.read(1)
