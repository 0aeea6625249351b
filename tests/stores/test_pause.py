"""A paused queue: it takes messages, and hands out none until it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from penstock.errors import FeatureMissing, QueueNotFound, ShipmentEnded
from penstock.limits import Limits
from penstock.model import (
    Backoff,
    Dedup,
    Delivery,
    Draft,
    Groups,
    Outcome,
    Queue,
    Redrive,
    Registration,
    ShipmentState,
)
from penstock.stores import Store, open_store
from tests.stores.conftest import Verbs
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("messages")


def pause(verbs: Verbs, queue: str = "q") -> Queue:
    with verbs.unit() as unit:
        return unit.pause_queue(queue, verbs.now)


def resume(verbs: Verbs, queue: str = "q") -> Queue:
    with verbs.unit() as unit:
        return unit.resume_queue(queue, verbs.now)


@pytest.fixture
def paused(three: Verbs) -> Verbs:
    """Three messages are ready in "q", which is paused."""
    pause(three)
    return three


class TestState:
    def test_a_new_queue_is_not_paused(self, verbs: Verbs) -> None:
        assert verbs.create().paused_at is None

    def test_since_when(self, three: Verbs) -> None:
        created = three.find()
        three.now += 5
        found = pause(three)
        assert found.paused_at == three.now
        assert three.find() == found
        assert (found.settings, found.modified_at) == (created.settings, created.modified_at)
        with three.unit(write=False) as unit:
            assert unit.list_queues(0, 10).queues == unit.page_queues("", "", 10) == [found]

    def test_of_dead_letter_sources_too(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        found = pause(verbs)
        with verbs.unit(write=False) as unit:
            assert unit.dead_letter_sources("dead", "", 10) == [found]

    def test_pausing_again_keeps_the_instant(self, three: Verbs) -> None:
        first = pause(three)
        three.now += 1_000
        assert pause(three) == first == three.find()

    def test_resumed(self, paused: Verbs) -> None:
        before = paused.find()
        paused.now += 9
        found = resume(paused)
        assert found.paused_at is None
        assert paused.find() == found
        assert found.modified_at == before.modified_at
        assert paused.stirred == {"q"}

    def test_resuming_what_is_not_paused_changes_nothing(self, three: Verbs) -> None:
        before = three.find()
        assert resume(three) == before == three.find()
        assert "q" not in three.stirred

    def test_a_later_pause_has_its_own_instant(self, paused: Verbs) -> None:
        resume(paused)
        paused.now += 7
        assert pause(paused).paused_at == paused.now

    @pytest.mark.parametrize("change", [pause, resume])
    def test_no_such_queue(self, verbs: Verbs, change: Callable[[Verbs], Queue]) -> None:
        with pytest.raises(QueueNotFound):
            change(verbs)

    def test_of_one_queue_alone(self, paused: Verbs) -> None:
        paused.create("other")
        paused.send(b"x", to="other")
        assert paused.bodies(queue="other") == [b"x"]
        assert paused.find("other").paused_at is None

    def test_settings_change_beside_it(self, paused: Verbs) -> None:
        since = paused.find().paused_at
        paused.now += 5
        assert paused.update(visibility_ms=7, labels={"a": "b"}).paused_at == since
        assert paused.bodies() == []
        assert resume(paused).settings.visibility_ms == 7

    def test_stays_when_its_dead_letter_queue_is_deleted(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        since = pause(verbs).paused_at
        verbs.delete("dead")
        found = verbs.find()
        assert (found.paused_at, found.settings.redrive) == (since, None)

    def test_goes_with_its_queue(self, paused: Verbs) -> None:
        assert paused.delete().paused_at is not None
        assert paused.create().paused_at is None
        paused.send(b"new")
        assert paused.bodies() == [b"new"]

    def test_within_one_unit(self, three: Verbs) -> None:
        with three.unit() as unit:
            unit.pause_queue("q", three.now)
            assert unit.claim("q", 10, three.now, None).messages == []
            unit.resume_queue("q", three.now)
            assert len(unit.claim("q", 10, three.now, None).messages) == 3

    @pytest.mark.parametrize(("before", "change"), [(resume, pause), (pause, resume)])
    def test_a_lost_unit_changes_nothing(
        self, three: Verbs, before: Callable[[Verbs], Queue], change: Callable[[Verbs], Queue]
    ) -> None:
        found = before(three)

        def lose() -> None:
            with three.unit() as unit:
                (unit.pause_queue if change is pause else unit.resume_queue)("q", three.now + 1)
                raise RuntimeError("lost")

        with pytest.raises(RuntimeError, match="lost"):
            lose()
        assert three.find() == found
        assert (three.bodies() == []) is (found.paused_at is not None)


class TestClaims:
    def test_find_nothing(self, paused: Verbs) -> None:
        claimed = paused.claimed()
        assert (claimed.messages, claimed.more) == ([], False)
        assert paused.claim(hold_ms=0) == []
        assert paused.claim_once("t") == []
        paused.now += 1_000_000
        assert paused.claim() == []

    def test_find_all_of_it_afterwards(self, paused: Verbs) -> None:
        paused.claim()
        paused.send(b"dddd")
        resume(paused)
        found = paused.claim()
        assert [(message.body, message.receives, message.claim) for message in found] == [
            (b"a", 1, 1),
            (b"bb", 1, 1),
            (b"ccc", 1, 1),
            (b"dddd", 1, 1),
        ]

    def test_find_what_came_back_meanwhile(self, three: Verbs) -> None:
        """Also where a claim has remembered how far it came."""
        held = three.claim(2, hold_ms=50)
        pause(three)
        assert three.release(held[0]) == [True]
        three.now += 100
        assert three.claim() == []
        resume(three)
        assert three.bodies() == [b"a", b"bb", b"ccc"]

    def test_a_delay_ends_meanwhile(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(Draft(b"x", delay_ms=10))
        pause(verbs)
        assert verbs.next_due() is None
        verbs.now += 10
        assert (verbs.count().ready, verbs.bodies()) == (1, [])
        resume(verbs)
        assert verbs.bodies() == [b"x"]

    def test_nothing_is_due_while_it_lasts(self, three: Verbs) -> None:
        until = three.now + 50
        three.claim(1, hold_ms=50)
        assert three.next_due() == until
        pause(three)
        assert three.next_due() is None
        resume(three)
        assert three.next_due() == until

    def test_lines(self, verbs: Verbs) -> None:
        verbs.create(groups=Groups.FIFO)
        verbs.send(Draft(b"1", group="g"), Draft(b"2", group="g"), b"alone")
        [first] = verbs.claim(1)
        pause(verbs)
        assert verbs.ack(first) == [True]
        assert verbs.claim() == []
        resume(verbs)
        assert verbs.bodies() == [b"2", b"alone"]

    def test_twins_stay(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.CLAIM)
        verbs.send(b"t", b"t")
        pause(verbs)
        assert verbs.claim() == []
        assert verbs.count().total == 2
        resume(verbs)
        assert verbs.bodies() == [b"t"]

    def test_nothing_dies_or_fails(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"), backoff=Backoff(5, 5))
        verbs.send(Draft(b"late", deadline_at=verbs.now + 10), b"often")
        verbs.release(*verbs.claim())
        pause(verbs)
        verbs.now += 1_000
        assert verbs.claim() == []
        assert (verbs.count().total, verbs.count("dead").total, verbs.outcomes()) == (2, 0, [])
        resume(verbs)
        assert verbs.claim() == []
        assert (verbs.count().total, verbs.seen("dead")) == (0, [b"often"])

    def test_dead_letters_arrive_in_a_paused_queue(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        pause(verbs, "dead")
        verbs.send(b"x")
        verbs.release(*verbs.claim())
        assert verbs.claim() == []
        assert (verbs.seen("dead"), verbs.bodies(queue="dead")) == ([b"x"], [])


class TestAttempts:
    def test_one_that_holds_its_messages_gets_them_again(self, three: Verbs) -> None:
        first = three.claim_once("t", limit=2)
        pause(three)
        assert three.claim_once("t", limit=2) == first
        assert three.claim_once("other") == []

    def test_one_that_has_lost_a_message_gets_nothing(self, three: Verbs) -> None:
        first, _ = three.claim_once("t", limit=2)
        pause(three)
        three.release(first)
        assert three.claim_once("t") == []
        resume(three)
        assert [message.body for message in three.claim_once("t")] == [b"a", b"ccc"]


class TestWhatGoesOn:
    def test_sends(self, paused: Verbs) -> None:
        [sent] = paused.send(b"more")
        assert sent.stored
        assert paused.send_once("key", b"once").stored == 1
        assert paused.count().ready == 5

    def test_acks_renewals_and_releases(self, three: Verbs) -> None:
        one, two, more = three.claim(hold_ms=50)
        pause(three)
        assert three.renew(two, until=three.now + 500) == [True]
        assert three.ack(one) == [True]
        assert three.release(more) == [True]
        assert three.locate(two) == ["q"]
        assert three.release_all() == 1
        count = three.count()
        assert (count.ready, count.claimed) == (2, 0)

    def test_peeks_and_purges(self, paused: Verbs) -> None:
        assert paused.seen() == [b"a", b"bb", b"ccc"]
        assert paused.purge(limit=1) == 1
        assert paused.purge_older(paused.now + 1).count == 2

    def test_moves(self, paused: Verbs) -> None:
        paused.create("to")
        assert paused.move("q", "to", limit=2) == 2
        assert paused.bodies(queue="to") == [b"a", b"bb"]
        assert paused.move("to", "q", claimed=True) == 2
        assert paused.claim() == []

    def test_expiry(self, verbs: Verbs) -> None:
        verbs.create(retention_ms=100)
        verbs.send(b"x")
        pause(verbs)
        verbs.now += 100
        assert verbs.claim() == []
        assert verbs.sweep() == 1
        assert verbs.outcomes() == [Outcome.EXPIRED]


@pytest.mark.needs("shipments")
class TestShipments:
    def test_none_begins(self, paused: Verbs) -> None:
        assert paused.shipments.claim(1, 10) is None
        assert paused.shipments.find(1) is None
        resume(paused)
        assert paused.ship(1, 10).messages == 3

    def test_an_open_one_goes_on_to_its_end(self, three: Verbs) -> None:
        shipment = three.ship(1, 2)
        pause(three)
        assert three.ship(1, 2).messages == shipment.messages
        assert three.shipped() == [b"a", b"bb"]
        three.shipments.beat(1)
        assert three.shipments.settle(1) == 2
        assert three.shipments.claim(2, 10) is None

    def test_a_released_one_waits_with_the_others(self, three: Verbs) -> None:
        three.ship(1, 2)
        pause(three)
        assert three.shipments.release(1) == 2
        assert three.claim() == []
        with pytest.raises(ShipmentEnded):
            three.shipments.claim(1, 10)

    @pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
    def test_one_that_gathers_is_complete_with_what_it_has(self, three: Verbs) -> None:
        assert three.shipments.claim(1, 3).state is ShipmentState.GATHERING
        pause(three)
        shipment = three.shipments.claim(1, 3)
        assert (shipment.state, shipment.messages) == (ShipmentState.OPEN, 2)
        resume(three)
        assert three.bodies() == [b"ccc"]


@pytest.mark.needs("consumers")
class TestConsumers:
    @pytest.mark.parametrize("others", [0, 1])
    def test_claim_nothing(self, paused: Verbs, others: int) -> None:
        consumer = Registration("c", "q", Delivery.AT_LEAST_ONCE, 5_000)
        living = ["c", "d"][: 1 + others]
        with paused.unit() as unit:
            unit.consumers.register(consumer, paused.now)
            assert unit.consumers.claim(consumer, 10, paused.now, living).messages == []
            assert unit.consumers.first_due("q") is None
        resume(paused)
        with paused.unit() as unit:
            assert unit.consumers.first_due("q") == 0
            assert len(unit.consumers.claim(consumer, 10, paused.now, living).messages) == 3

    def test_end_what_they_hold_and_die(self, three: Verbs) -> None:
        consumer = Registration("c", "q", Delivery.AT_LEAST_ONCE, 5_000)
        with three.unit() as unit:
            unit.consumers.register(consumer, three.now)
            held = {(message.seq, message.claim) for message in unit.consumers.claim(consumer, 2, three.now).messages}
            unit.consumers.hold("c", held, three.now)
        pause(three)
        one, two = sorted(held)
        with three.unit() as unit:
            assert unit.consumers.end_claims("q", [one], Outcome.PROCESSED, three.now) == {one}
            unit.consumers.hold("c", [two], three.now)
        three.now += 5_000
        with three.unit() as unit:
            assert unit.consumers.reap(three.now) == 1
        assert (three.count().ready, three.claim()) == (2, [])


@pytest.fixture
def elsewhere(store: Store) -> Iterator[Verbs]:
    """The same store, as another process has it."""
    with closing(open_store(store.url)) as other:
        yield Verbs(other)


@pytest.mark.needs("other processes")
class TestOtherProcesses:
    def test_see_it_at_once(self, three: Verbs, elsewhere: Verbs) -> None:
        assert len(elsewhere.claim(1)) == 1
        found = pause(three)
        assert elsewhere.claim() == []
        assert elsewhere.find() == found
        resume(elsewhere)
        assert three.bodies() == [b"bb", b"ccc"]

    def test_hear_that_it_is_over(self, paused: Verbs, elsewhere: Verbs) -> None:
        # What is said first is that anything may have happened.
        wait_until(lambda: not elsewhere.store.changed_elsewhere())
        resume(paused)
        wait_until(lambda: "q" in elsewhere.store.changed_elsewhere())
        assert elsewhere.bodies() == [b"a", b"bb", b"ccc"]

    def test_survives_those_who_made_it(self, store: Store, elsewhere: Verbs) -> None:
        verbs = Verbs(store)
        verbs.create()
        verbs.send(b"x")
        found = pause(verbs)
        with closing(open_store(store.url)) as again:
            assert Verbs(again).find() == found
            assert Verbs(again).claim() == []


class TestWithoutIt:
    pytestmark = pytest.mark.needs()

    @pytest.mark.parametrize("change", [pause, resume])
    def test_a_store_of_files_says_so(self, tmp_path, change: Callable[[Verbs], Queue]) -> None:
        with closing(open_store(f"mqcore://{tmp_path}/mqcore")) as store:
            verbs = Verbs(store)
            verbs.create()
            with pytest.raises(FeatureMissing, match="pauses"):
                change(verbs)
            assert verbs.find().paused_at is None
