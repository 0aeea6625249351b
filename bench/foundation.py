"""The edge, durable sends, full cycles, and what ten million queued messages cost."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import servers
from bench.load import Load, wrk
from bench.measure import Effort, Result, at_least, at_most, spread, told
from penstock.clock import system_clock
from penstock.model import Draft, Settings
from penstock.stores import open_store

CONNECTIONS = 64
BODY = b"x" * 200
DEEP = 10_000_000
SHALLOW = 1_000
_PLAIN = {"retention_timeout": 864_000, "visibility_timeout": 600, "message_deduplication": False}


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk that holds the project: a sync must be a real one, and /tmp may be memory.

    What others have left to be written is written first: it would slow down what comes next.
    """
    os.sync()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent, prefix=".bench-") as path:
        yield Path(path)


def create_queue(url: str, name: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request("PUT", f"/queues/{name}", json.dumps(_PLAIN))
    response = connection.getresponse()
    response.read()
    assert response.status == 201, response.status
    connection.close()


def sends(url: str, connections: int, seconds: float, script: str = "send") -> Load:
    load = wrk(f"{url}/messages/q", connections, seconds, script)
    assert load.errors == 0, load.output
    return load


def cycles(url: str, seconds: float) -> float:
    load = wrk(f"{url}/messages/q", CONNECTIONS, seconds, "cycle")
    assert load.errors == 0, load.output
    return load.per_second / 3


def rounds(effort: Effort) -> Iterator[dict[str, float]]:
    """Everything that is compared is measured in turn, three times, so that noise falls on all alike."""
    seconds = effort.seconds
    for _ in range(effort.rounds(3)):
        figures = {}
        with servers.asgi_noop() as url:
            figures["asgi_noop"] = wrk(f"{url}/noop/q", CONNECTIONS, seconds, "send").per_second
        with servers.edge_noop() as (url, _):
            figures["edge_noop"] = wrk(f"{url}/noop/q", CONNECTIONS, seconds, "send").per_second
            figures["noop_median_us"] = wrk(f"{url}/noop/q", 1, seconds, "send").median_s * 1e6
        with folder() as path:
            with servers.penstock(path) as (url, _):
                create_queue(url, "q")
                figures["sends"] = sends(url, CONNECTIONS, seconds).per_second
                figures["sends_with_new_heads"] = sends(url, CONNECTIONS, seconds, "send_with_new_head").per_second
                figures["cycles"] = cycles(url, seconds)
                figures["send_median_us"] = sends(url, 1, seconds).median_s * 1e6
            figures["fdatasync_median_us"] = fdatasync_median(path) * 1e6
        yield figures


def fdatasync_median(path: Path) -> float:
    """Overwriting one block, as a WAL that has been reset does."""
    times = []
    descriptor = os.open(path / "block", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, bytes(1 << 20), 0)
        os.fsync(descriptor)
        for number in range(500):
            os.pwrite(descriptor, b"y" * 4096, number % 256 * 4096)
            start = time.perf_counter()
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - start)
    finally:
        os.close(descriptor)
    return statistics.median(times)


def speed(effort: Effort) -> Iterator[Result]:
    measured = list(rounds(effort))
    figures = {name: statistics.median(one[name] for one in measured) for name in measured[0]}

    def ratios(over: str, under: str) -> list[float]:
        """Each within its own round."""
        return [one[over] / one[under] for one in measured]

    def shown(*names: str) -> dict[str, float]:
        return {name: figures[name] for name in names}

    edge = ratios("edge_noop", "asgi_noop")
    yield at_least(
        "no-op through our edge ÷ raw ASGI no-op",
        2,
        statistics.median(edge),
        spread(edge),
        **shown("edge_noop", "asgi_noop"),
    )
    durable = ratios("sends", "asgi_noop")
    yield at_least(
        "durable sends ÷ raw ASGI no-op",
        1.5,
        statistics.median(durable),
        spread(durable),
        **shown("sends", "asgi_noop"),
    )
    headed = ratios("sends_with_new_heads", "sends")
    yield told(
        "durable sends, every head new ÷ every head the same",
        statistics.median(headed),
        "what a memory of heads would hide",
        **shown("sends_with_new_heads", "sends"),
    )
    rounds_of_three = [3 * ratio for ratio in ratios("cycles", "sends")]
    yield told(
        "send → claim → ack cycles ÷ (durable sends ÷ 3)",
        statistics.median(rounds_of_three),
        spread(rounds_of_three),
        **shown("cycles", "sends"),
    )
    alone = [one["send_median_us"] / (one["fdatasync_median_us"] + one["noop_median_us"]) for one in measured]
    yield at_most(
        "one connection: durable send ÷ (fdatasync + no-op), medians",
        1.4,
        statistics.median(alone),
        spread(alone),
        **shown("send_median_us", "fdatasync_median_us", "noop_median_us"),
    )


def fill(path: Path, count: int) -> None:
    store = open_store(f"sqlite:///{path}/penstock.db")
    with store.unit() as unit:
        unit.create_queue("q", Settings(visibility_ms=600_000), system_clock())
    draft = Draft(BODY, "application/octet-stream")
    while count:
        batch = min(count, 5_000)
        with store.unit() as unit:
            unit.send("q", [draft] * batch, system_clock())
        count -= batch
    store.close()


def depth(effort: Effort) -> Iterator[Result]:
    count = effort.messages(DEEP)
    with folder() as deep, folder() as empty:
        fill(deep, count)
        fill(empty, 0)
        measured: dict[str, list[tuple[float, float]]] = {"send": [], "send, claim and ack": []}
        for _ in range(effort.rounds(5)):
            with folder() as shallow:  # a fresh one: what is sent here makes it deeper
                fill(shallow, SHALLOW)
                rates = [rates_with(path, effort.seconds) for path in (deep, shallow)]
            for verbs, (deep_rate, shallow_rate) in zip(measured, zip(*rates, strict=True), strict=True):
                measured[verbs].append((deep_rate, shallow_rate))
        for verbs, pairs in measured.items():
            ratios = [deep_rate / shallow_rate for deep_rate, shallow_rate in pairs]
            yield at_least(
                f"{verbs}: rate with {count:,} queued ÷ {SHALLOW:,}",
                0.95,
                statistics.median(ratios),
                spread(ratios),
                deep=statistics.median(deep_rate for deep_rate, _ in pairs),
                shallow=statistics.median(shallow_rate for _, shallow_rate in pairs),
            )
        memory = []
        for path in (deep, empty):
            with servers.penstock(path) as (url, process):
                cycles(url, effort.seconds)
                memory.append(servers.resident_mb(process))
        yield at_most(
            f"memory with {count:,} queued, MB above empty",
            50,
            memory[0] - memory[1],
            deep_mb=memory[0],
            empty_mb=memory[1],
        )
        yield at_most(
            f"start with {count:,} queued, seconds",
            2,
            statistics.median(start_time(deep) for _ in range(effort.rounds(3))),
        )


def rates_with(path: Path, seconds: float) -> tuple[float, float]:
    """Sends a second, and cycles a second. The cycles come first: they leave the depth as it is."""
    with servers.penstock(path) as (url, _):
        cycled = cycles(url, seconds)
        return sends(url, CONNECTIONS, seconds).per_second, cycled


def start_time(path: Path) -> float:
    """From the command to the first answer about the queue."""
    port = servers.free_port()
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--port",
        str(port),
        "--store",
        f"sqlite:///{path}/penstock.db",
    ]
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        servers.wait_until_it_answers(port, process, "/queues/q")
        return time.perf_counter() - start
    finally:
        process.terminate()
        process.wait()


MEASURES = {"speed": speed, "depth": depth}
