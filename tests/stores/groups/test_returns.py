"""How messages come back into their line, how long a receipt is good there, and what that frees."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.limits import Limits
from penstock.model import Backoff, Groups, MoveStatus, MoveTerms, Receipt
from tests.stores.groups.conftest import LineVerbs

pytestmark = pytest.mark.needs("messages")

LONG_MS = 50_000


class TestRunningOut:
    def test_a_claim_that_has_run_out_comes_back_in_its_place(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1 a3")
        assert lines.take(2) == "a1 a2"
        lines.now += 1_000
        assert lines.take() == "a1 a2 a3 b1"

    def test_claims_that_run_out_one_after_the_other(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second, _ = lines.claim()
        lines.renew(first, until=lines.now + 3_000)
        lines.renew(second, until=lines.now + 2_000)
        taken = []
        for _ in range(3):
            lines.now += 1_000
            taken.append(lines.take())
        assert taken == ["", "", "a1 a2 a3"]

    def test_the_last_of_a_line_runs_out_first(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second, _ = lines.claim()
        lines.renew(first, second, until=lines.now + LONG_MS)
        lines.now += 1_000
        assert lines.take() == ""
        lines.ack(first)
        assert lines.take() == ""
        lines.ack(second)
        assert lines.take() == "a3"

    @pytest.mark.parametrize("limits", [Limits(promote_rows=2)])
    def test_more_than_one_claim_makes_ready(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 b2 a3 c1 c2")
        lines.claim()
        lines.now += 1_000
        seen: list[str] = []
        while claimed := lines.claim(1, hold_ms=LONG_MS):
            lines.ack(*claimed)
            seen += [message.body.decode() for message in claimed]
        assert sorted(seen) == ["a1", "a2", "a3", "b1", "b2", "c1", "c2"]
        for group in "abc":
            of_group = [text for text in seen if text[0] == group]
            assert of_group == sorted(of_group)


class TestRenewals:
    def test_a_renewed_head_keeps_the_others_back(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        assert lines.renew(head, until=lines.now + 5_000) == [True]
        lines.now += 4_999
        assert lines.take() == ""
        lines.now += 1
        assert lines.take() == "a1 a2"

    def test_a_shortened_claim_frees_its_line(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        assert lines.renew(head, until=lines.now + 10, shorten=True) == [True]
        assert lines.stirred == {"q"}
        assert lines.next_due() == lines.now + 10
        lines.now += 10
        assert lines.take() == "a1 a2"

    @pytest.mark.parametrize("back", [0, 5])
    def test_into_the_past(self, lines: LineVerbs, back: int) -> None:
        lines.put("a1 a2 a3")
        first, _ = lines.claim(2)
        assert lines.renew(first, until=lines.now - back, shorten=True) == [True]
        assert lines.stirred == {"q"}
        assert lines.count().ready == 2
        assert lines.ack(first) == [False]
        assert lines.take() == "a1"

    def test_into_the_past_behind_a_held_head(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second = lines.claim(2)
        lines.renew(second, until=lines.now - 5, shorten=True)
        assert lines.take() == ""
        lines.ack(first)
        assert lines.take() == "a2 a3"

    def test_into_the_past_of_all(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.renew(*lines.claim(), until=lines.now, shorten=True)
        assert lines.count().ready == 3
        assert lines.take() == "a1 a2 a3"

    def test_without_a_claim_the_first_can_be_held(self, lines: LineVerbs) -> None:
        first, _ = lines.put("a1 a2")
        assert lines.renew(Receipt(first.id), until=lines.now + 10) == [True]
        assert lines.take() == ""
        assert lines.count().claimed == 1
        lines.now += 10
        [head, second] = lines.claim()
        assert (head.body, head.receives, second.receives) == (b"a1", 2, 1)

    def test_without_a_claim_one_behind_can_be_held(self, lines: LineVerbs) -> None:
        _, second, _ = lines.put("a1 a2 a3")
        assert lines.renew(Receipt(second.id), until=lines.now + 10) == [True]
        assert (lines.count().claimed, lines.count().ready) == (1, 2)
        assert lines.take() == "a1"
        lines.now += 10
        assert lines.take() == ""

    def test_a_claim_that_has_run_out_cannot_be_renewed(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.now += 1_000
        assert lines.renew(head, until=lines.now + LONG_MS) == [False]
        assert lines.take() == "a1 a2"


class TestReleases:
    def test_a_released_head_is_ready_in_its_place(self, lines: LineVerbs) -> None:
        lines.put("b1 a1 a2 a3")
        _, head = lines.claim(2)
        lines.release(head)
        assert lines.stirred == {"q"}
        assert lines.take() == "a1 a2 a3"

    def test_a_released_line(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second, third = lines.claim()
        assert lines.release(third, second, first) == [True] * 3
        assert lines.take() == "a1 a2 a3"

    def test_a_release_with_a_delay_keeps_the_others_back(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.release(head, delay_ms=5_000)
        assert (lines.count().delayed, lines.count().ready, lines.count().claimed) == (1, 1, 0)
        lines.now += 4_999
        assert lines.take() == ""
        lines.now += 1
        assert lines.take() == "a1 a2"

    def test_one_behind_that_is_released_with_a_delay(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second, third = lines.claim()
        lines.release(second, delay_ms=5_000)
        lines.release(first, third)
        assert lines.take() == "a1"
        lines.now += 5_000
        assert lines.take() == "a1 a2 a3"

    def test_its_delay_may_be_over_before_its_turn_comes(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second = lines.claim(2)
        lines.release(second, delay_ms=100)
        lines.now += 100
        assert lines.take() == ""
        assert (lines.count().delayed, lines.count().ready) == (0, 2)
        lines.ack(first)
        assert lines.take() == "a2 a3"

    def test_what_is_behind_has_no_claim_to_end(self, lines: LineVerbs) -> None:
        _, second = lines.put("a1 a2")
        assert lines.release(Receipt(second.id), delay_ms=5_000) == [True]
        assert lines.take() == "a1 a2"

    def test_all_claims_of_a_queue(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1 a3")
        lines.claim(3)
        assert lines.release_all() == 3
        assert lines.stirred == {"q"}
        assert lines.take() == "a1 a2 a3 b1"

    def test_some_claims_of_a_queue(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second, _ = lines.claim()
        lines.renew(first, until=lines.now + 3_000)
        lines.renew(second, until=lines.now + 2_000)
        assert lines.release_all(limit=1) == 1
        assert lines.take() == ""
        assert lines.release_all(limit=1) == 1
        assert lines.take() == ""
        assert lines.release_all(limit=1) == 1
        assert lines.release_all() == 0
        assert lines.take() == "a1 a2 a3"

    def test_what_waits_behind_has_no_claim_among_all(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.claim(1)
        assert lines.release_all() == 1
        assert lines.release_all() == 0


class TestBackoff:
    @pytest.fixture
    def slow(self, verbs: LineVerbs) -> LineVerbs:
        """A claim lasts for 1,000 ms; after it, a message waits for 100."""
        verbs.create_fifo(visibility_ms=1_000, backoff=Backoff(100, 1_000))
        return verbs

    def test_a_head_that_backs_off_keeps_the_others_back(self, slow: LineVerbs) -> None:
        slow.put("a1 a2")
        slow.claim(1)
        slow.now += 1_000
        assert slow.take() == ""
        assert (slow.count().delayed, slow.count().ready) == (1, 1)
        assert slow.next_due() == slow.now + 100
        slow.now += 100
        assert slow.take() == "a1 a2"

    def test_a_release_that_backs_off(self, slow: LineVerbs) -> None:
        slow.put("a1 a2 a3")
        first, second = slow.claim(2)
        slow.release(first, delay_ms=None)
        slow.release(second)
        assert slow.take() == ""
        slow.now += 100
        assert slow.take() == "a1 a2 a3"

    def test_one_behind_that_backs_off(self, slow: LineVerbs) -> None:
        slow.put("a1 a2 a3")
        first, _ = slow.claim(2)
        slow.renew(first, until=slow.now + LONG_MS)
        slow.now += 1_000
        assert slow.take() == ""
        slow.ack(first)
        assert slow.take() == ""
        slow.now += 100
        assert slow.take() == "a2 a3"

    def test_while_it_backs_off_its_receipt_is_good_no_more(self, slow: LineVerbs) -> None:
        slow.put("a1 a2")
        [head] = slow.claim(1)
        slow.now += 1_000
        assert slow.ack(head) == [False]
        assert slow.take() == ""
        assert slow.ack(head) == [False]
        assert slow.there() == "a1 a2"


class TestReceipts:
    """In a line a claim is good only while it lasts: afterwards the line may have moved on."""

    @pytest.mark.parametrize("verb", ["ack", "release", "renew"])
    def test_good_until_its_last_millisecond(self, lines: LineVerbs, verb: str) -> None:
        for late in (0, 1):
            lines.put("a1")
            [message] = lines.claim(hold_ms=100)
            lines.now += 99 + late
            found = lines.renew(message, until=lines.now + 5) if verb == "renew" else getattr(lines, verb)(message)
            assert found == [not late]
            lines.purge()

    def test_after_a_release(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.release(head)
        assert lines.ack(head) == lines.renew(head, until=lines.now + 5) == lines.release(head) == [False]
        assert lines.take() == "a1 a2"

    def test_after_a_release_with_a_delay(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.release(head, delay_ms=100)
        assert lines.ack(head) == lines.release(head) == [False]
        assert lines.there() == "a1 a2"

    def test_of_a_claim_without_a_hold(self, lines: LineVerbs) -> None:
        lines.put("a1")
        [head] = lines.claim(hold_ms=0)
        assert lines.ack(head) == [False]
        assert lines.ack(Receipt(head.id)) == [True]

    def test_of_a_message_that_waits_behind_another_again(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        first, second = lines.claim()
        lines.renew(first, until=lines.now + LONG_MS)
        lines.now += 1_000
        assert lines.take() == ""
        assert lines.ack(second) == lines.renew(second, until=lines.now + 5) == [False]
        assert lines.release(second, delay_ms=50) == [False]
        assert [message.ready_at for message in lines.peek()][1] == limits.BEHIND

    def test_of_a_message_without_a_group(self, lines: LineVerbs) -> None:
        """One promise for all messages of a queue."""
        lines.put("-1")
        [message] = lines.claim()
        lines.now += 1_000
        assert lines.ack(message) == [False]
        assert lines.take() == "-1"

    def test_without_a_claim_the_message_is_meant_wherever_it_stands(self, lines: LineVerbs) -> None:
        sent = lines.put("a1 a2 a3")
        assert lines.ack(Receipt(sent[1].id)) == [True]
        lines.claim(1)
        lines.now += 1_000
        assert lines.ack(Receipt(sent[0].id, queue="q")) == [True]
        assert lines.take() == "a3"

    def test_a_stale_one_is_never_good(self, lines: LineVerbs) -> None:
        lines.put("a1")
        [first] = lines.claim(hold_ms=10)
        lines.now += 10
        [second] = lines.claim()
        assert lines.ack(first) == lines.renew(first, until=lines.now + LONG_MS) == [False]
        assert lines.ack(second) == [True]

    def test_a_message_is_found_also_after_its_claim(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.now += 1_000
        [_, second] = lines.peek()
        assert lines.locate(head, Receipt(second.id), Receipt(second.id.upper())) == ["q", "q", "q"]

    def test_where_a_group_is_a_word_a_late_ack_is_good(self, verbs: LineVerbs) -> None:
        verbs.create(groups=Groups.OFF)
        verbs.put("a1")
        [message] = verbs.claim(hold_ms=10)
        verbs.now += 10
        assert verbs.ack(message) == [True]


@pytest.mark.parametrize("limits", [Limits(promote_rows=3)])
class TestManyRunOutAtOnce:
    """More than one unit makes ready."""

    def test_a_claim_that_has_not_seen_all_of_them_says_so(self, lines: LineVerbs) -> None:
        first, *_ = lines.put("a1 a2 a3 a4 a5 a6")
        claimed = lines.claim()
        lines.renew(claimed[0], until=lines.now + 2_000)
        lines.now += 5_000
        with lines.unit() as unit:
            taken = unit.claim("q", 1, lines.now, None)
            while not taken.messages:
                assert taken.more
                taken = unit.claim("q", 1, lines.now, None)
        assert [message.id for message in taken.messages] == [first.id]

    def test_a_move_as_new_keeps_their_order(self, lines: LineVerbs) -> None:
        lines.create_fifo("there")
        texts = [f"a{number}" for number in range(9)]
        lines.put(" ".join(texts))
        claimed = lines.claim()
        for place, message in enumerate(reversed(claimed)):
            lines.renew(message, until=lines.now + 2_000 + place)
        lines.now += 5_000
        lines.moves.start("q", "there", terms=MoveTerms(as_new=True))
        while lines.moves.step(limit=2).status is MoveStatus.IN_PROGRESS:
            pass
        assert lines.take(queue="there") == " ".join(texts)
