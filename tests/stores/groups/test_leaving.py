"""What leaves a line other than by an ack, and what comes into one other than by a send."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock import limits
from penstock.limits import Limits
from penstock.model import Dedup, Groups, MoveStatus, MoveTerms, Outcome, PeekAfter, Redrive, Selection
from tests.stores.groups.conftest import LineVerbs, draft

pytestmark = pytest.mark.needs("messages")


class TestExpiry:
    def test_an_expired_head_gives_way_within_the_claim(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1")
        verbs.now += 50
        verbs.put("a2 b1 a3")
        verbs.now += 50
        assert verbs.take(2) == "a2 a3"
        assert verbs.take() == "b1"
        assert verbs.outcomes() == [Outcome.EXPIRED]

    def test_all_of_a_line_has_expired(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1 a2 a3")
        verbs.now += 100
        verbs.put("b1")
        assert verbs.take() == "b1"
        assert verbs.outcomes() == [Outcome.EXPIRED] * 3

    def test_a_head_past_its_deadline(self, lines: LineVerbs) -> None:
        lines.send(draft("a1", deadline_at=lines.now + 10), draft("a2"))
        lines.now += 10
        assert lines.take() == "a2"
        assert lines.outcomes() == [Outcome.FAILED]

    def test_one_past_its_deadline_within_a_line(self, lines: LineVerbs) -> None:
        lines.send(draft("a1"), draft("a2", deadline_at=lines.now + 10), draft("a3"))
        lines.now += 10
        assert lines.take() == "a1 a3"

    def test_behind_an_expired_head_a_delayed_one_keeps_its_delay(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100, delay_ms=50)
        verbs.put("a1")
        verbs.now += 90
        verbs.put("a2")
        verbs.now += 10
        assert verbs.take() == ""
        assert verbs.there() == "a2"
        assert verbs.next_due() == verbs.now + 40
        verbs.now += 40
        assert verbs.take() == "a2"

    def test_a_head_that_is_held_past_its_retention_still_keeps_the_others_back(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1")
        verbs.claim(hold_ms=1_000)
        verbs.now += 150
        verbs.put("a2")
        assert verbs.take() == ""
        verbs.now += 850
        assert verbs.take() == ""
        verbs.put("a3")
        assert verbs.take() == "a3"

    def test_a_sweep_frees_what_has_expired_in_a_line(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1 a2 b1")
        verbs.now += 50
        verbs.put("a3 b2")
        verbs.now += 50
        assert verbs.sweep() == 3
        assert verbs.there() == "a3 b2"
        assert verbs.take() == "a3 b2"

    def test_a_sweep_frees_what_has_expired_behind_a_held_head(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1 a2")
        verbs.claim(1, hold_ms=1_000)
        verbs.now += 50
        verbs.put("a3")
        verbs.now += 50
        assert verbs.sweep() == 1
        assert verbs.there() == "a1 a3"
        assert verbs.take() == ""

    def test_a_sweep_in_small_steps(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(retention_ms=100)
        verbs.put("a1 b1 a2 b2 a3")
        verbs.now += 100
        verbs.put("a4 b3")
        freed = 0
        while step := verbs.sweep(limit=1):
            freed += step
        assert freed == 5
        assert verbs.take() == "a4 b3"


class TestDeadLetters:
    @pytest.fixture
    def redriven(self, verbs: LineVerbs) -> LineVerbs:
        """Messages of "q" are delivered once, then go to "dead"; both have groups."""
        verbs.create_fifo("dead")
        verbs.create_fifo(redrive=Redrive(1, "dead"), visibility_ms=1_000)
        return verbs

    def test_a_dead_head_gives_way_within_the_claim(self, redriven: LineVerbs) -> None:
        redriven.put("a1 b1 a2 a3")
        redriven.claim(1, hold_ms=0)
        assert redriven.take() == "a2 a3 b1"
        assert redriven.there("dead") == "a1"

    def test_the_rest_of_its_line_comes_before_another(self, redriven: LineVerbs) -> None:
        redriven.put("a1 b1 a2 a3")
        redriven.claim(1, hold_ms=0)
        assert redriven.take(1) == "a2"

    def test_several_dead_letters_of_a_line(self, redriven: LineVerbs) -> None:
        redriven.put("a1 a2 a3 a4 a5")
        redriven.claim(3, hold_ms=0)
        assert redriven.take() == "a4 a5"
        assert redriven.take(queue="dead") == "a1 a2 a3"

    def test_a_line_of_dead_letters_is_a_line_there(self, redriven: LineVerbs) -> None:
        redriven.put("a1 a2 a3 b1")
        redriven.claim(hold_ms=0)
        assert redriven.take() == ""
        assert redriven.stirred >= {"dead"}
        assert [message.ready_at for message in redriven.peek("dead")] == [0, 0, limits.BEHIND, limits.BEHIND]
        first, *_ = redriven.claim(1, queue="dead")
        assert (first.body, first.came_from, first.receives, first.group) == (b"a1", "q", 1, "a")
        assert redriven.take(queue="dead") == "b1"

    def test_one_dead_letter_after_another_stands_behind_it(self, redriven: LineVerbs) -> None:
        redriven.put("a1 a2")
        redriven.claim(1, hold_ms=0)
        redriven.claim(hold_ms=0)
        redriven.take()
        redriven.take()
        assert redriven.there("dead") == "a1 a2"
        assert redriven.take(1, queue="dead") == "a1"
        assert redriven.take(queue="dead") == ""

    def test_into_a_queue_without_lines(self, verbs: LineVerbs) -> None:
        verbs.create("dead")
        verbs.create_fifo(redrive=Redrive(1, "dead"))
        verbs.put("a1 a2")
        verbs.claim(hold_ms=0)
        assert verbs.take() == ""
        assert [message.ready_at for message in verbs.peek("dead")] == [0, 0]
        assert verbs.take(1, queue="dead") == "a1"
        assert verbs.take(queue="dead") == "a2"

    def test_out_of_a_queue_without_lines(self, verbs: LineVerbs) -> None:
        verbs.create_fifo("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.put("a1 a2 b1")
        verbs.claim(hold_ms=0)
        assert verbs.take() == ""
        assert verbs.take(1, queue="dead") == "a1"
        assert verbs.take(queue="dead") == "b1"

    def test_a_younger_one_that_was_there_first_stands_behind(self, redriven: LineVerbs) -> None:
        redriven.put("a1")
        redriven.put("a2", to="dead")
        redriven.claim(hold_ms=0)
        redriven.claim()
        assert redriven.take(1, queue="dead") == "a1"
        assert redriven.take(queue="dead") == ""

    def test_a_queue_that_is_its_own_dead_letter_queue(self, lines: LineVerbs) -> None:
        lines.update(groups=Groups.FIFO, redrive=Redrive(1, "q"), visibility_ms=1_000)
        lines.put("a1 a2 b1")
        lines.claim(1, hold_ms=0)
        # It is passed over by the claim that finds it dead, and still the first of its line.
        assert lines.take() == "b1"
        assert lines.stirred == {"q"}
        assert lines.take() == "a1 a2"


class TestPurges:
    def test_what_is_left_of_a_line_moves_up(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1")
        through = lines.last_seq()
        lines.put("a3 b2")
        assert lines.purge(through=through) == 3
        assert lines.stirred == {"q"}
        assert lines.take() == "a3 b2"

    def test_a_claimed_head_goes_as_well(self, lines: LineVerbs) -> None:
        lines.put("a1")
        [head] = lines.claim()
        through = lines.last_seq()
        lines.put("a2")
        assert lines.purge(through=through) == 1
        assert lines.ack(head) == [False]
        assert lines.take() == "a2"

    def test_in_small_steps(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 b2 a3")
        lines.claim(2)
        purged = 0
        while step := lines.purge(limit=1):
            purged += step
        assert purged == 5
        assert lines.peek() == []
        lines.put("a4")
        assert lines.take() == "a4"

    def test_by_age(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1")
        lines.now += 10
        lines.put("a3 b2")
        assert lines.purge_older(lines.now).count == 3
        assert lines.stirred == {"q"}
        assert lines.take() == "a3 b2"

    def test_by_age_in_small_steps(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1 a3 b2 -1")
        lines.now += 10
        lines.put("a4 b3")
        after: PeekAfter | None = PeekAfter(0, 0)
        purged = 0
        while after is not None:
            step = lines.purge_older(lines.now, limit=1, after=after)
            purged, after = purged + step.count, step.after
        assert purged == 6
        assert lines.take() == "a4 b3"

    def test_a_deleted_queue_is_freed_with_its_lines(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 b1")
        lines.claim(1)
        lines.delete()
        lines.create_fifo()
        lines.put("a3 a4")
        freed = 0
        while step := lines.sweep(limit=1):
            freed += step
        assert freed >= 3
        assert lines.outcomes() == [Outcome.PURGED] * 3
        assert lines.take() == "a3 a4"


@pytest.mark.needs("moves")
class TestMoves:
    @pytest.fixture
    def two(self, verbs: LineVerbs) -> LineVerbs:
        verbs.create_fifo("here", visibility_ms=1_000)
        verbs.create_fifo("there", visibility_ms=1_000)
        return verbs

    def test_a_line_keeps_its_order(self, two: LineVerbs) -> None:
        two.put("a1 b1 a2 b2", to="here")
        assert two.move("here", "there") == 4
        assert two.stirred >= {"there"}
        assert two.take(1, queue="there") == "a1"
        assert two.take(queue="there") == "b1 b2"

    def test_in_small_steps(self, two: LineVerbs) -> None:
        two.put("a1 b1 a2 b2 a3", to="here")
        for done in range(1, 6):
            assert two.move("here", "there", limit=1) == 1
            assert len(two.peek("there")) == done
        assert two.there("there") == "a1 b1 a2 b2 a3"
        assert two.take(queue="there") == "a1 a2 a3 b1 b2"

    def test_the_head_leaves_and_the_next_is_the_first(self, two: LineVerbs) -> None:
        two.put("a1 a2", to="here")
        two.move("here", "there", limit=1)
        assert two.stirred == {"here", "there"}
        assert two.take(queue="here") == "a2"
        assert two.take(queue="there") == "a1"

    def test_an_older_one_arrives_before_the_head(self, two: LineVerbs) -> None:
        two.put("a1", to="here")
        two.put("a2 a3", to="there")
        two.move("here", "there")
        assert two.take(1, queue="there") == "a1"
        assert two.take(queue="there") == ""
        assert [message.ready_at for message in two.peek("there")][1:] == [limits.BEHIND] * 2

    def test_an_older_one_arrives_before_a_claimed_head(self, two: LineVerbs) -> None:
        two.put("a1", to="here")
        two.put("a2 a3", to="there")
        [second] = two.claim(1, queue="there")
        two.move("here", "there")
        [first] = two.claim(queue="there")
        assert first.body == b"a1"
        two.ack(first)
        assert two.take(queue="there") == ""
        two.ack(second)
        assert two.take(queue="there") == "a3"

    def test_several_older_ones_arrive_before_the_head(self, two: LineVerbs) -> None:
        two.put("a1 a2 b1", to="here")
        two.put("a3 b2", to="there")
        two.move("here", "there")
        assert two.take(queue="there") == "a1 a2 a3 b1 b2"

    def test_a_younger_one_stands_behind_a_claimed_head(self, two: LineVerbs) -> None:
        two.put("a1", to="there")
        two.claim(queue="there")
        two.put("a2", to="here")
        two.move("here", "there")
        assert two.take(queue="there") == ""
        two.now += 1_000
        assert two.take(queue="there") == "a1 a2"

    def test_what_is_claimed_stays_and_the_others_go(self, two: LineVerbs) -> None:
        two.put("a1 a2 a3", to="here")
        two.claim(1, queue="here")
        assert two.move("here", "there") == 2
        assert two.take(queue="there") == "a2 a3"
        assert two.there("here") == "a1"

    def test_claimed_ones_go_along_when_asked(self, two: LineVerbs) -> None:
        two.put("a1 a2 a3", to="here")
        two.claim(2, queue="here")
        assert two.move("here", "there", claimed=True) == 3
        assert two.take(queue="there") == "a1 a2 a3"
        two.put("a4", to="here")
        assert two.take(queue="here") == "a4"

    def test_no_further_than_the_sequence_number_given(self, two: LineVerbs) -> None:
        two.put("a1 a2", to="here")
        through = two.last_seq()
        two.put("a3", to="here")
        assert two.move("here", "there", through=through) == 2
        assert two.take(queue="here") == "a3"

    def test_into_a_queue_without_lines(self, verbs: LineVerbs) -> None:
        verbs.create_fifo("here")
        verbs.create("there")
        verbs.put("a1 a2 a3", to="here")
        verbs.claim(1, queue="here")
        verbs.move("here", "there")
        assert [message.ready_at for message in verbs.peek("there")] == [0, 0]
        assert verbs.take(1, queue="there") == "a2"
        assert verbs.take(queue="there") == "a3"

    def test_out_of_a_queue_without_lines(self, verbs: LineVerbs) -> None:
        verbs.create("here")
        verbs.create_fifo("there")
        verbs.send(draft("a1", delay_ms=100), draft("a2"), draft("-1", delay_ms=100), to="here")
        assert verbs.move("here", "there") == 3
        # In a line it has no delay of its own.
        assert verbs.take(queue="there") == "a1 a2"
        verbs.now += 100
        assert verbs.take(queue="there") == "-1"

    def test_the_delay_of_the_target_counts_from_when_it_was_sent(self, verbs: LineVerbs) -> None:
        verbs.create("here")
        verbs.create_fifo("there", delay_ms=100)
        verbs.put("a1", to="here")
        verbs.now += 60
        verbs.move("here", "there")
        assert verbs.take(queue="there") == ""
        verbs.now += 40
        assert verbs.take(queue="there") == "a1"

    def test_a_twin_that_does_not_arrive_frees_its_line_all_the_same(self, verbs: LineVerbs) -> None:
        verbs.create_fifo("here")
        verbs.create_fifo("there", dedup=Dedup.SEND)
        verbs.put("a1 a2", to="here")
        verbs.put("a1", to="there")
        assert verbs.move("here", "there", limit=1) == 1
        assert verbs.take(queue="here") == "a2"
        assert verbs.take(queue="there") == "a1"

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_as_new_a_line_keeps_its_order(self, two: LineVerbs, limit: int) -> None:
        two.put("a1 b1 a2 b2 a3", to="here")
        two.put("a9", to="there")
        while two.move("here", "there", limit=limit, as_new=True):
            two.now += 1
        assert two.take(queue="there") == "a9 a1 a2 a3 b1 b2"

    def test_as_new_it_stands_behind_those_there(self, two: LineVerbs) -> None:
        two.put("a1", to="here")
        two.put("a2", to="there")
        two.move("here", "there", as_new=True)
        assert two.take(1, queue="there") == "a2"
        assert two.take(queue="there") == ""

    def test_as_new_it_waits_for_the_delay_of_the_target(self, verbs: LineVerbs) -> None:
        verbs.create_fifo("here")
        verbs.create_fifo("there", delay_ms=100)
        verbs.put("a1", to="here")
        verbs.now += 5_000
        verbs.move("here", "there", as_new=True)
        verbs.now += 99
        assert verbs.take(queue="there") == ""
        verbs.now += 1
        assert verbs.take(queue="there") == "a1"

    @pytest.mark.parametrize("as_new", [False, True])
    def test_dead_letters_go_home_in_their_order(self, verbs: LineVerbs, as_new: bool) -> None:
        verbs.create_fifo("dead")
        for home in ("q", "p"):
            verbs.create_fifo(home, redrive=Redrive(1, "dead"))
            verbs.put("a1 b1 a2 a3", to=home)
            verbs.claim(hold_ms=0, queue=home)
            assert verbs.take(queue=home) == ""
        assert len(verbs.peek("dead")) == 8
        verbs.moves.start("dead", None, terms=MoveTerms(as_new=as_new))
        while verbs.moves.step(limit=3).status is MoveStatus.IN_PROGRESS:
            pass
        assert verbs.moves.find().moved == 8
        assert (verbs.take(queue="q"), verbs.take(queue="p")) == ("a1 a2 a3 b1", "a1 a2 a3 b1")

    @pytest.mark.parametrize("as_new", [False, True])
    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_a_move_that_chooses(self, two: LineVerbs, limit: int, as_new: bool) -> None:
        two.put("a1 b1 a2 b2 a3", to="here")
        two.claim(1, queue="here")
        two.now += 10
        two.put("a4 b3", to="here")
        terms = MoveTerms(selection=Selection(sent_until=two.now - 1), as_new=as_new)
        two.moves.start("here", "there", terms=terms)
        while two.moves.step(limit=limit).status is MoveStatus.IN_PROGRESS:
            pass
        assert two.moves.find().moved == 4
        assert two.take(queue="there") == "b1 b2 a2 a3"
        assert two.take(queue="here", hold_ms=50_000) == "b3"
        two.now += 1_000
        assert two.take(queue="here") == "a1 a4"

    @pytest.mark.parametrize("limits", [Limits(move_bytes=1), Limits(move_bytes=5)])
    def test_a_move_that_reads_bodies_comes_to_an_end(self, two: LineVerbs) -> None:
        two.put("a1 a2 b1 a3 b2 -1 a4", to="here")
        two.moves.start("here", "there", terms=MoveTerms(selection=Selection(text="a")))
        for _ in range(50):
            if two.moves.step(limit=3).status is MoveStatus.COMPLETE:
                break
        assert (two.moves.find().status, two.moves.find().moved) == (MoveStatus.COMPLETE, 4)
        assert two.take(queue="there") == "a1 a2 a3 a4"
        assert two.take(queue="here") == "b1 b2 -1"

    def test_a_delayed_head_goes_before_those_behind_it_when_a_move_chooses(self, verbs: LineVerbs) -> None:
        verbs.create_fifo("here", delay_ms=100)
        verbs.create_fifo("there")
        verbs.put("a1 a2 a3", to="here")
        verbs.moves.start("here", "there", terms=MoveTerms(limit=3, selection=Selection(max_receives=0), as_new=True))
        while verbs.moves.step(limit=1).status is MoveStatus.IN_PROGRESS:
            pass
        assert verbs.take(queue="there") == "a1 a2 a3"

    @pytest.mark.parametrize("as_new", [False, True])
    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_a_delayed_head_and_those_behind_it(self, verbs: LineVerbs, limit: int, as_new: bool) -> None:
        verbs.create_fifo("here", delay_ms=100)
        verbs.create_fifo("there")
        verbs.put("a1 a2 a3", to="here")
        while verbs.move("here", "there", limit=limit, as_new=as_new):
            pass
        assert verbs.take(queue="there") == "a1 a2 a3"

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_a_claimed_head_that_goes_along_and_those_behind_it(self, two: LineVerbs, limit: int) -> None:
        two.put("a1 a2 a3", to="here")
        two.claim(1, queue="here")
        while two.move("here", "there", limit=limit, claimed=True, as_new=True):
            pass
        assert two.take(queue="there") == "a1 a2 a3"

    @pytest.mark.parametrize("terms", [MoveTerms(as_new=True), MoveTerms(as_new=True, per_second=10)])
    @pytest.mark.parametrize("chosen", [False, True])
    def test_what_has_run_out_goes_by_its_age(self, two: LineVerbs, terms: MoveTerms, chosen: bool) -> None:
        """Someone has looked at some of them, and let the claims run out."""
        two.put("a1 a2 a3 a4 a5 a6", to="here")
        first, second, *_ = two.claim(4, queue="here")
        two.release(first, second)
        two.now += 1_000
        selection = Selection(max_receives=9) if chosen else Selection()
        two.moves.start("here", "there", terms=replace(terms, selection=selection))
        while two.moves.step(limit=1).status is MoveStatus.IN_PROGRESS:
            two.now += 1_000
        assert two.take(queue="there") == "a1 a2 a3 a4 a5 a6"


@pytest.mark.parametrize("limits", [Limits(step_rows=10, claim_rounds=2)])
def test_a_claim_that_stops_among_dead_messages_says_so(verbs: LineVerbs) -> None:
    verbs.create_fifo(retention_ms=100)
    verbs.put(" ".join(f"a{number}" for number in range(100)))
    verbs.now += 100
    verbs.put("a100 b1")
    claimed = verbs.claimed(limit=3)
    for _ in range(200):
        if not claimed.more:
            break
        claimed = verbs.claimed(limit=3)
    assert [message.body for message in claimed.messages] == [b"a100", b"b1"]
