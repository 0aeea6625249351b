"""`/metrics`, `/v1/processes` and the board behind them: what the processes of a server do."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client import Client, Process
from penstock.server.board import Board
from tests.keys.test_http import bearer
from tests.server.test_workers import Start, start
from tests.servers import ServerProcess
from tests.talk import Talk
from tests.waiting import wait_until

__all__ = ["start"]

_SAMPLE = re.compile(r'(?P<name>penstock_\w+)(?:\{(?P<label>\w+)="(?P<value>[^"]*)"\})? (?P<number>[\d.e+-]+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Of a page in Prometheus' text format: every line is understood, and every family is described before it."""
    found = {}
    described: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in described
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total")
            described[name] = kind
        elif not line.startswith("# HELP "):
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] in described
            found[sample["name"], sample["value"] or ""] = float(sample["number"])
    return found


def look(server: ServerProcess) -> dict[tuple[str, str], float]:
    with server.talk() as talk:
        return metrics(talk)


def metrics(talk: Talk) -> dict[tuple[str, str], float]:
    return samples(talk("GET", "/metrics").body.decode())


@pytest.mark.parametrize("workers", [1, 2])
def test_the_sum_and_each_process(start: Start, workers: int) -> None:
    server = start("--workers", str(workers))
    with Client(server.url) as client:
        client.create_queue("q")
        for _ in range(20):
            client.send("q", "x")

        def is_told() -> bool:
            told = look(server)
            return told["penstock_operations_total", ""] >= 21

        wait_until(is_told)
        with server.talk() as talk:
            answer = talk("GET", "/metrics")
        told = samples(answer.body.decode())
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        processes = client.processes()
    names = ["server"] if workers == 1 else ["committer", "edge-1", "edge-2"]
    assert [process.name for process in processes] == names
    pids = {server.process.pid} if workers == 1 else set(server.processes())
    assert {process.pid for process in processes} == pids
    families = {name for name, _ in told if name.startswith("penstock_process_")}
    assert len(families) == 7
    for family in families:
        whole = told[family.replace("penstock_process_", "penstock_"), ""]
        assert whole == pytest.approx(sum(told[family, name] for name in names))
    assert told["penstock_requests_total", ""] >= 21
    assert told["penstock_connections", ""] >= 1
    assert all(told["penstock_process_resident_memory_bytes", name] > 1 << 20 for name in names)
    assert told["penstock_cpu_seconds_total", ""] > 0


def test_a_claim_that_waits_is_seen_from_every_edge(start: Start) -> None:
    server = start()
    with Client(server.url) as client:
        client.create_queue("q")
    with ThreadPoolExecutor() as pool, server.talk() as waiting, server.talks() as talks:
        claim = pool.submit(waiting, "POST", "/v1/queues/q/claim", {"wait_ms": 60_000})
        for talk in talks:
            wait_until(lambda talk=talk: metrics(talk)["penstock_waiting_claims", ""] == 1)
        with Client(server.url) as client:
            client.send("q", "x")
        assert claim.result().status == 200


def test_totals_go_on_when_an_edge_is_replaced_and_connections_do_not(start: Start) -> None:
    server = start()
    edge = server.edges()[0]

    def of_edge() -> Process:
        [found] = [one for one in _processes(server.url) if one.name == name_of_edge]
        return found

    [name_of_edge] = [one.name for one in _processes(server.url) if one.pid == edge]
    with server.talks() as talks:
        for talk in talks:
            talk("GET", "/v1/processes")
        wait_until(lambda: of_edge().requests > 0 and of_edge().connections > 0)
        before = of_edge()
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: edge not in server.processes() and len(server.processes()) == 3)
    wait_until(lambda: any(one.name == name_of_edge for one in _processes(server.url)))
    after = of_edge()
    assert after.pid != before.pid
    assert after.requests >= before.requests
    assert after.cpu_s >= before.cpu_s
    assert after.connections <= 2


def _processes(url: str) -> list[Process]:
    with Client(url) as client:
        return client.processes()


def test_with_keys_it_takes_a_right_on_every_queue(start: Start) -> None:
    server = start()
    with Client(server.url) as client:
        secret = client.create_key("admin", ["queue|*|*"]).secret
    with Client(server.url, secret) as client:
        some = client.create_key("some", ["queue|*|orders-*"]).secret
        every = client.create_key("every", ["queue|get_status|*"]).secret
    for path in ("/metrics", "/v1/processes"):
        with server.talk() as talk:
            assert talk("GET", path).status == 401
            assert talk("GET", path, **bearer(some)).status == 403
            assert talk("GET", path, **bearer(every)).status == 200


def test_a_place_on_the_board() -> None:
    board = Board(["one", "two"])
    one, two = board.place("one"), board.place("two")
    assert board.reports() == []
    for place in (one, two):
        place.write("pid", 7)
    one.gauges.connections.set(3)
    two.gauges.connections.set(4)
    assert one.gauges.connections.total() == two.gauges.connections.total() == 7
    one.write("requests", 10)
    assert [(report.name, report.connections, report.requests) for report in board.reports()] == [
        ("one", 3, 10),
        ("two", 4, 0),
    ]
    board.leave("one")
    assert [report.name for report in board.reports()] == ["two"]
    assert two.gauges.connections.total() == 4
    successor = board.place("one")
    successor.write("pid", 8)
    successor.write("requests", 1)
    assert [(report.connections, report.requests) for report in board.reports()] == [(0, 11), (4, 0)]
