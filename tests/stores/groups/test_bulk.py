"""Lines in shipments, and for consumers that the store knows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import limits
from penstock.errors import InvalidRequest
from penstock.limits import Limits
from penstock.model import (
    Delivery,
    Draft,
    Ending,
    Groups,
    Held,
    Message,
    Numbered,
    Outcome,
    Receipt,
    Registration,
    ShipmentState,
)
from tests.stores.groups.conftest import LineVerbs, draft, shown

pytestmark = pytest.mark.needs("shipments", "consumers")


class TestShipments:
    def test_a_line_in_its_order(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 b2")
        assert lines.ship().messages == 4
        assert lines.shipped() == [b"a1", b"b1", b"a2", b"b2"]

    def test_a_head_in_a_shipment_keeps_the_others_back(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1")
        lines.ship(limit=1)
        assert lines.take() == "b1"
        assert lines.next_due() == lines.now + 1_000
        assert lines.count().claimed == 2

    @pytest.mark.parametrize(
        ("max_bytes", "taken"), [(1, "a1"), (5, "a1 a2"), (6, "a1 a2 a3"), (7, "a1 a2 a3"), (8, "a1 b1 a2 a3")]
    )
    def test_by_bytes_a_line_as_far_as_it_fits(self, lines: LineVerbs, max_bytes: int, taken: str) -> None:
        lines.put("a1 b1 a2 a3 b2")
        lines.ship(max_bytes=max_bytes)
        assert lines.shipped() == taken.encode().split()

    def test_settled_it_frees_the_others(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.ship(limit=2)
        assert lines.shipments.settle() == 2
        assert lines.stirred == {"q"}
        assert lines.take() == "a3"

    def test_settled_in_steps(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.ship(limit=2)
        assert lines.shipments.settle(limit=1) == 1
        assert lines.take() == ""
        assert lines.shipments.settle(limit=1) == 1
        assert lines.take() == "a3"

    def test_released_it_is_a_line_again(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1 a3")
        lines.ship(limit=2)
        assert lines.shipments.release() == 2
        assert lines.stirred == {"q"}
        assert lines.take() == "a1 a2 a3 b1"

    def test_released_in_steps_from_the_first_on(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3 a4")
        lines.ship(limit=3)
        assert lines.shipments.release(limit=1) == 1
        assert lines.take(hold_ms=0) == "a1"
        assert lines.shipments.release(limit=1) == 1
        assert lines.take(hold_ms=0) == "a1 a2"
        assert lines.shipments.release(limit=1) == 1
        assert lines.take() == "a1 a2 a3 a4"

    def test_lost_it_is_a_line_again(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.ship(limit=2)
        lines.now += 60_001
        while lines.sweep():
            pass
        assert lines.shipments.find().state is ShipmentState.LOST
        assert lines.take() == "a1 a2 a3"

    def test_a_hidden_head_is_not_shipped_nor_what_is_behind_it(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1")
        lines.claim(1)
        lines.ship()
        assert lines.shipped() == [b"b1"]

    @pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
    def test_of_a_line_what_one_claim_can_take(self, lines: LineVerbs) -> None:
        """What it has taken already hides what is behind it, also from itself."""
        lines.put("a1 a2 a3 b1")
        assert lines.ship().messages == 3
        assert lines.shipped() == [b"a1", b"a2", b"b1"]
        lines.shipments.settle()
        lines.shipments.settle()
        assert lines.take() == "a3"

    def test_purged_it_frees_the_others(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        through = lines.last_seq()
        lines.ship()
        lines.put("a3")
        assert lines.take() == ""
        assert lines.purge(through=through) == 2
        assert lines.take() == "a3"

    def test_no_receipt_matches_what_is_in_one(self, lines: LineVerbs) -> None:
        [sent, _] = lines.put("a1 a2")
        lines.ship(limit=1)
        assert lines.ack(Receipt(sent.id)) == [False]
        assert lines.take() == ""

    def test_what_waits_behind_one_counts_as_ready(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.ship(limit=1)
        assert (lines.count().ready, lines.count().claimed) == (2, 1)
        assert [message.ready_at for message in lines.peek()] == [limits.SHIPPED, limits.BEHIND, limits.BEHIND]


def held(*messages: Message) -> list[Held]:
    return [(message.seq, message.claim) for message in messages]


class Crowd:
    """Consumers, each call in a unit of its own."""

    def __init__(self, verbs: LineVerbs) -> None:
        self._verbs = verbs

    def __getattr__(self, verb: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            with self._verbs.unit() as unit:
                return getattr(unit.consumers, verb)(*args, **named)

        return call

    def register(self, name: str, delivery: Delivery = Delivery.AT_LEAST_ONCE) -> Registration:
        consumer = Registration(name, "q", delivery, 5_000)
        with self._verbs.unit() as unit:
            unit.consumers.register(consumer, self._verbs.now)
        return consumer

    def take(self, consumer: Registration, limit: int = 100) -> list[Message]:
        with self._verbs.unit() as unit:
            messages = unit.consumers.claim(consumer, limit, self._verbs.now).messages
            unit.consumers.hold(consumer.id, held(*messages), self._verbs.now)
        return messages


@pytest.fixture
def crowd(lines: LineVerbs) -> Crowd:
    return Crowd(lines)


class TestConsumers:
    def test_a_line_is_not_shared_out(self, lines: LineVerbs, crowd: Crowd) -> None:
        first, second = crowd.register("x"), crowd.register("y")
        lines.put("a1 a2 a3 a4 b1 b2")
        assert shown(crowd.take(first, 3)) == "a1 a2 a3"
        assert shown(crowd.take(second, 3)) == "b1 b2"

    def test_a_finished_head_frees_the_others(self, lines: LineVerbs, crowd: Crowd) -> None:
        consumer = crowd.register("x")
        lines.put("a1 a2 a3")
        [head] = crowd.take(consumer, 1)
        assert crowd.take(consumer) == []
        assert crowd.first_due("q") is None
        assert crowd.end_claims("q", held(head), Outcome.PROCESSED, lines.now) == set(held(head))
        assert lines.stirred == {"q"}
        assert crowd.first_due("q") == 0
        assert shown(crowd.take(consumer)) == "a2 a3"

    @pytest.mark.parametrize("delay_ms", [0, 100])
    def test_one_given_back_is_the_first_again(self, lines: LineVerbs, crowd: Crowd, delay_ms: int) -> None:
        consumer = crowd.register("x")
        lines.put("a1 a2 a3")
        first, second = crowd.take(consumer, 2)
        crowd.end_claims("q", held(first), None, lines.now, delay_ms)
        crowd.end_claims("q", held(second), None, lines.now)
        lines.now += delay_ms
        assert shown(crowd.take(consumer)) == "a1 a2 a3"

    def test_a_report_ends_several_at_once(self, lines: LineVerbs, crowd: Crowd) -> None:
        consumer = crowd.register("x")
        lines.put("a1 b1 a2 b2 c1 c2")
        first, second, other, _ = crowd.take(consumer, 4)
        assert shown([first, second, other]) == "a1 a2 b1"
        endings = [Ending(held(second, first), Outcome.PROCESSED), Ending(held(other), Outcome.FAILED)]
        crowd.report(consumer, endings, lines.now)
        assert shown(crowd.take(consumer)) == "c1 c2"

    def test_what_a_dead_consumer_held_is_a_line_again(self, lines: LineVerbs, crowd: Crowd) -> None:
        lines.put("a1 a2 a3")
        crowd.take(crowd.register("x"), 2)
        lines.now += 5_000
        assert crowd.reap(lines.now) == 1
        assert lines.stirred == {"q"}
        assert lines.take() == "a1 a2 a3"

    def test_what_a_dead_consumer_held_has_failed(self, lines: LineVerbs, crowd: Crowd) -> None:
        lines.put("a1 a2 a3")
        crowd.take(crowd.register("x", Delivery.AT_MOST_ONCE), 2)
        lines.now += 5_000
        crowd.reap(lines.now)
        assert lines.outcomes() == [Outcome.FAILED] * 2
        assert lines.take() == "a3"

    def test_a_deadline_ends_a_claim_and_what_is_behind_waits_for_it(self, lines: LineVerbs, crowd: Crowd) -> None:
        consumer = crowd.register("x")
        lines.send(draft("a1", deadline_at=lines.now + 100), draft("a2"))
        [head] = crowd.take(consumer, 1)
        assert head.ready_at == crowd.first_due("q") == lines.now + 100
        lines.now += 100
        assert shown(crowd.take(consumer)) == "a1 a2"

    def test_messages_that_had_their_numbers_first(self, lines: LineVerbs, crowd: Crowd) -> None:
        early, late = crowd.reserve(2).seqs
        lines.put("a3")
        crowd.push("q", [Numbered(late, lines.now, draft("a2")), Numbered(early, lines.now, draft("a1"))], lines.now)
        assert lines.take(1) == "a1"
        assert lines.take() == ""
        lines.now += 1_000
        assert lines.take() == "a1 a2 a3"

    def test_one_with_an_early_number_before_a_claimed_head(self, lines: LineVerbs, crowd: Crowd) -> None:
        [early] = crowd.reserve(1).seqs
        lines.put("a2 a3")
        [head] = lines.claim(1)
        crowd.push("q", [Numbered(early, lines.now, draft("a1"))], lines.now)
        assert lines.take() == "a1"
        lines.ack(head)
        assert lines.take() == ""

    def test_a_delay_of_its_own_is_refused(self, lines: LineVerbs, crowd: Crowd) -> None:
        [seq] = crowd.reserve(1).seqs
        with pytest.raises(InvalidRequest, match="delay"):
            crowd.push("q", [Numbered(seq, lines.now, Draft(b"x", delay_ms=5, group="a"))], lines.now)
        assert lines.peek() == []

    def test_the_share_of_a_queue_without_lines_heeds_no_group(self, verbs: LineVerbs) -> None:
        verbs.create(groups=Groups.OFF)
        crowd = Crowd(verbs)
        first, second = crowd.register("x"), crowd.register("y")
        verbs.put("a1 a2 a3 a4")
        assert sorted(shown(crowd.take(first, 2)).split() + shown(crowd.take(second, 2)).split()) == [
            "a1",
            "a2",
            "a3",
            "a4",
        ]
