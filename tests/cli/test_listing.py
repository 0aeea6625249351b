"""`penstock queue list` and `show`: how full the queues are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from penstock.client import Client, Draft


@pytest.fixture
def client(server):
    with Client(server.url) as client:
        for name in ("b", "a", "empty"):
            client.create_queue(name)
        client.send_many("b", ["1", "2", Draft("later", delay_ms=3_600_000)])
        client.claim("b", hold_ms=3_600_000)
        server.clock.advance(7_200)
        client.send_many("a", ["1", "2", "3", "4"])
        client.claim("b", hold_ms=3_600_000)
        yield client


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_how_full_each_queue_is(run, client):
    rows = [line.split() for line in run("queue", "list").stdout.splitlines()]
    assert rows[0] == ["NAME", "MESSAGES", "READY", "CLAIMED", "DELAYED", "OLDEST"]
    assert rows[1][:5] == ["b", "3", "2", "1", "0"]
    assert rows[2][:5] == ["a", "4", "4", "0", "0"]
    assert rows[3] == ["empty", "0", "0", "0", "0"]
    assert all(len(row) == 6 for row in rows[:3])


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("created", ["b", "a", "empty"]),
        ("name", ["a", "b", "empty"]),
        ("messages", ["a", "b", "empty"]),
        ("ready", ["a", "b", "empty"]),
        ("claimed", ["b", "a", "empty"]),
        ("oldest", ["b", "a", "empty"]),
    ],
)
def test_sorted_by(run, client, sort, order):
    assert names(run("queue", "list", "--sort", sort).stdout) == order
    listed = json.loads(run("queue", "list", "--sort", sort, "--json").stdout)
    assert [one["name"] for one in listed["queues"]] == order


def test_json_has_counts_and_the_tally(run, client):
    listed = json.loads(run("queue", "list", "--json").stdout)["queues"]
    assert [one["count"]["total"] for one in listed] == [3, 4, 0]
    client.purge("a")
    shown = json.loads(run("queue", "show", "a", "--json").stdout)
    assert shown["tally"] == {"arrived": 4, "departed": 4}
    assert "arrived     4 ever\ndeparted    4\n" in run("queue", "show", "a").stdout


def test_watching(server, client):
    words = [sys.executable, "-m", "penstock", "queue", "list", "--watch", "--every", "100ms", "--json"]
    with subprocess.Popen([*words, "--url", server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert json.loads(watching.stdout.readline())["total"] == 3
        client.create_queue("new")
        while json.loads(watching.stdout.readline())["total"] == 3:
            pass
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 130


def test_watching_a_server_that_is_not_there(run):
    assert run("queue", "list", "--watch", "--url", "http://127.0.0.1:1").exit_code == 4
