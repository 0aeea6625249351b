from __future__ import annotations

import pytest

from penstock.model import Receipt


@pytest.fixture
def two(verbs):
    verbs.create("a")
    verbs.create("b")
    return verbs


def test_each_message_where_it_is(two):
    [one] = two.send(b"1", to="a")
    [other] = two.send(b"2", to="b")
    ids = [Receipt(other.id), Receipt(one.id), Receipt(one.id.upper())]
    assert two.locate(*ids) == ["b", "a", "a"]


def test_nothing_for_what_is_not_there(two):
    [gone] = two.send(b"x", to="a")
    two.ack(Receipt(gone.id))
    assert two.locate(Receipt(gone.id), Receipt("no id"), Receipt("0" * 36)) == [None, None, None]
    assert two.locate() == []


@pytest.mark.needs("receives")
def test_it_matches_as_an_ack_does(two):
    two.send(b"x", to="a")
    [first] = two.claim(queue="a", hold_ms=0)
    [second] = two.claim(queue="a")
    assert two.locate(first, second) == [None, "a"]
    assert two.locate(Receipt(first.id, queue="b"), Receipt(first.id, queue="a")) == [None, "a"]


def test_a_moved_message_is_where_it_went(two):
    [sent] = two.send(b"x", to="a")
    two.move("a", "b")
    assert two.locate(Receipt(sent.id)) == ["b"]


def test_a_deleted_queue_holds_nothing(two):
    [sent] = two.send(b"x", to="a")
    two.delete("a")
    assert two.locate(Receipt(sent.id)) == [None]


def test_it_changes_nothing(two):
    two.send(b"x", to="a")
    before = two.peek("a")
    two.locate(Receipt(before[0].id))
    assert two.peek("a") == before
