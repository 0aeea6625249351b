"""Jobs through a Spark Connect server: the client has no Java and no way to Hadoop's classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.spark_cluster import ConnectServer
from tests.servers import ThreadServer
from tests.spark.faults import truth
from tests.spark.faults.gate import Gate
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect") / "spark")
    yield server
    server.stop()


def test_data_source(connect: ConnectServer, server: ThreadServer, gate: Gate, start: Any, tmp_path: Path) -> None:
    places = {"url": server.url, "remote": connect.url}
    start("write", rows=50, partitions=2, key="connect", **places).finish()
    wanted = sorted(f"row {number}" for number in range(50))
    assert json.loads(start("read", **places).finish()) == wanted
    start("stream", folder=str(tmp_path), **places).finish()
    assert truth.counters(server.url) == (50, 50, 0)


def test_jobs(connect: ConnectServer, server: ThreadServer, gate: Gate, pipeline: Any, tmp_path: Path) -> None:
    """Files are loaded, twice, and drained. The drain's client is killed; the server goes on with what it was asked:
    both it and the second drain write the same shipment, and the first one finishes last."""
    places = ("--url", gate.url, "--remote", connect.url, "--json")
    source = tmp_path / "rows.txt"
    source.write_text("".join(f"line {number}\n" for number in range(3000)))
    load = ("load", str(source), "--queue", "q", *places)
    assert json.loads(pipeline(*load).finish())["stored"] == 3000
    assert json.loads(pipeline(*load).finish())["repeated"] == 3000
    sent = truth.in_queue(server.url)
    assert truth.bodies(sent) == Counter(f"line {number}".encode() for number in range(3000))

    lake = tmp_path / "lake"
    held = gate.hold("GET .*/shipments/drain/2/messages.start=0", answered=True)
    drain = ("drain", "--queue", "q", "--lake", str(lake), "--limit", "1000", *places)
    killed = pipeline(*drain)
    held.wait(killed)
    killed.kill()
    assert json.loads(pipeline(*drain).finish())["messages"] == 2000
    held.let_go()
    _wait_until_nothing_is_written(lake)

    archived = json.loads(pipeline("archive", "--lake", str(lake), *places).finish())
    assert archived["rows"] == 3000
    audited = json.loads(pipeline("audit", "--lake", str(lake), *places).finish())
    assert (audited["findings"], audited["messages"]) == ([], 3000)
    landed = truth.in_lake(lake)
    assert (sent - landed, landed - sent) == (Counter(), Counter())
    assert truth.counters(server.url) == (3000, 3000, 0)


def test_other_jobs(connect: ConnectServer, server: ThreadServer, gate: Gate, start: Any, tmp_path: Path) -> None:
    with server.talk() as talk:
        for body in ('{"n": 1}', '{"n": 2}', '{"n": 2}', "broken"):
            assert talk("POST", "/v1/queues/q/messages", {"messages": [{"body": body}]}).status == 201
    told = json.loads(start("others", url=server.url, remote=connect.url, folder=str(tmp_path)).finish())
    assert told == {
        "triaged": 4, "drained": 4, "bad": 1, "archived": 4, "kept": 3, "replayed": 4, "findings": [],
    }  # fmt: skip
    assert "<html" in (tmp_path / "page.html").read_text()


def _wait_until_nothing_is_written(lake: Path) -> None:
    """A file is staged first, and taken away when it is in its place."""
    wait_until(lambda: not list((lake / "_staging").glob("*")), 300, every_s=0.1)
