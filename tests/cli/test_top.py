"""`penstock top`: what the processes of a server do."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest

from penstock.cli.top import Rates, _Top, rates_of
from penstock.client import Client, OverviewRow, Process, Totals

BEFORE = Process("server", 1, 1.0, 1 << 20, 1, 100, 0, 10, 50)
AFTER = Process("server", 1, 2.0, 1 << 20, 1, 300, 0, 20, 150)


def test_what_was_done_in_a_second():
    assert rates_of(BEFORE, AFTER, 2.0) == Rates(cpu=0.5, requests=100.0, units=5.0, operations=50.0)
    assert rates_of(None, AFTER, 2.0) == Rates(None, None, None, None)


def test_once(run, server):
    with Client(server.url) as client:
        client.create_queue("q")
    told = run("top", "--once", "--every", "100ms").stdout.partition("\n\n")[0]
    rows = [line.split() for line in told.splitlines()]
    assert rows[0] == [
        *("PROCESS", "PID", "CPU", "%", "MEMORY", "CONNECTIONS", "WAITING"),
        *("REQUESTS/S", "UNITS/S", "OPERATIONS/S"),
    ]
    names = [row[0] for row in rows[1:]]
    assert names in (["server"], ["all", "edge-1", "edge-2"])
    assert all(row[-1].isdigit() for row in rows[1:])


def test_json(run, server):
    told = json.loads(run("top", "--once", "--every", "100ms", "--json").stdout)
    assert {"name", "pid", "cpu_s", "requests", "per_second"} <= told["processes"][0].keys()
    assert told["processes"][0]["per_second"].keys() == {"cpu", "requests", "units", "operations"}


def test_it_goes_on_until_it_is_interrupted(server):
    command = [sys.executable, "-m", "penstock", "top", "--url", server.url, "--every", "100ms", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        first = json.loads(process.stdout.readline())
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert first["processes"][0]["per_second"]["requests"] is None
    assert second["processes"][0]["per_second"]["requests"] > 0


def queues_of(run_json, *words: str) -> list[dict[str, Any]]:
    return run_json("top", "--once", "--every", "100ms", *words)["queues"]


@pytest.fixture
def three(server) -> Client:
    """A queue with old messages, one with many, and one that is empty."""
    with Client(server.url) as client:
        client.create_queue("dead")
        client.create_queue("old", redrive={"max_receives": 1, "dead_letter_queue": "dead"})
        client.create_queue("many")
        client.send("dead", "d")
        client.send("old", "x")
        server.clock.advance(60)
        client.send_many("many", ["x"] * 5)
        client.claim("many", limit=2, hold_ms=3_600_000)
        client.send("many", "later", delay_ms=3_600_000)
        yield client


def test_the_queues_whose_messages_wait_longest_come_first(three, run_json):
    queues = queues_of(run_json)
    assert {queue["name"] for queue in queues[:2]} == {"dead", "old"}
    assert queues[2]["name"] == "many"
    assert (queues[2]["ready"], queues[2]["claimed"], queues[2]["delayed"]) == (3, 2, 1)
    assert queues[0]["oldest_ready_ms"] >= queues[2]["oldest_ready_ms"]
    assert queues[2]["totals"]["sent"] == 6


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        *(("ready", "many"), ("claimed", "many"), ("delayed", "many"), ("total", "many"), ("name", "dead")),
        *(("paused", "many"), ("dead-letters", "old")),
    ],
)
def test_sort(sort, first, three, server, run_json):
    three.pause_queue("many")
    three.claim("old", hold_ms=0)
    three.claim("old")
    assert queues_of(run_json, "--sort", sort)[0]["name"] == first


def test_filter_and_limit(three, run_json):
    assert {queue["name"] for queue in queues_of(run_json, "--filter", "D")} == {"dead", "old"}
    assert len(queues_of(run_json, "--limit", "1")) == 1
    assert queues_of(run_json, "--limit", "0") == []


def test_a_paused_queue_is_marked(three, run):
    three.pause_queue("many")
    told = run("top", "--once", "--every", "100ms").stdout.partition("\n\n")[2]
    header, *rows = [line.split() for line in told.splitlines()]
    assert header == [
        *("READY", "DELAYED", "CLAIMED", "OLDEST", "READY", "SENDS/S", "ACKS/S", "DEAD", "LETTERS", "PAUSED", "QUEUE")
    ]
    assert [row[-2] == "paused" for row in rows if row[-1] == "many"] == [True]
    assert [row[-2] == "paused" for row in rows if row[-1] in ("old", "dead")] == [False, False]


def test_each_look_asks_for_queues_once(three, server):
    asked = []

    class Counted(Client):
        def overview(self, *args: Any, **options: Any) -> Any:
            asked.append((args, options))
            return super().overview(*args, **options)

    with Counted(server.url) as client:
        view = _Top(client, False, in_lines=True, sort="sends", part="m", limit=5)
        _, rows = view.look()
        assert [row.name for row in rows] == ["many"]
    assert asked == [(("sends",), {"contains": "m", "limit": 5})]


class Terminal:
    """`penstock top` on a terminal of its own."""

    def __init__(self, url: str, columns: int = 120, lines: int = 30) -> None:
        self.ours, theirs = pty.openpty()
        self.resize(columns, lines)
        command = [sys.executable, "-m", "penstock", "top", "--url", url, "--every", "1h"]
        environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**environ, "TERM": "xterm"},
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, text: str) -> str:
        """What was shown until then."""
        while text not in self.shown:
            self.shown += os.read(self.ours, 65536).decode()
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def press(self, key: bytes) -> int:
        os.write(self.ours, key)
        code = self.process.wait()
        os.close(self.ours)
        return code


def test_on_a_terminal_it_ends_with_q(server, three):
    terminal = Terminal(server.url)
    shown = terminal.read_until("many")
    assert "PROCESS" in shown
    assert "QUEUE" in shown
    assert terminal.press(b"q") == 0


def test_a_terminal_of_another_size_is_drawn_at_once(server, three):
    terminal = Terminal(server.url)
    terminal.read_until("many")
    terminal.resize(40, 4)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    drawn = terminal.read_until("PROCESS")
    drawn += terminal.read_until("\n")
    assert "…" in drawn
    assert terminal.press(b"q") == 0


def test_the_name_of_a_queue_cannot_steer_a_terminal():
    totals = Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    row = OverviewRow("a\x1b[2Jb\nc", 1, 0, 0, 1, True, None, None, 0.0, 0.0, totals, False)
    view = _Top(None, False, in_lines=True, sort="name", part="", limit=5)
    view._found = [], [row]
    assert not any("\x1b" in line or "\n" in line for line in view.lines(80))


def test_a_server_that_is_not_there(run):
    assert run("top", "--once", "--url", "http://127.0.0.1:1").exit_code == 4
