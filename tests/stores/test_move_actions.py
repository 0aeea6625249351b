"""Moves that delete or release messages instead, and those that mean claimed ones."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import MoveConflict
from penstock.limits import Limits
from penstock.model import (
    Draft,
    Groups,
    MessageState,
    MoveAction,
    MoveStatus,
    MoveTerms,
    Outcome,
    Selection,
    WantedAttribute,
)

pytestmark = pytest.mark.needs("moves", "messages", "receives")


def deleting(limit=None, per_second=None, dry_run=False, **selection) -> MoveTerms:
    return MoveTerms(Selection(**selection), limit, per_second, dry_run, action=MoveAction.DELETE)


def releasing(limit=None, per_second=None, dry_run=False, **selection) -> MoveTerms:
    return MoveTerms(Selection(**selection), limit, per_second, dry_run, action=MoveAction.RELEASE)


def run(verbs, terms, limit=1_000, claimed=False):
    verbs.moves.start("q", None, terms=terms, claimed=claimed)
    return verbs.end_move(limit)


def counted(move) -> tuple[int, int, int]:
    return move.examined, move.matched, move.moved


@pytest.fixture
def mixed(verbs):
    """A claimed, a ready and a delayed message."""
    verbs.create()
    verbs.send(b"claimed", b"ready", Draft(b"delayed", delay_ms=60_000))
    verbs.claim(limit=1)
    return verbs


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_what_is_selected_is_deleted(verbs, limit):
    verbs.create()
    verbs.send(*(b"%d" % number for number in range(10)))
    verbs.send(Draft(b"5 later", delay_ms=60_000))
    deleted = run(verbs, deleting(text="5"), limit)
    assert (counted(deleted), deleted.status, deleted.homeless) == ((11, 2, 2), MoveStatus.COMPLETE, 0)
    assert verbs.seen() == [b"%d" % number for number in range(10) if number != 5]
    assert verbs.outcomes() == [Outcome.PURGED] * 2


def test_without_a_selection_all_that_is_free_is_deleted(mixed):
    assert counted(run(mixed, deleting())) == (3, 2, 2)
    assert mixed.seen() == [b"claimed"]


def test_what_is_sent_later_stays(mixed):
    mixed.moves.start("q", None, terms=deleting())
    mixed.send(b"later")
    mixed.end_move()
    assert mixed.seen() == [b"later", b"claimed"]


def test_claimed_messages_are_deleted_when_they_are_asked_for(mixed):
    assert counted(run(mixed, deleting(state=MessageState.CLAIMED))) == (2, 1, 1)
    assert mixed.seen() == [b"ready", b"delayed"]


def test_claimed_messages_are_deleted_along_with_the_others(mixed):
    assert run(mixed, deleting(), claimed=True).moved == 3
    assert mixed.seen() == []


def test_claimed_messages_move_when_they_are_asked_for(mixed):
    mixed.create("there")
    mixed.moves.start("q", "there", terms=MoveTerms(Selection(state=MessageState.CLAIMED)))
    assert mixed.end_move().moved == 1
    assert mixed.bodies(queue="there") == [b"claimed"]


@pytest.mark.parametrize(
    ("state", "left"),
    [("ready", [b"delayed", b"claimed"]), ("delayed", [b"ready", b"claimed"]), ("claimed", [b"ready", b"delayed"])],
)
def test_one_state_is_meant_alone(mixed, state, left):
    mixed.renew(*mixed.peek()[1:2], until=mixed.now + 90_000)
    assert run(mixed, deleting(state=MessageState(state))).moved == 1
    assert mixed.seen() == left


def test_an_attribute_is_meant(verbs):
    verbs.create()
    verbs.send(Draft(b"1", None, {"kind": "a"}), Draft(b"2", None, {"kind": "b"}), b"3")
    assert counted(run(verbs, deleting(attribute=WantedAttribute("kind", "b")))) == (3, 1, 1)
    assert verbs.seen() == [b"1", b"3"]


def test_an_attribute_of_any_value_is_meant(verbs):
    verbs.create()
    verbs.send(Draft(b"1", None, {"kind": "a"}), Draft(b"2", None, {"kind": ""}), b"3")
    assert run(verbs, deleting(attribute=WantedAttribute("kind"))).moved == 2
    assert verbs.seen() == [b"3"]


def test_a_dry_run_counts_and_deletes_nothing(mixed):
    assert counted(run(mixed, deleting(dry_run=True))) == (3, 2, 0)
    assert mixed.count().total == 3


def test_a_limit_and_a_pace_hold(verbs):
    verbs.create()
    verbs.send(*(b"%d" % number for number in range(30)))
    began = verbs.now
    assert run(verbs, deleting(limit=20, per_second=10)).moved == 20
    assert verbs.now - began == 1_900
    assert verbs.count().total == 10


def test_claims_end(verbs):
    verbs.create()
    verbs.send(b"1 a", b"2 b", b"3 a", b"4 a", Draft(b"5 a", delay_ms=60_000))
    held = verbs.claim(limit=3)
    released = run(verbs, releasing(text="a"), limit=2)
    assert (counted(released), released.status) == ((4, 2, 2), MoveStatus.COMPLETE)
    count = verbs.count()
    assert (count.ready, count.delayed, count.claimed) == (3, 1, 1)
    assert verbs.bodies() == [b"1 a", b"3 a", b"4 a"]
    assert verbs.ack(*held) == [False, True, False]
    assert verbs.outcomes() == [Outcome.PROCESSED]


def test_those_who_wait_are_told_of_what_was_released(verbs):
    verbs.create()
    verbs.send(b"1")
    verbs.claim()
    verbs.moves.start("q", None, terms=releasing())
    verbs.moves.step()
    assert verbs.stirred == {"q"}


def test_a_dry_run_releases_nothing(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.claim(limit=1)
    assert counted(run(verbs, releasing(dry_run=True))) == (1, 1, 0)
    assert verbs.count().claimed == 1


def test_a_claim_that_begins_meanwhile_is_left_alone(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    verbs.claim(limit=2)
    verbs.moves.start("q", None, terms=releasing())
    verbs.now += 10
    assert verbs.moves.step(limit=1).moved == 1
    assert verbs.bodies() == [b"1", b"3"]
    assert verbs.end_move(1).moved == 2
    assert [message.body for message in verbs.peek() if message.ready_at == 0] == [b"2"]


@pytest.mark.needs("shipments")
@pytest.mark.parametrize("terms", [deleting(), releasing(), deleting(state=MessageState.CLAIMED)])
def test_a_shipment_keeps_its_messages(verbs, terms):
    verbs.create()
    verbs.send(b"1")
    verbs.ship()
    assert run(verbs, terms, claimed=True).moved == 0
    assert verbs.shipped() == [b"1"]


def test_lines_stay_in_order(verbs):
    verbs.create(groups=Groups.FIFO)
    verbs.send(*(Draft(b"%d" % number, group="g") for number in range(4)))
    verbs.claim(limit=1)
    assert run(verbs, deleting(text="1")).moved == 1
    verbs.moves.start("q", None, terms=releasing(), move_id="n")
    verbs.moves.step(move_id="n")
    verbs.moves.step(move_id="n")
    assert verbs.bodies(limit=1) == [b"0"]
    assert verbs.seen() == [b"0", b"2", b"3"]


def test_one_at_a_time(verbs):
    verbs.create()
    verbs.create("there")
    verbs.send(b"1")
    verbs.moves.start("q", None, terms=deleting())
    for source, target, terms in (("q", None, releasing()), ("q", "there", MoveTerms()), ("there", "q", MoveTerms())):
        with pytest.raises(MoveConflict):
            verbs.moves.start(source, target, terms=terms, move_id="n")
    verbs.moves.start("q", None, terms=deleting(dry_run=True), move_id="n")


def test_cancelled_it_deletes_nothing_further(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    verbs.moves.start("q", None, terms=deleting())
    verbs.moves.step(limit=1)
    verbs.moves.step(limit=1)
    assert verbs.moves.cancel().status is MoveStatus.CANCELLED
    assert verbs.moves.step().status is MoveStatus.CANCELLED
    assert verbs.seen() == [b"2", b"3"]


class Lost(Exception):
    pass


def test_a_lost_step_is_done_again(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.moves.start("q", None, terms=deleting(text="1"))
    with suppress(Lost), verbs.unit() as unit:
        unit.moves.step("m", verbs.now, 100)
        unit.moves.step("m", verbs.now, 100)
        raise Lost
    assert counted(verbs.end_move()) == (2, 1, 1)
    assert verbs.seen() == [b"2"]


def test_what_it_is_told_comes_back(verbs):
    verbs.create()
    terms = deleting(3, 4, state=MessageState.DELAYED, attribute=WantedAttribute("kind"))
    verbs.moves.start("q", None, terms=terms, claimed=True)
    found = verbs.moves.find()
    assert (found.terms, found.claimed, found.target) == (terms, True, None)
    assert verbs.moves.list() == [found]


def test_a_source_that_is_gone_ends_it(verbs):
    verbs.create()
    verbs.moves.start("q", None, terms=releasing())
    verbs.delete()
    assert verbs.end_move().status is MoveStatus.COMPLETE


@pytest.mark.parametrize("limits", [Limits(move_bytes=10)])
def test_a_step_reads_no_more_than_it_may(verbs):
    verbs.create()
    verbs.send(*(b"%d2345678" % number for number in range(6)))
    verbs.moves.start("q", None, terms=deleting(text="5"))
    verbs.moves.step()
    assert verbs.moves.step().moved == 2
    assert verbs.end_move().moved == 6


@pytest.mark.parametrize("terms", [releasing(), deleting(text="1"), MoveTerms(Selection(text="1"))])
def test_claims_that_go_on_do_not_keep_it_from_its_end(verbs, terms):
    verbs.create()
    verbs.create("there")
    verbs.send(*(b"%d" % number for number in range(30)))
    verbs.claim(limit=1)
    verbs.moves.start("q", "there" if terms.action is MoveAction.MOVE else None, terms=terms)
    for _ in range(10):
        verbs.now += 1
        verbs.claim(limit=1)
        if verbs.moves.step(limit=100).status is MoveStatus.COMPLETE:
            return
    pytest.fail("it goes on as long as messages are claimed")
