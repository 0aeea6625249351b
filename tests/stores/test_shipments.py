"""Shipments: claimed together for one consumer, and re-readable. Nothing else touches their messages."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import QueueNotFound, ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.limits import Limits
from penstock.model import Dedup, Draft, Outcome, PeekAfter, Receipt, Redrive, ShipmentRef, ShipmentState
from penstock.stores import Store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("shipments")

GATHERING, OPEN = ShipmentState.GATHERING, ShipmentState.OPEN


class TestClaiming:
    def test_takes_what_is_ready_oldest_first_up_to_the_limit(self, three: Verbs) -> None:
        shipment = three.ship(limit=2)
        assert (shipment.queue, shipment.consumer, shipment.number) == ("q", "c", 1)
        assert (shipment.state, shipment.messages, shipment.bytes) == (OPEN, 2, 3)
        assert (shipment.claimed_at, shipment.until, shipment.ended_at) == (three.now, three.now + 60_000, None)
        assert three.shipped() == [b"a", b"bb"]
        assert three.bodies() == [b"ccc"]

    def test_counts_as_a_delivery(self, three: Verbs) -> None:
        three.claim(1, hold_ms=0)
        claims = {message.body: message.claim for message in three.peek()}
        three.now += 5
        three.ship()
        read = three.shipments.read()
        assert [(message.body, message.receives) for message in read] == [(b"a", 2), (b"bb", 1), (b"ccc", 1)]
        assert all(message.claim == claims[message.body] + 1 for message in read)
        assert three.count().claimed == 3
        three.shipments.settle()
        first, *others = three.rows()
        assert (first.first_claimed_at, first.last_claimed_at) == (three.now - 5, three.now)
        assert {row.first_claimed_at for row in others} == {three.now}

    def test_again_gives_the_same_messages(self, three: Verbs) -> None:
        first = three.ship(limit=2)
        assert three.shipments.claim(limit=100) == first
        assert three.shipped() == [b"a", b"bb"]
        assert three.count().ready == 1

    def test_again_is_a_sign_of_life(self, three: Verbs) -> None:
        three.ship()
        three.now += 50_000
        again = three.shipments.claim()
        assert again is not None
        assert again.until == three.now + 60_000
        shorter = three.shipments.claim(hold_ms=1_000)
        assert shorter is not None
        assert shorter.until == three.now + 60_000

    def test_nothing_ready_makes_nothing(self, verbs: Verbs) -> None:
        verbs.create()
        assert verbs.shipments.claim() is None
        assert verbs.shipments.find() is None
        assert verbs.shipments.list() == []

    @pytest.mark.parametrize("limits", [Limits(claim_rows=4)])
    def test_goes_on_over_several_units(self, verbs: Verbs) -> None:
        verbs.create()
        bodies = [b"%d" % number for number in range(10)]
        verbs.send(*bodies)
        sizes = []
        while True:
            shipment = verbs.shipments.claim(limit=9)
            assert shipment is not None
            sizes.append((shipment.state, shipment.messages, shipment.bytes))
            if shipment.state is OPEN:
                break
        assert sizes == [(GATHERING, 4, 4), (GATHERING, 8, 8), (OPEN, 9, 9)]
        assert verbs.shipped() == bodies[:9]

    @pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
    def test_that_has_not_come_to_its_end_cannot_be_read_or_settled(self, three: Verbs) -> None:
        shipment = three.shipments.claim()
        assert shipment is not None
        assert shipment.state is GATHERING
        with pytest.raises(ShipmentConflict):
            three.shipments.read()
        with pytest.raises(ShipmentConflict):
            three.shipments.settle()
        assert three.shipments.beat(hold_ms=7).until == three.now + 7
        assert three.shipments.release() == 2
        assert three.bodies() == [b"a", b"bb", b"ccc"]

    @pytest.mark.parametrize("limits", [Limits(claim_rows=3)])
    def test_ends_where_the_queue_ends(self, three: Verbs) -> None:
        shipment = three.shipments.claim()
        assert shipment is not None
        assert shipment.state is GATHERING
        shipment = three.shipments.claim()
        assert shipment is not None
        assert (shipment.state, shipment.messages) == (OPEN, 3)

    @pytest.mark.parametrize("limits", [Limits(claim_rows=1)])
    def test_keeps_the_order_when_an_older_message_comes_later(self, three: Verbs) -> None:
        [oldest] = three.claim(1)
        three.shipments.claim()
        three.release(oldest)
        three.ship()
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_finishes_what_has_expired_or_failed(self, verbs: Verbs) -> None:
        verbs.create(retention_ms=1_000)
        verbs.send(b"old")
        verbs.now += 500
        verbs.send(Draft(b"late", deadline_at=verbs.now + 400), b"new")
        verbs.now += 500
        shipment = verbs.ship()
        assert shipment.messages == 1
        assert verbs.shipped() == [b"new"]
        assert verbs.outcomes() == [Outcome.EXPIRED, Outcome.FAILED]

    def test_of_nothing_but_expired_messages_makes_nothing(self, verbs: Verbs) -> None:
        verbs.create(retention_ms=1_000)
        verbs.send(b"1", b"2")
        verbs.now += 1_000
        assert verbs.shipments.claim() is None
        assert verbs.outcomes() == [Outcome.EXPIRED] * 2

    @pytest.mark.parametrize("limits", [Limits(claim_rounds=1, step_rows=2, claim_rows=2)])
    def test_passes_over_a_great_many_expired_messages(self, verbs: Verbs) -> None:
        verbs.create(retention_ms=1_000)
        verbs.send(*[b"old"] * 20)
        verbs.now += 1_000
        assert _claimed(verbs) is None
        verbs.send(*[b"old"] * 20)
        verbs.now += 1_000
        verbs.send(b"new")
        assert _claimed(verbs) is not None
        assert verbs.shipped() == [b"new"]

    @pytest.mark.needs("redrive")
    def test_moves_dead_letters(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.send(b"bad")
        verbs.claim(1, hold_ms=0)
        verbs.send(b"good")
        verbs.ship()
        assert verbs.shipped() == [b"good"]
        assert verbs.seen("dead") == [b"bad"]

    @pytest.mark.needs("dedup")
    def test_collapses_twins(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.CLAIM)
        verbs.send(b"a", b"b", b"a", b"a")
        assert verbs.ship().messages == 2
        assert verbs.shipped() == [b"a", b"b"]
        assert verbs.outcomes() == [Outcome.COLLAPSED] * 2

    def test_takes_delayed_messages_that_are_due(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(Draft(b"later", delay_ms=1_000), b"now")
        verbs.now += 1_000
        verbs.ship()
        assert verbs.shipped() == [b"later", b"now"]

    def test_in_a_queue_that_is_not_there(self, verbs: Verbs) -> None:
        verbs.create()
        for act in (
            lambda: verbs.shipments.claim(queue="no"),
            lambda: verbs.shipments.find(queue="no"),
            lambda: verbs.shipments.list(queue="no"),
            lambda: verbs.shipments.read(queue="no"),
            lambda: verbs.shipments.settle(queue="no"),
            lambda: verbs.shipments.release(queue="no"),
            lambda: verbs.shipments.beat(queue="no"),
        ):
            with pytest.raises(QueueNotFound):
                act()


SIZES = (3, 0, 4, 2, 5, 1, 0, 9, 1)


@pytest.mark.parametrize("limits", [Limits(), Limits(claim_rows=1), Limits(claim_rows=2), Limits(claim_rounds=1)])
class TestClaimingByBytes:
    @pytest.mark.parametrize(
        ("max_bytes", "taken"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (7, 3), (8, 3), (9, 4), (14, 5), (99, 9)]
    )
    def test_ends_before_a_message_that_would_be_too_much(self, verbs: Verbs, max_bytes: int, taken: int) -> None:
        verbs.create()
        bodies = [bytes([at]) * size for at, size in enumerate(SIZES)]
        verbs.send(*bodies)
        shipment = verbs.ship(max_bytes=max_bytes)
        assert (shipment.state, shipment.messages, shipment.bytes) == (OPEN, taken, sum(SIZES[:taken]))
        assert verbs.shipped() == bodies[:taken]
        assert verbs.bodies() == bodies[taken:]

    def test_takes_the_first_however_long_it_is(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(b"long", b"", b"x")
        assert verbs.ship(max_bytes=3).messages == 1
        assert verbs.shipped() == [b"long"]
        assert verbs.bodies() == [b"", b"x"]

    def test_an_empty_one_may_be_the_first(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(b"", b"long")
        verbs.ship(max_bytes=3)
        assert verbs.shipped() == [b""]

    def test_what_has_expired_or_failed_does_not_count(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(Draft(b"late", deadline_at=verbs.now), b"a", Draft(b"late", deadline_at=verbs.now), b"bc", b"d")
        assert verbs.ship(max_bytes=3).messages == 2
        assert verbs.shipped() == [b"a", b"bc"]
        assert verbs.outcomes() == [Outcome.FAILED] * 2
        assert verbs.bodies() == [b"d"]

    def test_what_is_behind_its_end_is_not_touched(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(b"a", b"long", Draft(b"late", deadline_at=verbs.now), b"b")
        verbs.ship(max_bytes=2)
        assert verbs.shipped() == [b"a"]
        assert verbs.rows() == []
        assert verbs.seen() == [b"long", b"late", b"b", b"a"]

    def test_what_is_not_taken_is_claimed_next(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(b"aa", b"bb", b"cc")
        verbs.ship(max_bytes=3)
        verbs.ship(consumer="other", max_bytes=3)
        assert verbs.shipped(consumer="other") == [b"bb"]
        assert verbs.bodies() == [b"cc"]

    @pytest.mark.needs("dedup")
    def test_twins_do_not_count(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.CLAIM)
        key = b"the same"
        verbs.send(Draft(b"a", dedup_key=key), Draft(b"as long", dedup_key=key), b"b", b"c", b"dd")
        verbs.ship(max_bytes=3)
        assert verbs.shipped() == [b"a", b"b", b"c"]
        assert verbs.bodies() == [b"dd"]

    def test_again_is_the_same_whatever_it_says(self, three: Verbs) -> None:
        first = three.ship(max_bytes=3)
        assert three.shipments.claim(limit=100, max_bytes=100) == first
        assert three.shipped() == [b"a", b"bb"]


@pytest.mark.needs("dedup")
@pytest.mark.parametrize("limits", [Limits(collapse_step_rows=2, claim_rounds=1_000)])
def test_twins_that_are_left_over_do_not_count(verbs: Verbs) -> None:
    verbs.create(dedup=Dedup.CLAIM)
    twins = [Draft(b"as long as can be", dedup_key=b"key")] * 9
    verbs.send(Draft(b"a", dedup_key=b"key"), *twins, b"b", b"cc")
    while (shipment := verbs.shipments.claim(max_bytes=3)).state is GATHERING:
        pass
    assert shipment.messages == 2
    assert verbs.shipped() == [b"a", b"b"]


def _claimed(verbs: Verbs) -> object:
    shipment = verbs.shipments.claim()
    while shipment is not None and shipment.state is GATHERING:
        shipment = verbs.shipments.claim()
    return shipment


class TestNumbers:
    def test_begin_with_one(self, three: Verbs) -> None:
        with pytest.raises(ShipmentConflict) as refusal:
            three.shipments.claim(2)
        assert refusal.value.expected == 1
        assert three.count().ready == 3

    def test_go_on_after_the_last_has_ended(self, three: Verbs) -> None:
        three.ship(1, limit=1)
        with pytest.raises(ShipmentConflict) as refusal:
            three.shipments.claim(2)
        assert refusal.value.expected == 1
        three.shipments.settle(1)
        with pytest.raises(ShipmentConflict) as refusal:
            three.shipments.claim(3)
        assert refusal.value.expected == 2
        three.ship(2)
        assert three.shipped(2) == [b"bb", b"ccc"]

    def test_that_have_ended_say_how(self, three: Verbs) -> None:
        three.ship(1, limit=1)
        three.shipments.settle(1)
        three.ship(2, limit=1)
        three.shipments.release(2)
        for number, how in ((1, "settled"), (2, "released")):
            with pytest.raises(ShipmentEnded) as refusal:
                three.shipments.claim(number)
            assert refusal.value.how == how
        assert three.count().ready == 2

    def test_are_each_consumers_own(self, three: Verbs) -> None:
        three.ship(1, limit=1, consumer="x")
        three.ship(1, limit=1, consumer="y")
        assert (three.shipped(consumer="x"), three.shipped(consumer="y")) == ([b"a"], [b"bb"])
        three.shipments.settle(consumer="x")
        assert three.shipped(consumer="y") == [b"bb"]

    def test_are_each_queues_own(self, three: Verbs) -> None:
        three.create("p")
        three.send(b"p", to="p")
        three.ship(1)
        three.ship(1, queue="p")
        assert [message.body for message in three.shipments.read(queue="p")] == [b"p"]
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_a_deleted_queues_are_gone_with_it(self, three: Verbs) -> None:
        three.ship(1, limit=2)
        three.delete()
        three.create()
        three.send(b"new")
        assert three.shipments.list() == []
        three.ship(1)
        assert three.shipped() == [b"new"]
        three.now += Limits().shipment_remembered_ms + 100_000
        while three.sweep():
            pass
        assert three.shipments.find() is not None


class TestLooking:
    def test_finds_and_lists(self, three: Verbs) -> None:
        first = three.ship(1, limit=1, consumer="b")
        three.shipments.settle(consumer="b")
        second = three.ship(2, limit=1, consumer="b")
        other = three.ship(1, limit=1, consumer="a")
        settled = three.shipments.find(1, consumer="b")
        assert settled is not None
        assert (settled.state, settled.ended_at, settled.messages) == (ShipmentState.SETTLED, three.now, first.messages)
        assert three.shipments.list() == [other, settled, second]
        assert three.shipments.list("b") == [settled, second]
        assert three.shipments.list("b", after=1) == [second]
        assert three.shipments.list(limit=1) == [other]
        assert three.shipments.list("nobody") == []
        assert three.shipments.list(after_consumer="a") == [settled, second]
        assert three.shipments.list(after_consumer="a", after=1) == [second]
        assert three.shipments.list(after_consumer="b") == []
        assert three.shipments.find(3, consumer="b") is None

    def test_a_number_that_never_was(self, three: Verbs) -> None:
        for act in (three.shipments.read, three.shipments.settle, three.shipments.release, three.shipments.beat):
            with pytest.raises(ShipmentNotFound):
                act()


class TestReading:
    def test_any_part_any_number_of_times(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.create("other")
        for number in range(30):
            verbs.send(b"%d" % number)
            if number % 3:
                verbs.send(b"gap", to="other")
        verbs.ship()
        assert verbs.shipped() == verbs.shipped() == [b"%d" % number for number in range(30)]
        for start in range(31):
            read = verbs.shipments.read(start=start, limit=4)
            assert [message.body for message in read] == [b"%d" % n for n in range(start, min(start + 4, 30))]
        assert verbs.shipments.read(start=1_000) == []

    def test_gives_whole_messages(self, verbs: Verbs) -> None:
        verbs.create()
        [sent] = verbs.send(Draft(b"x", "text/plain", {"k": "v"}))
        verbs.ship()
        [message] = verbs.shipments.read()
        assert (message.id, message.queue, message.body, message.content_type) == (sent.id, "q", b"x", "text/plain")
        assert (message.attributes, message.sent_at, message.receives) == ({"k": "v"}, verbs.now, 1)
        assert message.ready_at == limits.SHIPPED

    @pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
    def test_stops_early_for_large_bodies(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(b"x" * 6, b"y" * 4, b"z", b"w" * 100, b"v")
        assert verbs.ship().messages == 5
        pages = []
        start = 0
        while page := verbs.shipments.read(start=start):
            pages.append([len(message.body) for message in page])
            start += len(page)
        assert pages == [[6, 4], [1, 100], [1]]

    def test_does_not_work_any_more_after_a_purge(self, three: Verbs) -> None:
        three.ship()
        three.purge(limit=2)
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.read()
        assert refusal.value.how == "purged"
        with pytest.raises(ShipmentEnded):
            three.shipments.read(start=1, limit=1)
        assert [message.body for message in three.shipments.read(start=2)] == [b"ccc"]

    @pytest.mark.parametrize("how", ["settled", "released"])
    def test_does_not_work_any_more_after_the_end(self, three: Verbs, how: str) -> None:
        three.ship()
        three.shipments.settle() if how == "settled" else three.shipments.release()
        with pytest.raises(ShipmentEnded) as refusal:
            three.shipments.read()
        assert refusal.value.how == how


class TestFencing:
    def test_no_receipt_matches(self, three: Verbs) -> None:
        held = three.claim(1, hold_ms=10)
        three.now += 10
        three.ship()
        inside = three.shipments.read()
        receipts = [*held, *inside, *[Receipt(message.id) for message in inside]]
        assert three.ack(*receipts) == [False] * 7
        assert three.renew(*receipts, until=three.now + 5, shorten=True) == [False] * 7
        assert three.release(*receipts) == [False] * 7
        assert three.locate(*receipts) == [None] * 7
        assert three.shipped() == [b"a", b"bb", b"ccc"]

    def test_receipts_match_again_after_a_release(self, three: Verbs) -> None:
        three.ship()
        message = three.shipments.read()[0]
        three.shipments.release()
        assert three.ack(Receipt(message.id)) == [True]

    def test_a_release_of_everything_leaves_them_alone(self, three: Verbs) -> None:
        three.claim(1)
        three.ship()
        assert three.release_all() == 1
        assert three.bodies() == [b"a"]

    def test_moves_and_claims_pass_over_them(self, three: Verbs) -> None:
        three.create("p")
        three.ship(limit=2)
        three.now += limits.DURATION_MS
        assert three.move("q", "p") == 1
        assert three.bodies() == []
        assert three.shipped() == [b"a", b"bb"]

    def test_a_peek_shows_them_and_they_never_come_due(self, three: Verbs) -> None:
        three.ship(limit=2)
        assert three.next_due() is None
        assert three.seen() == [b"ccc", b"a", b"bb"]
        last = three.peek()[1]
        assert [message.body for message in three.peek(after=PeekAfter(last.ready_at, last.seq))] == [b"bb"]
        assert (three.count().claimed, three.count().ready) == (2, 1)

    def test_a_deleted_queues_messages_are_purged(self, three: Verbs) -> None:
        three.ship()
        three.delete()
        while three.sweep():
            pass
        assert three.outcomes() == [Outcome.PURGED] * 3

    def test_retention_does_not_end_them(self, verbs: Verbs) -> None:
        verbs.create(retention_ms=1_000)
        verbs.send(b"a")
        verbs.ship()
        verbs.now += 5_000
        verbs.sweep()
        assert verbs.shipped() == [b"a"]
        verbs.shipments.settle()
        assert verbs.outcomes() == [Outcome.PROCESSED]


def test_a_lost_unit_leaves_no_shipment(three: Verbs, store: Store) -> None:
    def lose() -> None:
        with store.unit() as unit:
            unit.shipments.claim(ShipmentRef("q", "c", 1), 2, three.now, 1_000)
            raise KeyError

    with pytest.raises(KeyError):
        lose()
    assert three.shipments.find() is None
    assert three.count().ready == 3
