from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.model import Draft, Outcome


def test_everything_in_any_state_is_gone(verbs):
    verbs.create()
    verbs.send(b"claimed", b"ready", Draft(b"delayed", delay_ms=100))
    [claimed] = verbs.claim(limit=1)
    assert verbs.purge() == 3
    assert verbs.seen() == []
    assert verbs.ack(claimed) == [False]
    assert verbs.outcomes() == [Outcome.PURGED] * 3


def test_other_queues_keep_theirs(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"x", to="other")
    assert verbs.purge() == 0
    assert verbs.seen("other") == [b"x"]


def test_what_comes_after_the_sequence_number_given_stays(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    through = verbs.last_seq()
    verbs.send(b"3")
    assert verbs.purge(through=through) == 2
    assert verbs.seen() == [b"3"]


def test_up_to_the_limit_in_the_order_of_peek(verbs):
    verbs.create()
    verbs.send(Draft(b"delayed", delay_ms=100), b"1", b"2")
    assert verbs.purge(limit=2) == 2
    assert verbs.seen() == [b"delayed"]
    assert verbs.purge(limit=2) == 1
    assert verbs.purge(limit=2) == 0


def test_a_thousand(verbs):
    verbs.create()
    verbs.send(*([b"x"] * 1_000))
    assert verbs.purge() == 1_000
    assert verbs.tally().departed == 1_000


def test_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.purge("nowhere")
