"""`penstock bench`: it measures, stays within its bounds, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

from penstock import __version__
from penstock.cli.bench import _print, _server, figures_of
from penstock.cli.load import Measured
from penstock.client import Client, Unauthorized
from penstock.compiled import is_compiled
from tests.waiting import wait_until

BENCH = [sys.executable, "-m", "penstock", "bench", "--connections", "4", "--size", "10"]


def names(url: str) -> list[str]:
    with Client(url) as client:
        return [queue.name for queue in client.queues(count=False)]


@pytest.mark.parametrize("mode", ["send", "cycle", "batch"])
def test_it_measures_and_deletes_its_queues(mode, server):
    words = ["--seconds", "1", "--mode", mode, "--json", "--processes", "2", "--url", server.url]
    done = subprocess.run([*BENCH, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"penstock: this loads {server.url} for 1 s in each mode\n")
    told = json.loads(done.stdout)
    [figures] = told["modes"]
    assert (told["connections"], told["size"], figures["mode"], figures["errors"]) == (8, 10, mode, {})
    assert figures["messages_per_s"] == pytest.approx(figures["rounds_per_s"] * (100 if mode == "batch" else 1))
    assert figures["messages_per_s"] > 0
    about = (told["server"]["version"], told["server"]["store"], told["server"]["compiled"])
    assert about == (__version__, "sqlite", is_compiled())
    assert figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
    assert names(server.url) == []


def test_a_table_to_paste(server):
    done = subprocess.run(
        [*BENCH, "--seconds", "1", "--mode", "cycle", "--url", server.url], capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    how = "compiled" if is_compiled() else "plain Python"
    assert f" 1 s each; server {__version__} ({how}) on sqlite, client {__version__}, " in lines[0]
    assert lines[2:4] == [
        "| mode | messages/s | p50 ms | p95 ms | p99 ms | errors | load CPU |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    assert re.fullmatch(r"\| cycle \| [\d,]+ \| [\d.]+ \| [\d.]+ \| [\d.]+ \| 0 \| \d+% \|", lines[4])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_deletes_its_queues(how, server):
    with subprocess.Popen([*BENCH, "--seconds", "600", "--url", server.url], stderr=subprocess.DEVNULL) as process:
        with Client(server.url) as client:
            wait_until(lambda: any(queue.count.total for queue in client.queues()))
        process.send_signal(how)
        assert process.wait() == 130
    assert names(server.url) == []


def test_a_server_that_is_not_there_is_code_4():
    done = subprocess.run([*BENCH, "--url", "http://127.0.0.1:1"], capture_output=True, text=True)
    assert done.returncode == 4
    assert "cannot reach http://127.0.0.1:1" in done.stderr
    assert "could not be deleted" not in done.stderr


def test_errors_are_counted_and_latencies_are_of_all_processes():
    some = Measured([1.0, 2.0, 3.0], 3, Counter({"HTTP 503": 2}), 0.5, 2.0)
    others = Measured([4.0] * 97, 97, Counter({"HTTP 503": 1}), 1.9, 2.0)
    figures = figures_of("send", [some, others])
    assert figures["messages_per_s"] == 50
    assert (figures["p50_ms"], figures["p99_ms"]) == (4.0, 4.0)
    assert figures["errors"] == {"HTTP 503": 3}
    assert figures["load_cpu"] == 0.95
    assert figures_of("send", [Measured(seconds=1.0)])["p50_ms"] is None


def test_a_server_that_does_not_tell_its_kind_is_measured_all_the_same(capsys):
    class Silent:
        def server(self) -> None:
            raise Unauthorized("not permitted", 403)

    assert _server(Silent()) is None
    about = {"url": "u", "connections": 1, "size": 1, "seconds": 1, "client_version": "1", "cpus": 2, "machine": "m"}
    _print({**about, "server": None}, [])
    assert "server unknown, client 1" in capsys.readouterr().out
