"""Moves that choose: filters, limits, a pace, dry runs, and dead letters on their way home."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import MoveConflict, MoveNotFound
from penstock.limits import Limits
from penstock.model import Draft, JsonValue, MoveStatus, MoveTerms, Redrive, Selection

pytestmark = pytest.mark.needs("moves", "redrive")


class Lost(Exception):
    pass


@pytest.fixture
def two(verbs):
    verbs.create("here")
    verbs.create("there")
    return verbs


@pytest.fixture
def dead(verbs):
    """Two queues whose messages have all become dead letters."""
    verbs.create("dead")
    for name in ("a", "b"):
        verbs.create(name, redrive=Redrive(1, "dead"))
        verbs.send(f"{name}1".encode(), f"{name}2".encode(), to=name)
        verbs.claim(queue=name, hold_ms=0)
        verbs.claim(queue=name)
    return verbs


def chosen(**selection) -> MoveTerms:
    return MoveTerms(Selection(**selection))


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_only_what_is_meant_moves(two, limit):
    two.send(*(b"%d" % number for number in range(10)), to="here")
    two.send(Draft(b"5 later", delay_ms=60_000), to="here")
    two.moves.start("here", "there", terms=chosen(text="5"))
    moved = two.end_move(limit)
    assert (moved.examined, moved.matched, moved.moved, moved.status) == (11, 2, 2, MoveStatus.COMPLETE)
    assert two.seen("there") == [b"5", b"5 later"]
    assert two.count("there").delayed == 1
    assert two.seen("here") == [b"%d" % number for number in range(10) if number != 5]


def test_every_condition_holds(two):
    two.send(Draft(b'{"n": 1}', "application/json"), b'{"n": 1}', Draft(b'{"n": 2}', "application/json"), to="here")
    two.now += 100
    two.send(Draft(b'{"n": 1, "late": 1}', "application/json"), to="here")
    terms = chosen(sent_until=two.now - 1, content_type="application/json", json=JsonValue("$.n", 1), max_receives=0)
    two.moves.start("here", "there", terms=terms)
    assert two.end_move().moved == 1
    assert two.seen("there") == [b'{"n": 1}']


def test_messages_received_often_are_told_from_others(two):
    two.send(b"1", b"2", to="here")
    two.claim(queue="here", limit=1, hold_ms=10)
    two.now += 10
    two.moves.start("here", "there", terms=chosen(min_receives=1))
    assert two.end_move().moved == 1
    assert two.seen("there") == [b"1"]
    assert [message.receives for message in two.peek("there")] == [0]


def test_claimed_messages_stay_and_are_not_counted(two):
    two.send(b"x1", b"x2", to="here")
    two.claim(queue="here", limit=1)
    two.moves.start("here", "there", terms=chosen(text="x"))
    moved = two.end_move()
    assert (moved.examined, moved.matched, moved.moved) == (2, 1, 1)
    assert two.seen("here") == [b"x1"]


def test_what_is_sent_after_the_start_stays(two):
    two.send(b"x", to="here")
    two.moves.start("here", "there", terms=chosen(text="x"))
    two.send(b"x later", Draft(b"x delayed", delay_ms=5), to="here")
    assert two.end_move().moved == 1
    assert two.count("here").total == 2


def test_a_delay_that_ends_meanwhile_hides_nothing(two):
    two.send(Draft(b"x", delay_ms=50), *(b"%d" % number for number in range(5)), to="here")
    two.moves.start("here", "there", terms=chosen(text="x"))
    for _ in range(3):
        two.moves.step(limit=1)
    two.now += 50
    two.claim(queue="here", limit=1, hold_ms=0)  # which makes it ready
    two.end_move(1)
    assert two.seen("there") == [b"x"]


@pytest.mark.parametrize("limits", [Limits(move_bytes=100)])
def test_large_attributes_keep_no_message_from_being_read(two):
    two.send(*(Draft(b"yes %d" % number, attributes={"k": "v" * 200}) for number in range(5)), to="here")
    two.moves.start("here", "there", terms=chosen(text="yes"))
    assert two.end_move().moved == 5
    assert two.seen("here") == []


@pytest.mark.parametrize("limits", [Limits(move_bytes=10)])
def test_bodies_are_read_a_few_at_a_time(two):
    two.send(*(b"x" * size for size in (4, 4, 4, 25, 1, 11, 0)), b"y" * 30, to="here")
    two.moves.start("here", "there", terms=chosen(text="x"))
    two.moves.step()
    assert two.moves.step().examined == 3
    assert two.end_move().moved == 6
    assert two.seen("here") == [b"", b"y" * 30]


def test_at_most_as_many_as_the_limit_says(two):
    two.send(*(b"%d" % number for number in range(6)), to="here")
    for move_id, target, terms in (
        ("whole", "there", MoveTerms(limit=2)),
        ("chosen", "there", MoveTerms(Selection(text=""), limit=3)),
    ):
        two.moves.start("here", target, move_id, terms=terms)
        while two.moves.step(move_id, limit=2).status is MoveStatus.IN_PROGRESS:
            pass
        assert two.moves.find(move_id).moved == terms.limit
    assert two.seen("here") == [b"5"]


@pytest.mark.parametrize("selection", [Selection(), Selection(text="")])
@pytest.mark.parametrize(("per_second", "a_step", "pause"), [(1, 1, 1_000), (5, 1, 200), (40, 4, 100), (3, 1, 334)])
def test_a_pace(two, selection, per_second, a_step, pause):
    two.send(*(b"%d" % number for number in range(9)), to="here")
    two.moves.start("here", "there", terms=MoveTerms(selection, per_second=per_second))
    begun = two.now
    while not two.moves.step().moved:
        pass
    assert two.moves.find().moved == a_step
    two.now += pause - 1
    assert two.moves.step().moved == a_step  # too early
    two.now += 1
    assert two.moves.step().moved == 2 * a_step
    assert two.end_move().moved == 9
    assert two.now - begun >= 8 * 1_000 // per_second - 100


def test_a_clock_that_was_set_back_stops_no_move(two):
    two.send(b"1", b"2", to="here")
    two.moves.start("here", "there", terms=MoveTerms(per_second=1))
    two.moves.step()
    two.now -= 3_600_000
    assert two.moves.step().moved == 2


def test_a_dry_run_only_counts(two):
    two.send(b"x1", b"y", b"x2", to="here")
    before = two.peek("here")
    two.moves.start("here", "there", terms=MoveTerms(Selection(text="x"), dry_run=True))
    counted = two.end_move(2)
    assert (counted.examined, counted.matched, counted.moved) == (3, 2, 0)
    assert (two.peek("here"), two.seen("there")) == (before, [])


def test_a_dry_run_of_everything_with_a_limit(two):
    two.send(*(b"%d" % number for number in range(5)), to="here")
    two.moves.start("here", "there", terms=MoveTerms(limit=3, dry_run=True))
    assert two.end_move().matched == 3


def test_a_dry_run_is_in_no_ones_way(two):
    two.moves.start("here", "there", "dry", terms=MoveTerms(dry_run=True))
    two.moves.start("here", "there", "first")
    two.moves.start("here", "there", "dry too", terms=MoveTerms(dry_run=True))
    with pytest.raises(MoveConflict, match="'here' or 'there'"):
        two.moves.start("here", "there", "second")
    with pytest.raises(MoveConflict, match="'there'"):
        two.moves.start("there", None, "third")


def test_a_cancelled_move_moves_nothing_further(two):
    two.send(b"1", b"2", b"3", to="here")
    two.moves.start("here", "there")
    two.moves.step(limit=1)
    two.now += 5
    cancelled = two.moves.cancel()
    assert (cancelled.status, cancelled.moved, cancelled.finished_at) == (MoveStatus.CANCELLED, 1, two.now)
    assert two.moves.step() == two.moves.cancel() == two.moves.find() == cancelled
    assert two.seen("here") == [b"2", b"3"]
    assert two.moves.unfinished() == []
    two.moves.start("here", "there", "again")


def test_one_that_has_ended_cannot_be_cancelled(two):
    two.moves.start("here", "there")
    ended = two.moves.step()
    assert two.moves.cancel() == ended
    with pytest.raises(MoveNotFound):
        two.moves.cancel("nothing")


def test_moves_are_listed_the_latest_first(two):
    for number, terms in enumerate((MoveTerms(dry_run=True), chosen(text="x"))):
        two.now += 1
        two.moves.start("here", "there", f"m{number}", terms=terms)
    assert [(move.id, move.terms) for move in two.moves.list()] == [
        ("m1", chosen(text="x")),
        ("m0", MoveTerms(dry_run=True)),
    ]
    assert [move.id for move in two.moves.list(1)] == ["m1"]


def test_terms_are_kept_as_they_are(two):
    terms = MoveTerms(
        Selection(1, 2, 3, 4, "text/plain; x=1", 'é"\\', JsonValue('$["é"][0]', 1.5)), limit=5, per_second=6
    )
    two.moves.start("here", None, terms=terms)
    assert (two.moves.find().terms, two.moves.find().target) == (terms, None)


# Home


def test_dead_letters_know_where_they_came_from(dead):
    assert [(one.body, one.came_from) for one in dead.peek("dead")] == [
        (b"a1", "a"),
        (b"a2", "a"),
        (b"b1", "b"),
        (b"b2", "b"),
    ]
    assert [message.came_from for message in dead.claim(queue="dead", limit=3)] == ["a", "a", "b"]


@pytest.mark.parametrize("limit", [1, 3, 1_000])
def test_dead_letters_go_home(dead, limit):
    dead.send(b"sent here", to="dead")
    dead.moves.start("dead", None)
    moved = dead.end_move(limit)
    assert (moved.examined, moved.matched, moved.moved, moved.homeless) == (5, 5, 4, 1)
    assert (dead.seen("a"), dead.seen("b"), dead.seen("dead")) == ([b"a1", b"a2"], [b"b1", b"b2"], [b"sent here"])
    assert {(one.came_from, one.receives) for name in ("a", "b") for one in dead.peek(name)} == {(None, 0)}


def test_those_without_a_home_any_more_stay(dead):
    dead.delete("b")
    dead.moves.start("dead", None)
    moved = dead.end_move()
    assert (moved.moved, moved.homeless, moved.status) == (2, 2, MoveStatus.COMPLETE)
    assert dead.seen("dead") == [b"b1", b"b2"]
    dead.create("b")  # a queue of that name is a home
    dead.moves.start("dead", None, "again")
    dead.moves.step(move_id="again")
    dead.moves.step(move_id="again")
    assert dead.moves.find("again").moved == 2


def test_a_choice_goes_home(dead):
    dead.moves.start("dead", None, terms=chosen(text="2"))
    assert dead.end_move().moved == 2
    assert (dead.seen("a"), dead.seen("b"), dead.seen("dead")) == ([b"a2"], [b"b2"], [b"a1", b"b1"])


def test_a_dry_run_counts_the_homeless(dead):
    dead.send(b"sent here", to="dead")
    dead.moves.start("dead", None, terms=MoveTerms(dry_run=True))
    counted = dead.end_move()
    assert (counted.matched, counted.moved, counted.homeless) == (5, 0, 1)


def test_a_dead_letter_remembers_through_other_queues(dead):
    dead.create("shelf")
    assert dead.move("dead", "shelf") == 4
    assert {one.came_from for one in dead.peek("shelf")} == {"a", "b"}
    assert dead.move("shelf", "a") == 4
    assert [one.came_from for one in dead.peek("a")] == [None, None, "b", "b"]


def test_no_message_comes_from_a_queue_that_is_its_own_dead_letter_queue(verbs):
    verbs.create("own")
    verbs.update("own", redrive=Redrive(1, "own"))
    verbs.send(b"x", to="own")
    verbs.claim(queue="own", hold_ms=0)
    verbs.claim(queue="own")
    assert [one.came_from for one in verbs.peek("own")] == [None]


@pytest.mark.parametrize("terms", [MoveTerms(), chosen(text="")])
def test_a_lost_step_has_moved_nothing(dead, terms):
    dead.moves.start("dead", None, terms=terms)
    with suppress(Lost), dead.store.unit() as unit:
        unit.moves.step("m", dead.now, 1_000)
        unit.moves.step("m", dead.now, 1_000)
        raise Lost
    assert dead.moves.find().examined == 0
    assert len(dead.seen("dead")) == 4
    assert dead.end_move().moved == 4


def test_a_target_that_is_gone_is_an_error(two):
    two.send(b"x", to="here")
    two.moves.start("here", "there", terms=chosen(text="x"))
    two.delete("there")
    ended = two.end_move()
    assert (ended.status, ended.error) == (MoveStatus.ERROR, "queue 'there' does not exist")
    assert two.seen("here") == [b"x"]
