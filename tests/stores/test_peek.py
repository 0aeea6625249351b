from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Draft, PeekAfter


def test_ready_ones_by_age_then_the_others_by_when_they_are_due(verbs):
    verbs.create()
    verbs.send(b"claimed", Draft(b"soon", delay_ms=5), b"1", Draft(b"late", delay_ms=90_000), b"2")
    verbs.claim(limit=1)
    assert verbs.seen() == [b"1", b"2", b"soon", b"claimed", b"late"]


def test_those_due_at_the_same_time_by_age(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    verbs.claim()
    assert verbs.seen() == [b"1", b"2", b"3"]


def test_a_peek_changes_nothing(verbs):
    verbs.create(retention_ms=10)
    verbs.send(b"x")
    verbs.now += 10
    assert verbs.peek() == verbs.peek()
    assert verbs.tally().departed == 0
    assert [(message.receives, message.claim) for message in verbs.peek()] == [(0, 0)]


def test_page_by_page(verbs):
    verbs.create()
    verbs.send(*(Draft(b"%d" % n, delay_ms=n % 3) for n in range(10)))
    everything = verbs.peek()
    pages, after = [], None
    while page := verbs.peek(limit=3, after=after):
        pages.append(len(page))
        assert page == everything[: len(page)]
        everything = everything[len(page) :]
        after = PeekAfter(page[-1].ready_at, page[-1].seq)
    assert pages == [3, 3, 3, 1]


def test_a_place_whose_message_is_gone_is_still_a_place(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    [first] = verbs.peek(limit=1)
    verbs.ack(*verbs.claim(limit=1))
    assert [message.body for message in verbs.peek(after=PeekAfter(first.ready_at, first.seq))] == [
        b"2",
        b"3",
    ]


@pytest.mark.parametrize("limits", [Limits(claim_bytes=100)])
def test_bodies_that_come_to_the_limit_of_bytes_end_a_peek(verbs):
    verbs.create()
    verbs.send(*([b"x" * 40] * 4))
    assert len(verbs.peek()) == 3
    verbs.send(b"y" * 400)
    assert len(verbs.peek(after=PeekAfter(0, 4))) == 1


def test_none(verbs):
    verbs.create()
    verbs.send(b"x")
    assert verbs.peek(limit=0) == []


def test_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.peek("nowhere")
