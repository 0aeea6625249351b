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


COUNT = 500
# How many messages are left in the queue that it is about.
LEFT = {
    "messages are purged": 0,
    "messages are moved": 0,
    "messages are collapsed": 1,
    "dead letters are redriven": 0,
    "dead letters are redriven by a filter": 0,
    "messages of a shipment are settled": 0,
    "messages of a shipment are given back": COUNT,
    "messages are searched": COUNT,
}


def observed(path, work, count=COUNT):
    stalls.prepare(path, work, count)
    with servers.penstock(path) as (url, _):
        create_queue(url, "q")
        sends, took = stalls.observe(url, 0, lambda: work.run(url, path / stalls.FILE, count))
        assert sends
        assert took > 0
        queues = stalls.ask(url, "GET", "/v1/queues")["queues"]
        return {queue["name"]: queue["count"]["total"] for queue in queues}


@pytest.mark.parametrize("name", LEFT)
def test_the_work_is_seen_to_its_end(tmp_path, name):
    left = observed(tmp_path, stalls.WORKS[name])
    assert left[stalls.TWINS if name == "messages are collapsed" else stalls.MANY] == LEFT[name]


def test_the_ledger_is_exported_and_read(tmp_path):
    """The rows are asked for by their numbers: were there none, the measure would be of nothing."""
    work = stalls.WORKS["rows of the ledger are exported"]
    stalls.prepare(tmp_path, work, COUNT)
    with servers.penstock(tmp_path) as (url, _):
        work.run(url, tmp_path, COUNT)
        assert stalls.ask(url, "GET", stalls.EXPORT)["rows"] == COUNT


def test_expired_messages_go_by_themselves(tmp_path):
    assert observed(tmp_path, stalls.WORKS["messages are expired"])[stalls.MANY] == 0
