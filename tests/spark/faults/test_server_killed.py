"""The server is killed in the middle of a job and started again on the same store. The job waits and goes on."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.jobs import Run, Server, drain, load
from tests.spark.faults import truth
from tests.spark.faults.gate import Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MESSAGES = 3000


@pytest.mark.parametrize(
    ("point", "answered"),
    [
        ("PUT .*/shipments/drain/2$", True),
        ("GET .*/shipments/drain/2/messages.start=0", False),
        ("POST .*/shipments/drain/2/settle", True),
    ],
    ids=["claimed", "reading", "settled"],
)
def test_drain(point: str, answered: bool, spark: Any, restart: Any, tmp_path: Path) -> None:
    server = restart()
    truth.create(server.url)
    sent = truth.send(server.url, _MESSAGES)
    gate = Gate(server.url)
    held = gate.hold(point, answered=answered)
    with ThreadPoolExecutor(1) as pool:
        try:
            job = pool.submit(drain, Server(gate.url), "q", str(tmp_path / "lake"), limit=1000, run=Run(spark))
            held.wait(job)
            server.kill()
            gate.lead_to(None)
            held.cut()
            server = restart()
            gate.lead_to(server.url)
            summary = job.result()
        finally:
            gate.close()
    assert (summary.messages, summary.ended) == (_MESSAGES, [])
    truth.check_drained(spark, server.url, sent, tmp_path / "lake")


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_load(answered: bool, spark: Any, restart: Any, tmp_path: Path) -> None:
    """Before or after a chunk is stored; its answer does not arrive in either case."""
    source = tmp_path / "rows.txt"
    source.write_text("".join(f"line {number}\n" for number in range(25_000)))
    server = restart()
    truth.create(server.url)
    gate = Gate(server.url)
    held = gate.hold("POST /v1/queues/q/messages", answered=answered, skip=1)
    with ThreadPoolExecutor(1) as pool:
        try:
            job = pool.submit(load, Server(gate.url), [str(source)], "q", run=Run(spark))
            held.wait(job)
            server.kill()
            gate.lead_to(None)
            held.cut()
            server = restart()
            gate.lead_to(server.url)
            summary = job.result()
        finally:
            gate.close()
    assert summary.messages == 25_000
    assert summary.repeated == (10_000 if answered else 0)
    wanted = Counter(f"line {number}".encode() for number in range(25_000))
    assert truth.bodies(truth.in_queue(server.url)) == wanted
    truth.check_audit(spark, server.url)
