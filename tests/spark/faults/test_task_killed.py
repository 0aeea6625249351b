"""A task's process dies in the middle of its work, and Spark runs the task again."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from devtools.programs import command_of, kill
from penstock.spark.jobs import Run, Server, drain, load
from tests.servers import ThreadServer
from tests.spark.faults import truth, work
from tests.spark.faults.gate import Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Chunks are of 10,000 rows: each of two partitions sends two of them, and some.
_ROWS = 42_000


def test_reading(spark: Any, server: ThreadServer, gate: Gate, tmp_path: Path) -> None:
    sent = truth.send(server.url, 2000)
    held = gate.hold("GET .*/shipments/drain/1/messages.start=0", answered=True)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(drain, Server(gate.url), "q", str(tmp_path / "lake"), limit=2000, run=Run(spark))
        held.wait(job)
        _kill_worker(held.pid())
        held.cut()
        assert job.result().messages == 2000
    assert len([it for it in gate.seen if "/messages?start=0" in it]) == 2, "the task was not run again"
    truth.check_drained(spark, server.url, sent, tmp_path / "lake")


@pytest.mark.parametrize("answered", [False, True], ids=["on its way", "stored"])
def test_writing(answered: bool, spark: Any, server: ThreadServer, gate: Gate) -> None:
    """The second chunk of a task is on its way, or stored with its answer lost; the first chunks are sent again."""
    held = gate.hold("POST /v1/queues/q/messages", answered=answered, skip=2)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work.write, spark, gate.url, _ROWS, 2, "task")
        held.wait(job)
        _kill_worker(held.pid())
        held.cut()
        job.result()
    assert len([it for it in gate.seen if it.startswith("POST")]) > 6, "no chunk was sent again"
    _check_sent(spark, server.url, "row ")


def test_loading(spark: Any, server: ThreadServer, gate: Gate, tmp_path: Path) -> None:
    source = tmp_path / "rows.txt"
    source.write_text("".join(f"line {number}\n" for number in range(_ROWS)))
    held = gate.hold("POST /v1/queues/q/messages", answered=True, skip=1)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(load, Server(gate.url), [str(source)], "q", run=Run(spark))
        held.wait(job)
        _kill_worker(held.pid())
        held.cut()
        assert job.result().messages == _ROWS
    _check_sent(spark, server.url, "line ")
    assert load(Server(server.url), [str(source)], "q", run=Run(spark)).repeated == _ROWS
    _check_sent(spark, server.url, "line ")


def _kill_worker(pid: int) -> None:
    assert "pyspark.daemon" in command_of(pid), command_of(pid)
    kill(pid)


def _check_sent(spark: Any, url: str, start: str) -> None:
    wanted = Counter(f"{start}{number}".encode() for number in range(_ROWS))
    assert truth.bodies(truth.in_queue(url)) == wanted
    truth.check_audit(spark, url)
