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


def observed(path, work, count):
    stalls.prepare(path, work, count)
    with servers.penstock(path) as (url, _):
        create_queue(url, "q")
        sends, took = stalls.observe(url, 0, lambda: work.run(url, path / stalls.FILE, count))
        assert sends
        assert took > 0
        return stalls.ask(url, "GET", "/v1/queues?limit=10000")


@pytest.mark.parametrize("name", [name for name in stalls.WORKS if name not in stalls.LEFT])
def test_the_work_is_done(tmp_path, name):
    observed(tmp_path, stalls.WORKS[name], 5_000)


@pytest.mark.parametrize("name", stalls.LEFT)
def test_the_work_is_seen_to_its_end(tmp_path, name):
    work = stalls.WORKS[name]
    left = {queue["name"]: queue["count"] for queue in observed(tmp_path, work, 5_000)["queues"]}
    assert stalls.LEFT[name](left)
