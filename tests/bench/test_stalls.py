"""The sends that were under way while something large went on."""

from __future__ import annotations

import pytest

from bench import servers, stalls
from bench.foundation import create_queue


@pytest.fixture
def sender():
    made = object.__new__(stalls.Sender)
    made.sends = [(1.0, 0.5), (1.5, 2.0), (3.5, 0.25), (3.75, 0.5)]
    return made


def test_a_send_counts_that_began_before_or_ended_after(sender):
    assert sender.between(2.0, 3.0) == [2.0]
    assert sender.between(1.25, 3.6) == [0.5, 2.0, 0.25]
    assert sender.between(10.0, 11.0) == []


@pytest.mark.parametrize("name", [name for name in stalls.WORKS if name != "expired"])
def test_the_work_is_seen_to_its_end(tmp_path, name):
    work, queue, settings, age_ms = stalls.WORKS[name]
    stalls.fill(tmp_path, queue, settings, 5_000, age_ms)
    with servers.penstock(tmp_path) as (url, _):
        create_queue(url, "q")
        sends, took = stalls.observe(url, 0, lambda: work(url, tmp_path / stalls.FILE, 5_000))
        left = 0 if name == "deleted" else stalls.left(url, queue)
    assert sends
    assert took > 0
    assert left == (1 if name == "collapsed" else 0)


def test_expired_messages_go_by_themselves(tmp_path):
    work, queue, settings, age_ms = stalls.WORKS["expired"]
    stalls.fill(tmp_path, queue, settings, 5_000, age_ms)
    with servers.penstock(tmp_path) as (url, _):
        work(url, tmp_path, 5_000)
        assert stalls.left(url, queue) == 0
