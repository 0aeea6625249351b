"""Messages that a caller names by their ids: deleted, and moved."""

from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.model import Dealing, Dedup, Draft, Groups, Outcome, Redrive

pytestmark = pytest.mark.needs("messages", "moves", "receives")

DONE, MISSING, SHIPPED, HOMELESS = Dealing.DONE, Dealing.MISSING, Dealing.SHIPPED, Dealing.HOMELESS


@pytest.fixture
def two(verbs):
    verbs.create()
    verbs.create("there")
    return verbs


def sent_ids(verbs, *drafts, to="q") -> list[str]:
    return [sent.id for sent in verbs.send(*drafts, to=to)]


def test_messages_are_deleted_whatever_their_state(two):
    claimed, ready, delayed, stays = sent_ids(two, b"1", b"2", Draft(b"3", delay_ms=60_000), b"4")
    [held] = two.claim(limit=1)
    assert two.messages.delete([delayed, claimed.upper(), ready]) == [DONE, DONE, DONE]
    assert [message.id for message in two.peek()] == [stays]
    assert two.outcomes() == [Outcome.PURGED] * 3
    assert two.ack(held) == [False]
    assert two.messages.delete([claimed, stays]) == [MISSING, DONE]


def test_one_named_twice_is_missing_the_second_time(two):
    [one] = sent_ids(two, b"1")
    assert two.messages.delete([one, one, "nonsense", ""]) == [DONE, MISSING, MISSING, MISSING]


def test_what_is_elsewhere_is_missing(two):
    [here] = sent_ids(two, b"1")
    [there] = sent_ids(two, b"2", to="there")
    assert two.messages.delete([there, here[:9] + "0000" + here[13:]]) == [MISSING, MISSING]
    assert two.moves.move_named([there], "there") == [MISSING]
    assert (two.seen(), two.seen("there")) == ([b"1"], [b"2"])
    for queue, target in (("none", "q"), ("q", "none")):
        with pytest.raises(QueueNotFound):
            two.moves.move_named([here], target, queue=queue)
    with pytest.raises(QueueNotFound):
        two.messages.delete([here], queue="none")


def test_nothing_is_asked_of_none(two):
    assert two.messages.delete([]) == []
    assert two.moves.move_named([], "there") == []


@pytest.mark.needs("shipments")
def test_a_shipment_keeps_its_messages(two):
    shipped, free = sent_ids(two, b"1", b"2")
    two.ship(limit=1)
    assert two.messages.delete([shipped]) == [SHIPPED]
    assert two.moves.move_named([shipped, free], "there") == [SHIPPED, DONE]
    assert two.shipped() == [b"1"]


def test_messages_move_whatever_their_state(two):
    claimed, ready, delayed, stays = sent_ids(two, b"1", b"2", Draft(b"3", delay_ms=60_000), b"4")
    two.claim(limit=1)
    assert two.moves.move_named([delayed, ready, claimed], "there") == [DONE, DONE, DONE]
    assert two.stirred == {"there"}
    assert [(message.id, message.receives) for message in two.peek("there")] == [
        (claimed, 0),
        (ready, 0),
        (delayed, 0),
    ]
    count = two.count("there")
    assert (count.ready, count.delayed, count.claimed) == (2, 1, 0)
    assert [message.id for message in two.peek()] == [stays]
    assert two.outcomes() == [Outcome.MOVED] * 3


def test_as_new_they_have_new_ids(two):
    [one] = sent_ids(two, b"1")
    two.now += 1_000
    assert two.moves.move_named([one], "there", as_new=True) == [DONE]
    [arrived] = two.peek("there")
    assert (arrived.id != one, arrived.sent_at) == (True, two.now)


@pytest.mark.needs("dedup")
def test_a_twin_of_one_in_the_target_finishes(two):
    two.update("there", dedup=Dedup.SEND)
    [one] = sent_ids(two, b"1")
    two.send(b"1", to="there")
    assert two.moves.move_named([one], "there") == [DONE]
    assert (two.seen(), two.seen("there")) == ([], [b"1"])


def test_into_its_own_queue_nothing_moves(two):
    [one] = sent_ids(two, b"1")
    assert two.moves.move_named([one], "q") == [HOMELESS]
    assert two.seen() == [b"1"]


@pytest.mark.needs("redrive")
def test_dead_letters_go_home(verbs):
    verbs.create("dead")
    dead = []
    for name in ("a", "b", "gone"):
        verbs.create(name, redrive=Redrive(1, "dead"))
        dead += sent_ids(verbs, name.encode(), to=name)
        verbs.claim(queue=name, hold_ms=0)
        verbs.claim(queue=name)
    verbs.delete("gone")
    stranger = sent_ids(verbs, b"stranger", to="dead")
    assert verbs.moves.move_named([*dead, *stranger], None, queue="dead") == [DONE, DONE, HOMELESS, HOMELESS]
    assert [verbs.seen(name) for name in ("a", "b", "dead")] == [[b"a"], [b"b"], [b"gone", b"stranger"]]
    [home] = verbs.peek("a")
    assert (home.came_from, home.receives) == (None, 0)


def test_the_next_of_a_line_has_its_turn(two):
    two.create("lined", groups=Groups.FIFO)
    drafts = [Draft(b"%d" % number, group="g") for number in range(4)]
    first, second, _, last = sent_ids(two, *drafts, to="lined")
    assert two.messages.delete([first, last], queue="lined") == [DONE, DONE]
    assert two.stirred == {"lined"}
    assert two.moves.move_named([second], "there", queue="lined") == [DONE]
    assert two.bodies(queue="lined") == [b"2"]


def test_a_line_takes_those_that_come_in_their_order(two):
    two.create("lined", groups=Groups.FIFO)
    one, other = sent_ids(two, Draft(b"1", group="g"), Draft(b"2", group="g"))
    two.send(Draft(b"3", group="g"), to="lined")
    assert two.moves.move_named([other, one], "lined") == [DONE, DONE]
    assert two.bodies(queue="lined", limit=1) == [b"1"]
    assert two.count("lined").ready == 2
