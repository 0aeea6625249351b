"""The driver dies without warning in the middle of a batch. The next run completes it, and nothing is there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devtools.programs import kill
from penstock.spark.jobs import Run, Server, drain
from tests.servers import ThreadServer
from tests.spark.faults import truth, work
from tests.spark.faults.gate import Gate
from tests.spark.faults.sinks import in_sink

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MESSAGES = 3000


@pytest.mark.parametrize(
    ("point", "answered"),
    [
        # One shipment is in the lake, the next one is on its way there.
        ("GET .*/shipments/drain/2/messages.start=0", True),
        # All of it is in the lake and the server does not know.
        ("POST .*/shipments/drain/2/settle", False),
        # The server has settled and the driver never learns of it.
        ("POST .*/shipments/drain/2/settle", True),
    ],
    ids=["writing", "before settling", "after settling"],
)
def test_drain(
    point: str, answered: bool, spark: Any, server: ThreadServer, gate: Gate, start: Any, tmp_path: Path
) -> None:
    sent = truth.send(server.url, _MESSAGES)
    held = gate.hold(point, answered=answered)
    lake = tmp_path / "lake"
    driver = start("drain", lake=str(lake), url=gate.url, limit=1000)
    held.wait(driver)
    kill(driver.java())
    held.cut()
    assert driver.wait() != 0
    seen = truth.in_lake(lake)
    assert seen - sent == truth.Messages()
    assert seen.total() in (0, 1000, 2000), "no reader ever sees part of a shipment"

    drain(Server(server.url), "q", str(lake), limit=1000, run=Run(spark))

    truth.check_drained(spark, server.url, sent, lake)


def test_stream(spark: Any, server: ThreadServer, gate: Gate, start: Any, tmp_path: Path) -> None:
    sent = truth.send(server.url, _MESSAGES)
    held = gate.hold("GET .*/shipments/stream/2/messages.start=[1-9]", answered=True)
    driver = start("stream", url=gate.url, folder=str(tmp_path))
    held.wait(driver)
    driver.kill()
    held.cut()

    work.stream(spark, server.url, str(tmp_path))

    assert in_sink(spark, tmp_path) == sent
    assert truth.counters(server.url) == (_MESSAGES, _MESSAGES, 0)
    truth.check_audit(spark, server.url)
