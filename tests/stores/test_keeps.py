"""What is kept or remembered for a time is over when that has passed, although no sweep has run."""

from __future__ import annotations

import pytest

from penstock.errors import MoveNotFound, ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.limits import Limits
from penstock.model import Dedup, ShipmentState
from tests.stores.conftest import Verbs

pytestmark = [
    pytest.mark.needs("shipments", "exports", "messages", "moves"),
    pytest.mark.parametrize(
        "limits",
        [
            Limits(
                shipment_kept_ms=50, shipment_remembered_ms=1_000, idempotency_ms=500, attempt_ms=200, move_kept_ms=90
            )
        ],
    ),
]


def settled(verbs: Verbs, number: int, keep: bool = False) -> None:
    verbs.send(b"x")
    verbs.ship(number)
    while verbs.shipments.settle(number=number, keep=keep):
        pass


def test_a_shipment_that_was_kept(verbs):
    verbs.create()
    settled(verbs, 1, keep=True)
    verbs.now += 50
    assert verbs.shipped() == [b"x"]
    verbs.now += 1
    with pytest.raises(ShipmentEnded):
        verbs.shipped()
    verbs.sweep()
    with pytest.raises(ShipmentEnded):
        verbs.shipped()


def test_a_shipment_that_has_ended_and_is_not_the_latest(verbs):
    verbs.create()
    settled(verbs, 1)
    ended_at = verbs.now
    settled(verbs, 2)
    verbs.now += 1_000
    assert verbs.shipments.find(number=1).ended_at == ended_at
    assert [one.number for one in verbs.shipments.list()] == [1, 2]
    verbs.now += 1
    for number, is_known in ((1, False), (2, True)):
        assert (verbs.shipments.find(number=number) is not None) is is_known
    assert [one.number for one in verbs.shipments.list()] == [2]
    assert [one.number for one in verbs.shipments.list(consumer="c", limit=1)] == [2]
    for verb in ("settle", "release", "beat", "read"):
        with pytest.raises(ShipmentNotFound):
            getattr(verbs.shipments, verb)(number=1)
    with pytest.raises((ShipmentConflict, ShipmentEnded)):
        verbs.shipments.claim(number=1)
    verbs.send(b"y")
    assert verbs.ship(3).state is ShipmentState.OPEN
    assert [one.number for one in verbs.shipments.list()] == [3]
    assert verbs.sweep() == 2
    assert [one.number for one in verbs.shipments.list()] == [3]


def test_a_shipment_whose_time_has_run_out_is_late_and_not_lost(verbs):
    """As a claim is: no one else has its messages before a sweep says so."""
    verbs.create()
    verbs.send(b"x")
    until = verbs.ship().until
    verbs.now = until + 1
    assert verbs.shipped() == [b"x"]
    assert verbs.claim() == []
    assert verbs.shipments.beat(hold_ms=10).until == verbs.now + 10
    verbs.now += 11
    assert verbs.shipments.settle() == 1
    assert verbs.shipments.find().state is ShipmentState.SETTLED


def test_an_export_that_was_settled_and_is_not_the_latest(verbs):
    verbs.create()
    for number in (1, 2):
        verbs.send(b"x")
        verbs.ack(*verbs.claim())
        assert verbs.claim_export(number).rows == 1
        verbs.exports.settle(number)
    verbs.now += 1_000
    assert [one.number for one in verbs.exports.list()] == [1, 2]
    with pytest.raises(ShipmentEnded):
        verbs.exports.read(1)
    verbs.now += 1
    assert [one.number for one in verbs.exports.list()] == [2]
    assert [one.number for one in verbs.exports.list(consumer="c", limit=1)] == [2]
    for verb in ("read", "settle"):
        with pytest.raises(ShipmentNotFound):
            getattr(verbs.exports, verb)(number=1)
    with pytest.raises((ShipmentConflict, ShipmentEnded)):
        verbs.exports.claim(1)
    assert verbs.sweep() == 1


def test_an_export_whose_rows_are_past_the_retention_of_the_ledger(verbs):
    verbs.create()
    verbs.send(b"x")
    verbs.ack(*verbs.claim())
    finished_at = verbs.now
    verbs.claim_export()
    assert len(verbs.exports.read(1, ledger_before=finished_at)) == 1
    with pytest.raises(ShipmentEnded):
        verbs.exports.read(1, ledger_before=finished_at + 1)


def test_a_move_that_has_ended(verbs):
    verbs.create("here")
    verbs.create("there")
    verbs.moves.start("here", "there", "ended")
    verbs.moves.step(move_id="ended")
    verbs.moves.start("here", "there", "open")
    verbs.now += 90
    assert [move.id for move in verbs.moves.list()] == ["open", "ended"]
    verbs.now += 1
    assert [(verbs.moves.find(name) is not None) for name in ("ended", "open")] == [False, True]
    assert [move.id for move in verbs.moves.list(1)] == [move.id for move in verbs.moves.list()] == ["open"]
    for verb in ("hold", "step", "cancel"):
        with pytest.raises(MoveNotFound):
            getattr(verbs.moves, verb)(move_id="ended")
    assert verbs.sweep() == 1


def test_an_idempotency_key(verbs):
    verbs.create()
    once = {"queue": "q", "key": "k", "digest": b"d" * 32}
    with verbs.unit() as unit:
        assert not unit.messages.send_once(**once, drafts=[], now=verbs.now).repeated
    verbs.now += 500
    with verbs.unit() as unit:
        assert unit.messages.send_once(**once, drafts=[], now=verbs.now).repeated
    verbs.now += 1
    with verbs.unit() as unit:
        assert not unit.messages.send_once(**{**once, "digest": b"e" * 32}, drafts=[], now=verbs.now).repeated


def test_an_attempt(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    assert [m.body for m in verbs.claim_once("a", limit=1, hold_ms=10_000)] == [b"1"]
    verbs.now += 199
    assert [m.body for m in verbs.claim_once("a", limit=1, hold_ms=10_000)] == [b"1"]
    verbs.now += 200
    assert [m.body for m in verbs.claim_once("a", limit=1, hold_ms=10_000)] == [b"2"]


def test_the_dedup_key_of_a_window(verbs):
    verbs.create(dedup=Dedup.WINDOW, dedup_window_ms=1_000)
    verbs.send(b"x")
    verbs.now += 999
    verbs.send(b"x")
    assert verbs.count().total == 1
    verbs.now += 1
    verbs.send(b"x")
    assert verbs.count().total == 2
