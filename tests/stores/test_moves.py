"""Moves of whole queues, remembered from step to step."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import MoveConflict, MoveNotFound
from penstock.limits import Limits
from penstock.model import Dedup, Draft, Move, MoveStatus, MoveTerms, Outcome, Redrive, Selection

pytestmark = pytest.mark.needs("moves")


class Lost(Exception):
    pass


@pytest.fixture
def two(verbs):
    verbs.create("here")
    verbs.create("there")
    return verbs


def test_a_new_move_is_in_progress_and_has_moved_nothing(two):
    two.send(b"x", to="here")
    assert two.moves.find() is None
    started = two.moves.start("here", "there")
    assert started == Move("m", "here", "there", two.last_seq(), two.now, total=1)
    assert two.moves.find() == started
    assert started.status is MoveStatus.IN_PROGRESS
    assert two.seen("here") == [b"x"]


def test_steps_until_nothing_is_left(two):
    two.send(*(b"%d" % n for n in range(5)), to="here")
    two.moves.start("here", "there")
    assert [two.moves.step(limit=2).moved for _ in range(3)] == [2, 4, 5]
    assert two.moves.find().status is MoveStatus.IN_PROGRESS
    two.now += 7
    last = two.moves.step(limit=2)
    assert (last.moved, last.status, last.finished_at, last.error) == (5, MoveStatus.COMPLETE, two.now, None)
    assert two.seen("here") == []
    assert two.seen("there") == [b"%d" % n for n in range(5)]


def test_a_step_after_the_end_changes_nothing(two):
    two.moves.start("here", "there")
    ended = two.moves.step()
    two.send(b"x", to="here")
    two.now += 1
    assert two.moves.step() == ended
    assert two.seen("here") == [b"x"]


def test_what_is_sent_after_the_start_stays(two):
    two.send(b"before", to="here")
    two.moves.start("here", "there")
    two.send(b"after", to="here")
    assert two.end_move().moved == 1
    assert two.seen("here") == [b"after"]
    assert two.seen("there") == [b"before"]


def test_claimed_messages_stay_and_delayed_ones_go(two):
    two.send(b"claimed", to="here")
    two.claim(queue="here", hold_ms=1_000)
    two.send(Draft(b"delayed", delay_ms=50), b"ready", to="here")
    two.moves.start("here", "there")
    assert two.end_move(limit=1).moved == 2
    assert two.seen("here") == [b"claimed"]
    assert two.seen("there") == [b"ready", b"delayed"]


def test_claimed_messages_go_along_when_asked(two):
    two.send(b"claimed", to="here")
    two.claim(queue="here", hold_ms=1_000)
    two.send(b"ready", to="here")
    assert two.moves.start("here", "there", claimed=True).claimed
    assert two.end_move(limit=1).moved == 2
    assert two.moves.find().claimed
    assert two.seen("there") == [b"claimed", b"ready"]


def test_twins_count_as_moved(verbs):
    verbs.create("here")
    verbs.create("there", dedup=Dedup.SEND)
    verbs.send(b"x", b"x", b"y", to="here")
    verbs.moves.start("here", "there")
    assert verbs.end_move().moved == 3
    assert verbs.seen("there") == [b"x", b"y"]


def test_no_source_is_nothing_to_do(two):
    two.moves.start("nowhere", "there")
    assert two.moves.step().status is MoveStatus.COMPLETE


def test_a_source_deleted_meanwhile_is_nothing_more_to_do(two):
    two.send(b"1", b"2", to="here")
    two.moves.start("here", "there")
    two.moves.step(limit=1)
    two.delete("here")
    assert (two.moves.step().status, two.moves.find().moved) == (MoveStatus.COMPLETE, 1)


def test_a_target_deleted_meanwhile_is_an_error_and_the_rest_stays(two):
    two.send(b"1", b"2", b"3", to="here")
    two.moves.start("here", "there")
    two.moves.step(limit=1)
    two.delete("there")
    two.now += 3
    failed = two.moves.step(limit=1)
    assert (failed.status, failed.moved, failed.finished_at) == (MoveStatus.ERROR, 1, two.now)
    assert "'there'" in failed.error
    assert two.moves.step(limit=1) == failed
    assert two.seen("here") == [b"2", b"3"]


def test_a_target_made_again_takes_the_rest(two):
    two.send(b"1", b"2", to="here")
    two.moves.start("here", "there")
    two.moves.step(limit=1)
    two.delete("there")
    two.create("there")
    assert two.end_move().status is MoveStatus.COMPLETE
    assert two.seen("there") == [b"2"]


def test_an_unknown_move(verbs):
    assert verbs.moves.find("no") is None
    with pytest.raises(MoveNotFound):
        verbs.moves.step(move_id="no")


def test_unfinished_moves_in_the_order_of_their_start(two):
    for source, name in (("here", "z"), ("nowhere", "a"), ("elsewhere", "m")):
        two.moves.start(source, "there", name)
        two.now += 1
    assert two.moves.unfinished() == ["z", "a", "m"]
    two.moves.step(move_id="a")
    assert two.moves.unfinished() == ["z", "m"]


def test_a_lost_unit_has_neither_moved_nor_counted(two):
    two.send(b"1", b"2", to="here")
    two.moves.start("here", "there")
    with suppress(Lost), two.unit() as unit:
        assert unit.moves.step("m", two.now, 1).moved == 1
        raise Lost
    assert two.moves.find().moved == 0
    assert two.seen("here") == [b"1", b"2"]


def test_a_lost_unit_has_not_started_one(two):
    with suppress(Lost), two.unit() as unit:
        unit.moves.start("m", "here", "there", two.now)
        raise Lost
    assert two.moves.find() is None
    assert two.moves.unfinished() == []


def test_an_ended_move_is_kept_for_a_day_and_an_unfinished_one_forever(two):
    two.moves.start("here", "there", "ended")
    two.moves.start("elsewhere", "there", "open")
    two.moves.step(move_id="ended")
    two.now += Limits().move_kept_ms
    two.sweep()
    assert two.moves.find("ended") is not None
    two.now += 1
    assert two.sweep() == 1
    assert two.moves.find("ended") is None
    two.now += 10 * Limits().move_kept_ms
    assert two.sweep() == 0
    assert two.moves.find("open") is not None


def test_the_target_is_stirred(two):
    two.send(b"x", to="here")
    two.moves.start("here", "there")
    two.moves.step()
    assert "there" in two.stirred


@pytest.mark.parametrize("second", [("here", "other"), ("there", "other"), ("other", "here")])
def test_a_queue_takes_part_in_one_move_at_a_time(two, second):
    two.moves.start("here", "there", "first")
    with pytest.raises(MoveConflict):
        two.moves.start(*second, "second")
    assert two.moves.find("second") is None
    two.moves.step(move_id="first")
    two.moves.start(*second, "second")


def test_two_moves_may_have_one_target(two):
    two.moves.start("here", "there", "first")
    two.moves.start("other", "there", "second")
    assert two.moves.unfinished() == ["first", "second"]


class TestTotal:
    """How many messages the source held when the move started."""

    def test_in_any_state(self, two):
        two.send(b"claimed", to="here")
        two.claim(queue="here")
        two.send(b"ready", Draft(b"delayed", delay_ms=100), to="here")
        assert two.moves.start("here", "there").total == 3

    def test_it_stays_as_it_was(self, two):
        two.send(b"1", b"2", b"3", to="here")
        two.moves.start("here", "there")
        two.send(b"4", to="here")
        assert two.moves.step(limit=2).total == 3
        assert two.end_move().total == 3
        assert two.moves.find().total == two.moves.list()[0].total == 3
        assert two.moves.find().moved == 3

    def test_of_an_empty_queue(self, two):
        assert two.moves.start("here", "there").total == 0

    def test_of_a_queue_that_is_not_there(self, two):
        assert two.moves.start("nowhere", "there").total == 0

    def test_whichever_are_meant(self, two):
        two.send(b"1", b"2", to="here")
        terms = MoveTerms(selection=Selection(text="1"), limit=1, dry_run=True)
        assert two.moves.start("here", "there", terms=terms).total == 2

    def test_of_many(self, two):
        two.send(*([b"x"] * 700), to="here")
        assert two.moves.start("here", None).total == 700


class TestAsNew:
    def test_step_by_step(self, two):
        before = [one.id for one in two.send(*(b"%d" % n for n in range(5)), to="here")]
        two.now += 1_000
        started = two.moves.start("here", "there", terms=MoveTerms(as_new=True))
        assert started.terms.as_new
        assert two.moves.find().terms == MoveTerms(as_new=True)
        assert two.end_move(limit=2).moved == 5
        after = two.peek("there")
        assert [message.body for message in after] == [b"%d" % n for n in range(5)]
        assert {message.sent_at for message in after} == {two.now}
        assert not {message.id for message in after}.intersection(before)

    def test_what_has_arrived_is_not_taken_again(self, verbs):
        """Its number is beyond the end of the move, also where a move goes back."""
        verbs.create("here")
        verbs.create("there")
        verbs.send(b"1", b"2", to="here")
        verbs.moves.start("here", "there", terms=MoveTerms(as_new=True))
        assert verbs.end_move(limit=1).moved == 2
        verbs.moves.start("there", "here", "back", terms=MoveTerms(as_new=True))
        while verbs.moves.step(move_id="back", limit=1).status is MoveStatus.IN_PROGRESS:
            pass
        assert verbs.moves.find("back").moved == 2
        assert verbs.seen("here") == [b"1", b"2"]

    def test_those_that_are_chosen(self, two):
        two.send(b"yes 1", b"no", b"yes 2", to="here")
        two.now += 10
        two.moves.start("here", "there", terms=MoveTerms(selection=Selection(text="yes"), as_new=True))
        assert two.end_move(limit=1).moved == 2
        assert [(one.body, one.sent_at) for one in two.peek("there")] == [(b"yes 1", two.now), (b"yes 2", two.now)]
        assert two.seen("here") == [b"no"]

    def test_dead_letters_go_home_as_new(self, verbs):
        verbs.create("dead")
        verbs.create("a", redrive=Redrive(1, "dead"))
        verbs.create("b", redrive=Redrive(1, "dead"))
        for home in ("a", "b"):
            verbs.send(home.encode(), to=home)
            verbs.claim(hold_ms=0, queue=home)
            verbs.claim(queue=home)
        verbs.now += 1_000
        verbs.moves.start("dead", None, terms=MoveTerms(as_new=True))
        assert verbs.end_move().moved == 2
        for home in ("a", "b"):
            [message] = verbs.claim(queue=home)
            assert (message.body, message.sent_at, message.came_from) == (home.encode(), verbs.now, None)
            assert (message.receives, message.claim) == (1, 1)

    def test_one_older_than_the_retention_of_its_home_survives(self, verbs):
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"), retention_ms=10_000)
        verbs.send(b"x")
        verbs.claim(hold_ms=0)
        verbs.claim()
        verbs.now += 20_000
        verbs.moves.start("dead", None, terms=MoveTerms(as_new=True))
        verbs.end_move()
        verbs.now += 9_999
        assert verbs.bodies(hold_ms=0) == [b"x"]
        verbs.now += 1
        assert verbs.bodies() == []
        assert verbs.outcomes()[-1] is Outcome.EXPIRED

    def test_a_dry_run_changes_nothing(self, two):
        two.send(b"1", b"2", to="here")
        before = two.peek("here")
        two.moves.start("here", "there", terms=MoveTerms(as_new=True, dry_run=True))
        assert two.end_move().matched == 2
        assert two.peek("here") == before
        assert two.seen("there") == []
