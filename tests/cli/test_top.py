"""`penstock top`: what the processes of a server do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from penstock.cli.top import Rates, rates_of
from penstock.client import Client, Process

BEFORE = Process("server", 1, 1.0, 1 << 20, 1, 100, 0, 10, 50)
AFTER = Process("server", 1, 2.0, 1 << 20, 1, 300, 0, 20, 150)


def test_what_was_done_in_a_second():
    assert rates_of(BEFORE, AFTER, 2.0) == Rates(cpu=0.5, requests=100.0, units=5.0, operations=50.0)
    assert rates_of(None, AFTER, 2.0) == Rates(None, None, None, None)


def test_once(run, server):
    with Client(server.url) as client:
        client.create_queue("q")
    rows = [line.split() for line in run("top", "--once", "--every", "100ms").stdout.splitlines()]
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


def test_a_server_that_is_not_there(run):
    assert run("top", "--once", "--url", "http://127.0.0.1:1").exit_code == 4
