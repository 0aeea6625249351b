"""Jobs on a standalone cluster: a master and two workers that are processes of their own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.jvm import QUICK
from devtools.programs import Program
from devtools.spark_cluster import Cluster
from tests.servers import ThreadServer
from tests.spark.faults import truth
from tests.spark.faults.gate import Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ROWS = 48_000
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster") / "spark", settings=QUICK)
    yield cluster
    cluster.stop()


def test_speculation(cluster: Cluster, server: ThreadServer, gate: Gate, start: Any) -> None:
    """Local sessions never speculate. One of four tasks is slow with its first chunk; a twin sends that chunk and
    the next; then the slow one's chunk arrives as well."""
    slow = gate.hold("POST /v1/queues/q/messages")
    options = {"url": gate.url, "rows": _ROWS, "partitions": 4, "key": "speculated"}
    driver = start("write", environ=cluster.environ, master=cluster.url, settings=_SPECULATION, **options)
    slow.wait(driver)
    driver.finish()
    assert len(gate.keys) == 4 * 2
    assert gate.keys[slow.key] > 1, "no twin was started"
    slow.let_go()
    gate.close()
    assert truth.bodies(truth.in_queue(server.url)) == Counter(f"row {number}".encode() for number in range(_ROWS))


def test_a_worker_is_lost(cluster: Cluster, server: ThreadServer, gate: Gate, pipeline: Any, tmp_path: Path) -> None:
    """In the middle of a drain, with everything that ran on it. What is left of the cluster completes the job, finds
    nothing wrong, and loads files."""
    sent = truth.send(server.url, 3000)
    lake = tmp_path / "lake"
    held = gate.hold("GET .*/shipments/drain/2/messages.start=0", answered=True)
    places = ("--url", gate.url, "--master", cluster.url, "--json")

    def run(*command: str) -> Program:
        return pipeline(*command, *places, environ=cluster.environ)

    drain = run("drain", "--queue", "q", "--lake", str(lake), "--limit", "1000")
    held.wait(drain)
    cluster.worker_of(held.pid()).kill()
    held.cut()
    assert json.loads(drain.finish())["messages"] == 3000

    assert json.loads(run("audit", "--lake", str(lake)).finish())["findings"] == []
    landed = truth.in_lake(lake)
    assert (sent - landed, landed - sent) == (Counter(), Counter())
    assert truth.counters(server.url) == (3000, 3000, 0)

    source = tmp_path / "rows.txt"
    source.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert json.loads(run("load", str(source), "--queue", "q").finish())["stored"] == 1000
    assert truth.bodies(truth.in_queue(server.url)) == Counter(f"line {number}".encode() for number in range(1000))
