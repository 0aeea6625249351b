"""`/metrics`, `/v1/processes` and the board behind them: what the processes of a server do."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import Client, Process
from penstock.server.board import Board
from tests.keys.test_http import bearer
from tests.server.test_workers import Start, start
from tests.servers import ServerProcess
from tests.talk import Talk
from tests.waiting import wait_until

__all__ = ["start"]

Samples = dict[tuple[str, ...], float]


def samples(text: str) -> Samples:
    """By the name and the values of the labels, in the order of their names."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def look(server: ServerProcess) -> Samples:
    with server.talk() as talk:
        return metrics(talk)


def metrics(talk: Talk) -> Samples:
    return samples(talk("GET", "/metrics").body.decode())


def total(told: Samples, name: str) -> float:
    """Over all its labels."""
    return sum(value for key, value in told.items() if key[0] == name)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_process_is_told_of(start: Start, workers: int) -> None:
    server = start("--workers", str(workers))
    with Client(server.url) as client:
        client.create_queue("q")
        for _ in range(20):
            client.send("q", "x")
        wait_until(lambda: total(look(server), "penstock_unit_operations_sum") >= 21)
        with server.talk() as talk:
            answer = talk("GET", "/metrics")
            opened = talk("GET", "/metrics", accept="application/openmetrics-text; version=1.0.0")
        told = samples(answer.body.decode())
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert opened.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert {family.name for family in parse_open(opened.body.decode())} == {
            family.name for family in text_string_to_metric_families(answer.body.decode())
        } - {"penstock_build_info"} | {"penstock_build"}
        processes = client.processes()
    names = ["server"] if workers == 1 else ["committer", "edge-1", "edge-2"]
    assert [process.name for process in processes] == names
    pids = {server.process.pid} if workers == 1 else set(server.processes())
    assert {process.pid for process in processes} == pids
    for name in names:
        assert told["penstock_process_resident_memory_bytes", name] > 1 << 20
        assert told["penstock_process_up", name] == 1
    assert total(told, "penstock_connections") >= 1
    assert total(told, "penstock_process_cpu_seconds_total") > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_of_every_api_are_told_by_every_edge(start: Start, workers: int) -> None:
    server = start("--workers", str(workers))
    with server.talks() as talks:
        for talk in talks:
            talk("PUT", "/v1/queues/q", {})
            talk("GET", "/queues/nowhere")
            talk("POST", "/", {}, x_amz_target="AmazonSQS.ListQueues", content_type="application/x-amz-json-1.0")
            talk("POST", "/", {}, x_amz_target="AmazonSQS.Nonsense", content_type="application/x-amz-json-1.0")
            talk("GET", "/v1/nowhere/at/all")
            talk("POST", "/v1/queues/q/claim", {"wait_ms": 1})
        edges = len(talks)

        def told_by(talk: Talk) -> dict[tuple[str, ...], float]:
            told = metrics(talk)
            # Sorted by the names of labels: api, method, route, status.
            return {key[1:]: value for key, value in told.items() if key[0] == "penstock_requests_total"}

        claim = ("native", "POST", "/v1/queues/{queue}/claim")
        for talk in talks:
            # The last of its requests: an edge that has told of all of these has told of all others.
            wait_until(lambda talk=talk: told_by(talk).get((*claim, "200")) == edges)
            told = told_by(talk)
            assert told["", "", "", "404"] == edges
            made = [value for key, value in told.items() if key[:3] == ("native", "PUT", "/v1/queues/{queue}")]
            assert sum(made) == edges
            assert told["mqs", "GET", "/queues/{name}", "404"] == edges
            assert told["sqs", "POST", "ListQueues", "200"] == edges
            assert told["sqs", "POST", "/", "400"] == edges
            whole = metrics(talk)
            assert whole["penstock_waiting_request_duration_seconds_count", *claim] == edges
            assert ("penstock_request_duration_seconds_count", *claim) not in whole
            assert told["metrics", "GET", "/metrics", "200"] >= 1


def test_a_claim_that_waits_is_seen_from_every_edge(start: Start) -> None:
    server = start()
    with Client(server.url) as client:
        client.create_queue("q")
    with ThreadPoolExecutor() as pool, server.talk() as waiting, server.talks() as talks:
        claim = pool.submit(waiting, "POST", "/v1/queues/q/claim", {"wait_ms": 60_000})
        for talk in talks:
            wait_until(lambda talk=talk: total(metrics(talk), "penstock_waiting_claims") == 1)
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
        answered = total(look(server), "penstock_requests_total")
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: edge not in server.processes() and len(server.processes()) == 3)
    wait_until(lambda: any(one.name == name_of_edge for one in _processes(server.url)))
    after = of_edge()
    assert after.pid != before.pid
    assert after.requests >= before.requests
    assert after.cpu_s >= before.cpu_s
    # Of those who asked just now, some may not be seen to have left.
    wait_until(lambda: of_edge().connections <= 2)
    # What the dead edge had written is still counted, and what its successor answers comes on top.
    assert total(look(server), "penstock_requests_total") >= answered


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
