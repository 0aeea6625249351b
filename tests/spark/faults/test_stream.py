"""Streams whose planner or driver dies, whose checkpoint has lost its last entry, or holds a batch that never ran."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from devtools.programs import command_of, kill
from tests.servers import ThreadServer
from tests.spark.faults import truth, work
from tests.spark.faults.gate import Gate
from tests.spark.faults.sinks import in_sink

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MESSAGES = 2000


@pytest.mark.parametrize(
    ("point", "answered"),
    [
        ("PUT .*/shipments/stream/2$", True),
        ("GET .*/shipments/stream/2$", False),
        ("POST .*/shipments/stream/1/settle", False),
        ("POST .*/shipments/stream/1/settle", True),
    ],
    ids=["claimed", "offset written", "before settling", "after settling"],
)
def test_planner_killed(
    point: str, answered: bool, spark: Any, server: ThreadServer, gate: Gate, tmp_path: Path
) -> None:
    """`offset written`: Spark has noted the batch, and it has not run."""
    sent = truth.send(server.url, _MESSAGES)
    held = gate.hold(point, answered=answered)
    with ThreadPoolExecutor(1) as pool:
        query = pool.submit(work.stream, spark, gate.url, str(tmp_path))
        held.wait(query)
        assert "streaming" in command_of(held.pid()), command_of(held.pid())
        kill(held.pid())
        held.cut()
        assert query.exception() is not None

    work.stream(spark, server.url, str(tmp_path))

    _check(spark, server, sent, tmp_path)


@pytest.mark.parametrize(
    ("point", "answered"),
    [
        ("POST .*/q-b/shipments/stream/1/settle", False),
        ("PUT .*/q-b/shipments/stream/2$", False),
        ("GET .*/q-b/shipments/stream/2$", False),
    ],
    ids=["one of two settled", "one of two claimed", "offset written"],
)
def test_driver_of_several_queues_killed(
    point: str, answered: bool, spark: Any, server: ThreadServer, gate: Gate, start: Any, tmp_path: Path
) -> None:
    """Between two batches, each of which has a shipment of either queue."""
    sent = truth.Messages()
    for queue in ("q-a", "q-b"):
        truth.create(server.url, queue)
        sent += truth.send(server.url, _MESSAGES // 2, queue)
    held = gate.hold(point, answered=answered)
    driver = start("fold", url=gate.url, folder=str(tmp_path))
    held.wait(driver)
    driver.kill()
    held.cut()

    work.fold(spark, server.url, str(tmp_path))

    assert in_sink(spark, tmp_path) == sent
    assert sorted(it.name for it in (tmp_path / "sink").iterdir()) == ["batch=0", "batch=1"]
    for queue in ("q-a", "q-b"):
        assert truth.counters(server.url, queue) == (_MESSAGES // 2, _MESSAGES // 2, 0)
    truth.check_audit(spark, server.url)


def test_commit_lost(spark: Any, server: ThreadServer, tmp_path: Path) -> None:
    """The last batch is run again; the sink's own log knows that it was there."""
    truth.create(server.url)
    sent = truth.send(server.url, _MESSAGES)
    work.stream(spark, server.url, str(tmp_path))
    _lose_last(tmp_path / "checkpoint" / "commits")

    work.stream(spark, server.url, str(tmp_path))

    _check(spark, server, sent, tmp_path)


def test_old_checkpoint(spark: Any, server: ThreadServer, tmp_path: Path) -> None:
    """Spark would give the next messages a number that the sink has already seen, and the sink would drop them. So they
    are not handed out."""
    truth.create(server.url)
    sent = truth.send(server.url, _MESSAGES)
    work.stream(spark, server.url, str(tmp_path))
    _lose_last(tmp_path / "checkpoint" / "commits")
    _lose_last(tmp_path / "checkpoint" / "offsets")
    later = truth.send(server.url, 10)

    with pytest.raises(StreamingQueryException, match="not this query's to read"):
        work.stream(spark, server.url, str(tmp_path))

    assert in_sink(spark, tmp_path) == sent
    assert truth.in_queue(server.url) == later


def _lose_last(log: Path) -> None:
    last = max((it for it in log.iterdir() if it.name.isdecimal()), key=lambda it: int(it.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def _check(spark: Any, server: ThreadServer, sent: truth.Messages, folder: Path) -> None:
    assert in_sink(spark, folder) == sent
    assert truth.counters(server.url) == (sent.total(), sent.total(), 0)
    truth.check_audit(spark, server.url)
