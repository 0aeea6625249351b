"""Claims with an attempt, which can be repeated: a lost answer costs nothing."""

from __future__ import annotations

import pytest

from penstock import limits as bounds
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Backoff, Claimed, Draft, Groups, Message, Receipt
from penstock.stores import Store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("messages")

ATTEMPT_MS = 300_000
LONG_MS = 1_000_000


def told(messages: list[Message]) -> list[tuple[bytes, int]]:
    return [(message.body, message.claim) for message in messages]


class TestAgain:
    def test_the_same_messages_and_receipts(self, three: Verbs) -> None:
        first = three.claim_once("t", limit=2)
        assert told(first) == [(b"a", 1), (b"bb", 1)]
        again = three.claim_once("t", limit=2)
        assert again == first
        assert three.ack(*again) == [True, True]

    def test_other_attempts_get_other_messages(self, three: Verbs) -> None:
        assert told(three.claim_once("t", limit=1)) == [(b"a", 1)]
        assert told(three.claim_once("u", limit=1)) == [(b"bb", 1)]
        assert told(three.claim(limit=1)) == [(b"ccc", 1)]
        assert told(three.claim_once("t")) == [(b"a", 1)]
        assert told(three.claim_once("u")) == [(b"bb", 1)]

    def test_whatever_its_limit(self, three: Verbs) -> None:
        three.claim_once("t", limit=2)
        for limit in (0, 1, 3, 100):
            assert told(three.claim_once("t", limit=limit)) == [(b"a", 1), (b"bb", 1)]

    def test_held_anew(self, three: Verbs) -> None:
        three.claim_once("t", hold_ms=1_000)
        three.now += 900
        again = three.claim_once("t", hold_ms=1_000)
        assert [message.ready_at for message in again] == [three.now + 1_000] * 3
        assert [message.ready_at for message in three.peek()] == [three.now + 1_000] * 3
        three.now += 999
        assert three.claim() == []
        three.now += 1
        assert told(three.claim()) == [(b"a", 2), (b"bb", 2), (b"ccc", 2)]

    def test_for_the_time_of_the_queue(self, verbs: Verbs) -> None:
        verbs.create(visibility_ms=700)
        verbs.send(b"x")
        verbs.claim_once("t")
        verbs.now += 600
        [again] = verbs.claim_once("t")
        assert again.ready_at == verbs.now + 700

    def test_it_may_end_earlier_than_the_first(self, three: Verbs) -> None:
        three.claim_once("t", hold_ms=LONG_MS)
        again = three.claim_once("t", hold_ms=10)
        assert three.stirred == {"q"}
        assert [message.ready_at for message in again] == [three.now + 10] * 3
        assert three.next_due() == three.now + 10

    def test_each_delivery_is_counted_once(self, three: Verbs) -> None:
        [first] = three.claim_once("t", limit=1)
        three.now += 5
        [again] = three.claim_once("t", limit=1)
        assert (again.receives, again.claim, again.first_claimed_at) == (1, 1, first.first_claimed_at)
        assert first.first_claimed_at == three.now - 5

    def test_in_the_order_of_the_first(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(*(b"%d" % number for number in range(50)))
        first = verbs.claim_once("t")
        verbs.renew(*first[::2], until=verbs.now + LONG_MS)
        assert [message.body for message in verbs.claim_once("t")] == [b"%d" % number for number in range(50)]

    def test_in_one_unit(self, three: Verbs, store: Store) -> None:
        with store.unit() as unit:
            first = unit.messages.claim_once("q", "t", 2, three.now, None)
            assert unit.messages.claim_once("q", "t", 2, three.now, None) == Claimed(first.messages)

    def test_any_number_of_times(self, three: Verbs) -> None:
        first = three.claim_once("t", hold_ms=60_000)
        for _ in range(4):
            three.now += 59_000
            assert told(three.claim_once("t", hold_ms=60_000)) == told(first)

    def test_renewed_by_its_receipts_meanwhile(self, three: Verbs) -> None:
        first = three.claim_once("t", hold_ms=100)
        three.renew(*first, until=three.now + 5_000)
        three.now += 4_000
        assert told(three.claim_once("t", hold_ms=100)) == told(first)

    def test_a_claim_that_has_run_out_and_was_renewed_is_held(self, three: Verbs) -> None:
        first = three.claim_once("t", hold_ms=100)
        three.now += 100
        three.renew(*first, until=three.now + 5_000)
        assert told(three.claim_once("t")) == told(first)

    def test_large_claims(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(*(b"%d" % number for number in range(1_000)))
        first = verbs.claim_once("t", limit=1_000)
        assert len(first) == 1_000
        assert verbs.claim_once("t", limit=1_000) == first

    @pytest.mark.parametrize("limits", [Limits(claim_bytes=5)])
    def test_bytes_ended_the_first_and_do_not_end_the_second_earlier(self, verbs: Verbs, store: Store) -> None:
        verbs.create()
        verbs.send(b"123", b"45678", b"9")
        first = verbs.claim_once("t")
        assert told(first) == [(b"123", 1), (b"45678", 1)]
        assert verbs.claim_once("t") == first
        assert told(verbs.claim_once("u")) == [(b"9", 1)]


class TestAnew:
    """Once a message of it is not held by it any more, the claim is another."""

    def test_one_was_acked(self, three: Verbs) -> None:
        first, _ = three.claim_once("t", limit=2)
        three.ack(first)
        assert told(three.claim_once("t", limit=2)) == [(b"ccc", 1)]
        assert told(three.claim_once("t", limit=2)) == [(b"ccc", 1)]

    def test_one_was_released(self, three: Verbs) -> None:
        first, _ = three.claim_once("t", limit=2)
        three.release(first)
        assert told(three.claim_once("t", limit=1)) == [(b"a", 2)]

    def test_one_was_released_with_a_delay(self, three: Verbs) -> None:
        first, _ = three.claim_once("t", limit=2)
        three.release(first, delay_ms=100)
        assert told(three.claim_once("t", limit=1)) == [(b"ccc", 1)]

    def test_it_has_run_out(self, three: Verbs) -> None:
        three.claim_once("t", limit=2, hold_ms=100)
        three.now += 99
        assert told(three.claim_once("t", limit=2, hold_ms=100)) == [(b"a", 1), (b"bb", 1)]
        three.now += 100
        assert told(three.claim_once("t", limit=2, hold_ms=100)) == [(b"a", 2), (b"bb", 2)]

    def test_one_has_run_out(self, three: Verbs) -> None:
        _, second = three.claim_once("t", limit=2, hold_ms=100)
        three.renew(second, until=three.now + LONG_MS)
        three.now += 100
        assert told(three.claim_once("t", limit=2)) == [(b"a", 2), (b"ccc", 1)]

    def test_it_has_run_out_and_backs_off(self, verbs: Verbs) -> None:
        verbs.create(backoff=Backoff(1_000, 1_000))
        verbs.send(b"x")
        verbs.claim_once("t", hold_ms=100)
        verbs.now += 100
        assert verbs.claim_once("t") == []
        assert verbs.claim_once("t") == []
        verbs.now += 1_000
        assert told(verbs.claim_once("t")) == [(b"x", 2)]

    def test_another_has_claimed_one(self, three: Verbs) -> None:
        three.claim_once("t", limit=2, hold_ms=100)
        three.now += 100
        three.claim(limit=1)
        assert told(three.claim_once("t", limit=2)) == [(b"bb", 2), (b"ccc", 1)]

    def test_one_was_purged(self, three: Verbs) -> None:
        three.claim_once("t", limit=2)
        three.purge(limit=3)
        three.send(b"d")
        assert told(three.claim_once("t")) == [(b"d", 1)]

    @pytest.mark.needs("moves")
    def test_one_has_moved(self, three: Verbs) -> None:
        three.create("p")
        three.claim_once("t", limit=2)
        three.move("q", "p", limit=1, through=three.peek()[1].seq, claimed=True)
        assert told(three.claim_once("t")) == [(b"ccc", 1)]

    @pytest.mark.needs("moves")
    def test_one_has_moved_there_and_back(self, three: Verbs) -> None:
        three.create("p")
        three.claim_once("t", limit=1)
        three.move("q", "p", claimed=True)
        three.move("p", "q")
        assert told(three.claim_once("t", limit=1)) == [(b"a", 2)]

    @pytest.mark.needs("shipments")
    def test_one_is_in_a_shipment(self, three: Verbs) -> None:
        [first] = three.claim_once("t", limit=1)
        three.release(first)
        three.ship(limit=1)
        assert told(three.claim_once("t", limit=1)) == [(b"bb", 1)]

    def test_all_were_acked_and_nothing_is_left(self, three: Verbs) -> None:
        three.ack(*three.claim_once("t"))
        assert three.claim_once("t") == []
        three.send(b"d")
        assert told(three.claim_once("t")) == [(b"d", 1)]

    def test_what_it_no_longer_holds_alone_stays_held(self, three: Verbs) -> None:
        """The rest of the first claim is as it was: a holder of a receipt may go on with it."""
        first, second = three.claim_once("t", limit=2)
        three.ack(first)
        three.claim_once("t", limit=2)
        assert three.ack(second) == [True]


class TestRemembering:
    def test_an_empty_claim_is_not_remembered(self, verbs: Verbs) -> None:
        verbs.create()
        assert verbs.claim_once("t") == []
        verbs.send(b"x")
        assert told(verbs.claim_once("t")) == [(b"x", 1)]

    def test_a_hold_of_nothing_is_a_new_claim_each_time(self, three: Verbs) -> None:
        assert told(three.claim_once("t", limit=1, hold_ms=0)) == [(b"a", 1)]
        assert told(three.claim_once("t", limit=1, hold_ms=0)) == [(b"a", 2)]
        assert told(three.claim_once("t", limit=1)) == [(b"a", 3)]
        assert told(three.claim_once("t", limit=1)) == [(b"a", 3)]

    def test_a_hold_of_nothing_does_not_repeat_one_that_holds(self, three: Verbs) -> None:
        three.claim_once("t", limit=1)
        assert told(three.claim_once("t", limit=1, hold_ms=0)) == [(b"bb", 1)]

    def test_for_a_while(self, three: Verbs) -> None:
        three.claim_once("t", limit=1, hold_ms=LONG_MS)
        three.now += ATTEMPT_MS - 1
        assert told(three.claim_once("t", limit=1, hold_ms=LONG_MS)) == [(b"a", 1)]
        three.now += 1
        assert told(three.claim_once("t", limit=1, hold_ms=LONG_MS)) == [(b"bb", 1)]

    def test_a_sweep_forgets(self, three: Verbs) -> None:
        three.claim_once("t", limit=1, hold_ms=LONG_MS)
        three.now += ATTEMPT_MS - 1
        three.claim_once("u", limit=1, hold_ms=LONG_MS)
        assert three.sweep() == 0
        three.now += 1
        assert three.sweep() == 1
        assert told(three.claim_once("u", limit=1)) == [(b"bb", 1)]
        assert told(three.claim_once("t", limit=1)) == [(b"ccc", 1)]

    def test_every_queue_has_its_own(self, three: Verbs) -> None:
        three.create("p")
        three.send(b"d", to="p")
        three.claim_once("t", limit=1)
        assert told(three.claim_once("t", limit=1, queue="p")) == [(b"d", 1)]
        assert told(three.claim_once("t", limit=1)) == [(b"a", 1)]

    def test_a_queue_of_the_same_name_again_knows_nothing(self, three: Verbs) -> None:
        three.claim_once("t")
        three.delete()
        three.create()
        three.send(b"d")
        assert told(three.claim_once("t")) == [(b"d", 1)]
        while three.sweep():
            pass
        assert told(three.claim_once("t")) == [(b"d", 1)]

    def test_names_are_compared_letter_by_letter(self, verbs: Verbs) -> None:
        verbs.create()
        names = ["t", "T", "t ", " t", "\u00e4", "a\u0308", "t" * bounds.ATTEMPT_LENGTH, "\U0001f600" * 128]
        verbs.send(*(b"%d" % number for number in range(len(names))))
        assert [verbs.claim_once(name, limit=1)[0].body for name in names] == [b"%d" % n for n in range(len(names))]
        assert [verbs.claim_once(name, limit=1)[0].body for name in names] == [b"%d" % n for n in range(len(names))]

    def test_a_lost_unit_is_not_remembered(self, three: Verbs, store: Store) -> None:
        def lose() -> None:
            with store.unit() as unit:
                unit.messages.claim_once("q", "t", 2, three.now, None)
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        assert told(three.claim_once("t", limit=1)) == [(b"a", 1)]

    def test_an_unknown_queue(self, verbs: Verbs) -> None:
        with pytest.raises(QueueNotFound, match="'nowhere'"):
            verbs.claim_once("t", queue="nowhere")


class TestGroups:
    def test_of_a_line(self, verbs: Verbs, store: Store) -> None:
        verbs.create(groups=Groups.FIFO, visibility_ms=1_000)
        with store.unit() as unit:
            unit.send("q", [Draft(body, group=chr(body[0])) for body in (b"a1", b"b1", b"a2", b"a3")], verbs.now)
        first = verbs.claim_once("t", limit=2)
        assert told(first) == [(b"a1", 1), (b"a2", 1)]
        verbs.now += 900
        assert told(verbs.claim_once("t", limit=2)) == told(first)
        verbs.now += 900
        assert told(verbs.claim()) == [(b"b1", 1)]
        verbs.now += 100
        assert verbs.ack(*first) == [False, False]
        assert told(verbs.claim_once("t", limit=3)) == [(b"a1", 2), (b"a2", 2), (b"a3", 1)]

    def test_without_a_claim_it_is_taken_away(self, three: Verbs) -> None:
        [first] = three.claim_once("t", limit=1)
        three.ack(Receipt(first.id))
        assert told(three.claim_once("t", limit=1)) == [(b"bb", 1)]
