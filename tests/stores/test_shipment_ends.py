"""How shipments end: settled, perhaps kept for a while, released, or lost; and when they are forgotten."""

from __future__ import annotations

import pytest

from penstock.errors import ShipmentConflict, ShipmentEnded
from penstock.limits import Limits
from penstock.model import Dedup, LedgerMode, Outcome, Receipt, Redrive, ShipmentState
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("shipments")


class TestSettling:
    def test_finishes_all_of_them_in_steps(self, three: Verbs) -> None:
        three.ship()
        three.now += 7
        assert [three.shipments.settle(limit=2) for _ in range(4)] == [2, 1, 0, 0]
        assert three.outcomes() == [Outcome.PROCESSED] * 3
        assert [row.receives for row in three.rows()] == [1] * 3
        assert {row.finished_at for row in three.rows()} == {three.now}
        assert three.tally().departed == 3
        assert three.count().total == 0
        shipment = three.shipments.find()
        assert shipment is not None
        assert (shipment.state, shipment.ended_at, shipment.messages) == (ShipmentState.SETTLED, three.now, 3)

    def test_is_decided_by_the_first_step(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(limit=1)
        with pytest.raises(ShipmentEnded):
            three.shipments.release()
        with pytest.raises(ShipmentEnded):
            three.shipments.beat()
        three.now += 1
        while three.sweep(limit=1):
            pass
        assert three.outcomes() == [Outcome.PROCESSED] * 3
        assert three.shipments.settle() == 0

    def test_says_where_they_are_stored(self, three: Verbs) -> None:
        assert three.ship(limit=2).stored_in is None
        place = "s3://größe/🚰 " + "x" * 987
        assert len(place) == 1_000
        three.shipments.settle(limit=1, stored_in=place)
        assert three.shipments.find().stored_in == place
        three.shipments.settle(limit=1, stored_in="elsewhere")
        three.shipments.settle()
        assert [one.stored_in for one in three.shipments.list()] == [place]
        three.ship(2)
        three.shipments.settle(2)
        three.shipments.settle(2, stored_in="too late")
        assert [one.stored_in for one in three.shipments.list()] == [place, None]

    def test_keeps_saying_so_when_its_messages_are_freed(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(keep=True, stored_in="a lake")
        three.now += 10**9
        assert three.sweep() == 3
        assert three.shipments.find().stored_in == "a lake"

    def test_passes_over_what_was_purged(self, three: Verbs) -> None:
        three.ship()
        three.purge(limit=2)
        assert [three.shipments.settle(limit=1) for _ in range(2)] == [1, 0]
        assert three.outcomes() == [Outcome.PURGED, Outcome.PURGED, Outcome.PROCESSED]

    def test_keeps_no_ledger_where_there_is_none(self, verbs: Verbs) -> None:
        verbs.create(ledger=LedgerMode.OFF)
        verbs.send(b"a", b"b")
        verbs.ship()
        assert verbs.shipments.settle() == 2
        assert verbs.rows() == []
        assert verbs.tally().departed == 2

    def test_keeps_bodies_in_the_ledger_where_it_should(self, verbs: Verbs) -> None:
        verbs.create(ledger=LedgerMode.BODIES)
        verbs.send(b"a", b"b")
        verbs.ship()
        verbs.shipments.settle()
        assert [row.body for row in verbs.rows()] == [b"a", b"b"]

    def test_many_in_many_runs(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.create("other")
        for number in range(40):
            verbs.send(b"%d" % number)
            verbs.send(b"gap", to="other")
        verbs.ship()
        assert [verbs.shipments.settle(limit=25) for _ in range(3)] == [25, 15, 0]
        assert (verbs.count().total, verbs.count("other").total) == (0, 40)
        assert verbs.outcomes("other") == []

    def test_one_that_ended_otherwise(self, three: Verbs) -> None:
        three.ship()
        three.shipments.release()
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.settle()
        assert refusal.value.how == "released"


class TestKeeping:
    def test_leaves_a_settled_one_readable(self, three: Verbs) -> None:
        three.ship(limit=2)
        assert [three.shipments.settle(limit=1, keep=True) for _ in range(3)] == [1, 1, 0]
        assert three.shipped() == [b"a", b"bb"]
        assert three.outcomes() == [Outcome.PROCESSED] * 2
        assert three.tally().departed == 2

    def test_can_be_read_in_the_middle(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(limit=2, keep=True)
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_shows_them_to_no_one_else(self, three: Verbs) -> None:
        three.ship()
        kept = three.shipments.read()
        three.shipments.settle(keep=True)
        assert (three.count().total, three.seen(), three.bodies(), three.purge()) == (0, [], [], 0)
        bare = [Receipt(message.id) for message in kept]
        assert three.ack(*kept, *bare) == [False] * 6
        assert three.renew(*bare, until=three.now + 9) == [False] * 3
        assert three.release(*bare) == [False] * 3
        assert three.locate(*bare) == [None] * 3
        assert three.release_all() == 0
        three.create("p")
        assert three.move("q", "p") == 0
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    @pytest.mark.needs("dedup")
    def test_frees_their_dedup_keys(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.SEND)
        verbs.send(b"a")
        verbs.ship()
        assert [sent.stored for sent in verbs.send(b"a")] == [False]
        verbs.shipments.settle(keep=True)
        assert [sent.stored for sent in verbs.send(b"a")] == [True]

    def test_ends_when_the_next_one_is_settled(self, three: Verbs) -> None:
        three.ship(1, limit=2)
        three.shipments.settle(1, keep=True)
        three.ship(2)
        assert three.shipped(1) == [b"a", b"bb"]
        three.shipments.settle(2, keep=True)
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.read(1)
        assert refusal.value.how == "settled"
        assert three.shipped(2) == [b"ccc"]

    def test_survives_one_that_is_released(self, three: Verbs) -> None:
        three.ship(1, limit=2)
        three.shipments.settle(1, keep=True)
        three.ship(2)
        three.shipments.release(2)
        assert three.shipped(1) == [b"a", b"bb"]

    def test_ends_after_its_time(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(keep=True)
        three.now += Limits().shipment_kept_ms
        three.sweep()
        assert three.shipped() == [b"a", b"bb", b"ccc"]
        three.now += 1
        assert three.sweep() == 3
        assert three.sweep() == 0
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.read()
        assert refusal.value.how == "settled"

    def test_is_decided_by_the_first_call(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(limit=1)
        three.shipments.settle(limit=1, keep=True)
        with pytest.raises(ShipmentEnded):
            three.shipments.read()

    def test_is_finished_by_a_sweep_as_it_was_begun(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(limit=1, keep=True)
        three.now += 1
        while three.sweep():
            pass
        assert three.outcomes() == [Outcome.PROCESSED] * 3
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_goes_with_its_queue(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle(keep=True)
        three.delete()
        three.now += Limits().shipment_remembered_ms + 1
        while three.sweep():
            pass
        assert three.outcomes() == [Outcome.PROCESSED] * 3


class TestReleasing:
    def test_makes_them_ready_again_in_steps(self, three: Verbs) -> None:
        three.ship()
        assert [three.shipments.release(limit=2) for _ in range(3)] == [2, 1, 0]
        assert three.stirred == set()
        claimed = three.claim()
        assert [(message.body, message.receives) for message in claimed] == [(b"a", 2), (b"bb", 2), (b"ccc", 2)]

    def test_wakes_those_who_wait(self, three: Verbs) -> None:
        three.ship()
        three.shipments.release()
        assert three.stirred == {"q"}

    def test_is_decided_by_the_first_step(self, three: Verbs) -> None:
        three.ship()
        three.shipments.release(limit=1)
        with pytest.raises(ShipmentEnded):
            three.shipments.settle()
        assert three.bodies() == [b"a"]
        three.now += 1
        three.sweep()
        assert three.stirred == {"q"}
        assert three.bodies() == [b"bb", b"ccc"]

    def test_leaves_alone_what_others_have_claimed_since(self, three: Verbs) -> None:
        three.ship()
        three.shipments.release(limit=2)
        three.ship(1, consumer="other")
        three.shipments.release()
        assert three.shipped(consumer="other") == [b"a", b"bb"]

    def test_a_settled_one(self, three: Verbs) -> None:
        three.ship()
        three.shipments.settle()
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.release()
        assert refusal.value.how == "settled"

    def test_spent_deliveries_count(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.send(b"bad")
        verbs.ship(1)
        verbs.shipments.release(1)
        assert verbs.shipments.claim(2) is None
        assert verbs.seen("dead") == [b"bad"]


class TestHeartbeats:
    def test_put_off_the_loss(self, three: Verbs) -> None:
        three.ship()
        three.now += 60_000
        three.sweep()
        assert three.shipments.beat(hold_ms=10).until == three.now + 10
        three.now += 10
        three.sweep()
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_come_in_time_until_a_sweep_has_noticed(self, three: Verbs) -> None:
        three.ship()
        three.now += 100_000
        three.shipments.beat()
        three.sweep()
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_without_them_it_is_lost(self, three: Verbs) -> None:
        three.ship()
        three.now += 60_001
        three.sweep(limit=2)
        assert three.stirred == {"q"}
        assert three.bodies() == [b"a", b"bb"]
        three.sweep(limit=2)
        assert three.bodies() == [b"ccc"]
        shipment = three.shipments.find()
        assert shipment is not None
        assert (shipment.state, shipment.ended_at) == (ShipmentState.LOST, three.now)
        for act in (three.shipments.read, three.shipments.settle, three.shipments.beat, three.shipments.claim):
            with pytest.raises(ShipmentEnded) as refusal:
                act()
            assert refusal.value.how == "lost"
        assert three.shipments.release() == 0

    @pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
    def test_one_that_is_gathering_is_lost_too(self, three: Verbs) -> None:
        three.shipments.claim()
        three.now += 60_001
        three.sweep()
        shipment = three.shipments.find()
        assert shipment is not None
        assert shipment.state is ShipmentState.LOST
        assert three.bodies() == [b"a", b"bb", b"ccc"]


class TestForgetting:
    def test_the_latest_of_a_consumer_stays(self, three: Verbs) -> None:
        for number in (1, 2):
            three.ship(number, limit=1)
            three.shipments.settle(number)
        three.now += Limits().shipment_remembered_ms
        three.sweep()
        assert len(three.shipments.list()) == 2
        three.now += 1
        assert three.sweep() == 1
        assert three.sweep() == 0
        assert [shipment.number for shipment in three.shipments.list()] == [2]
        assert three.shipments.find(1) is None
        with pytest.raises(ShipmentConflict) as refusal:
            three.shipments.claim(1)
        assert refusal.value.expected == 3
        assert three.ship(3).messages == 1
