"""Whose CPU and memory it is, how many units were written, and what is made of it."""

from __future__ import annotations

import http.client
import os
import time
from dataclasses import replace

import pytest

from bench import servers, workers
from bench.foundation import create_queue
from bench.measure import missed
from bench.processes import Process, family, machine_ticks, memory_mb, reads
from bench.workers import Observed, Round, costs_of, cpu_figures, rates, roles, units


def process(pid: int, name: str) -> Process:
    return Process(pid, 1, name, 0, 0)


def test_a_single_process_is_the_server():
    assert roles([process(7, "python")], 7) == {7: "server"}


def test_several_have_roles_and_edges_are_numbered():
    names = ["python", "penstock-commit", "penstock-edge", "penstock-edge"]
    found = roles([process(7 + number, name) for number, name in enumerate(names)], 7)
    assert list(found.values()) == ["supervisor", "committer", "edge_1", "edge_2"]


def test_a_process_that_is_not_known_is_not_passed_over():
    with pytest.raises(KeyError):
        roles([process(7, "python"), process(8, "stranger")], 7)


def wait_until_all_have_names(server: int) -> list[str]:
    while True:
        try:
            found = sorted(roles(family(server), server).values())
        except KeyError:
            found = []
        if len(found) == 4:
            return found
        time.sleep(0.01)


def test_a_server_of_several_processes(tmp_path):
    with servers.penstock(tmp_path, "--workers", "2") as (url, started):
        assert wait_until_all_have_names(started.pid) == ["committer", "edge_1", "edge_2", "supervisor"]
        create_queue(url, "q")
        before = units(tmp_path)
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        for _ in range(10):
            connection.request("POST", "/messages/q", b"hello")
            assert connection.getresponse().read() is not None
        connection.close()
        assert units(tmp_path) - before >= 10
        for one in family(started.pid)[1:]:
            resident, proportional = memory_mb(one.pid)
            assert resident > proportional > 0
            assert reads(one.pid) > 0


def test_the_family_of_a_process_has_no_strangers():
    assert os.getpid() in [one.pid for one in family(os.getpid())]
    assert os.getppid() not in [one.pid for one in family(os.getpid())]
    assert family(0x7FFFFFFF) == []


def test_the_machine_is_never_more_idle_than_it_is_there():
    idle, ticks = machine_ticks()
    assert 0 <= idle <= ticks


ONE = Observed(50_000, 1_200, {"server": 16.0}, 8.0, 0, 5.0, 0.02, 0)
SEVERAL = Observed(
    60_000, 1_000, {"supervisor": 0.0, "committer": 11.0, "edge_1": 6.0, "edge_2": 5.0}, 8.0, 0, 5.0, 0.03, 0.1
)


def test_a_rate_comes_with_its_cpu():
    results = list(rates("sends", 1.25, [ONE, ONE], [SEVERAL, replace(SEVERAL, per_second=55_000)]))
    assert [result.ratio for result in results] == [pytest.approx(1.15), None, None, pytest.approx(16 / 22)]
    assert missed(results) == [
        f"missed: sends, --workers {workers.WORKERS} ÷ one process: 1.15, and the target is ≥ 1.25"
    ]
    assert results[0].note == "1.10 to 1.20"
    assert results[3].figures == {"several": pytest.approx(1e6 / 22), "one": pytest.approx(1e6 / 16)}


def test_the_figures_of_each_process():
    figures = cpu_figures([SEVERAL])
    assert figures == {
        "supervisor": 0,
        "committer": 11,
        "edge_1": 6,
        "edge_2": 5,
        "load_generator": 8,
        "idle_percent": 5,
        "sends_the_cores_allow": pytest.approx(workers.CORES * 1e6 / 30),
        "sends_in_a_unit": pytest.approx(1 / 0.03),
    }
    on_a_database = cpu_figures([replace(SEVERAL, database_us=20.0, units=0)])
    assert on_a_database["database"] == 20
    assert "sends_in_a_unit" not in on_a_database


def observed(frames: float, units: float) -> Observed:
    """With a committer and edges whose costs are known."""
    committer, edge = 6 + 5 * frames + 180 * units, (9 + 20 * frames) / 2
    return replace(
        SEVERAL, server_us={"committer": committer, "edge_1": edge, "edge_2": edge}, frames=frames, units=units
    )


def test_the_costs_of_the_simulation_are_those_that_were_measured():
    several = {1: observed(1, 1), 16: observed(0.3, 0.14), 64: observed(0.1, 0.03), 256: observed(0.07, 0.01)}
    measured = Round({64: ONE, 1: ONE}, several, {64: observed(0.3, 0.03)}, (35.0, 15.0), 90.0)
    costs = costs_of([measured, replace(measured, sync_us=120.0)])
    assert (costs.load, costs.sync) == (8, 90)
    assert (costs.send, costs.frames, costs.unit) == pytest.approx((6, 5, 180))
    assert (costs.edge_send, costs.edge_frames) == pytest.approx((9, 20))
