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


# By age


def test_only_what_was_sent_before_the_instant_goes(verbs):
    verbs.create()
    verbs.send(b"old, claimed", b"old", Draft(b"old, delayed", delay_ms=100_000))
    [claimed] = verbs.claim(limit=1)
    verbs.now += 1_000
    border = verbs.now
    verbs.send(b"young", Draft(b"young, delayed", delay_ms=50_000))
    purged = verbs.purge_older(border)
    assert (purged.count, purged.after) == (3, None)
    assert verbs.seen() == [b"young", b"young, delayed"]
    assert verbs.ack(claimed) == [False]
    assert verbs.outcomes() == [Outcome.PURGED] * 3
    assert verbs.purge_older(border + 1).count == 2


def test_by_age_each_step_goes_on_behind_the_last(verbs):
    verbs.create()
    for body in (b"1", b"2", Draft(b"3", delay_ms=7_000), b"4", Draft(b"5", delay_ms=5_000)):
        verbs.send(body)
        verbs.now += 10
    border = verbs.now - 25
    after, counts = None, []
    while True:
        purged = verbs.purge_older(border, limit=2, after=after)
        counts.append(purged.count)
        after = purged.after
        if after is None:
            break
    assert counts == [2, 0, 1]
    assert verbs.seen() == [b"4", b"5"]


def test_by_age_what_comes_after_the_sequence_number_given_stays(verbs):
    verbs.create()
    verbs.send(b"1")
    through = verbs.last_seq()
    verbs.send(b"2")
    assert verbs.purge_older(verbs.now + 1, through=through).count == 1
    assert verbs.seen() == [b"2"]


def test_by_age_in_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.purge_older(1, "nowhere")
