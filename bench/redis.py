"""Beside Redis, synced as often: single sends, full cycles, and batches of a thousand.

Both are driven by the same load (`bench/wire.py`), which on one connection waits for each reply before it asks again.
Redis' own `redis-benchmark` is tried for the single sends as well, and the faster of the two counts.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Iterator

from bench import servers
from bench.foundation import BODY, CONNECTIONS, folder
from bench.measure import Effort, Result, absent, at_least, spread
from bench.peers.penstock import Native
from bench.peers.redis import Resp
from bench.wire import Rate, drive

ROUNDS = 3
BATCHING = 4
SENDS = f"durable sends, {CONNECTIONS} connections ÷ Redis XADD, appendfsync always"
CYCLES = f"send → claim → ack cycles, {CONNECTIONS} workers ÷ Redis XADD, XREADGROUP, XACK + XDEL"
BATCH_SENDS = f"native batches of 1,000, {BATCHING} connections: send ÷ Redis XADD, pipelined"
BATCH_CLAIMS = f"native batches of 1,000, {BATCHING} connections: claim + ack ÷ Redis XREADGROUP, XACK + XDEL"
TARGETS = {SENDS: 1.0, CYCLES: 1.0, BATCH_SENDS: 1.2, BATCH_CLAIMS: 1.0}


def ours(seconds: float) -> dict[str, Rate]:
    """Of the two formats that batches have, the faster counts."""
    best: dict[str, Rate] = {}
    for arrow in (False, True):
        dialect = Native("batches", arrow=arrow)
        with folder() as path, servers.penstock(path) as (url, process):
            port = servers.port_of(url)
            for name, work in ((BATCH_SENDS, dialect.send_batches), (BATCH_CLAIMS, dialect.claim_batches)):
                rate = drive(port, dialect, work, BATCHING, seconds, process.pid)
                best[name] = max(best.get(name, rate), rate, key=lambda one: one.per_second)
            if not arrow:
                single = Native("q")
                best[SENDS] = drive(port, single, single.send, CONNECTIONS, seconds, process.pid)
                best[CYCLES] = drive(port, single, single.cycle, CONNECTIONS, seconds, process.pid)
    return best


def theirs(seconds: float) -> dict[str, Rate]:
    dialect = Resp()
    with folder() as path, servers.redis(path) as (port, process):
        works = {
            SENDS: (dialect.send, CONNECTIONS),
            CYCLES: (dialect.cycle, CONNECTIONS),
            BATCH_SENDS: (dialect.send_batches, BATCHING),
            BATCH_CLAIMS: (dialect.claim_batches, BATCHING),
        }
        rates = {
            name: drive(port, dialect, work, connections, seconds, process.pid)
            for name, (work, connections) in works.items()
        }
        benchmark = redis_benchmark(port, seconds)
    if benchmark > rates[SENDS].per_second:
        rates[SENDS] = Rate(benchmark, 0, 0, 0)
    return rates


def redis_benchmark(port: int, seconds: float) -> float:
    count = int(30_000 * seconds)
    command = ["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", str(count), "-q"]
    output = subprocess.run(
        [*command, "XADD", "s", "*", "body", BODY.decode()], capture_output=True, text=True, check=True
    ).stdout
    return float(re.findall(r"([\d.]+) requests per second", output)[-1])


def redis(effort: Effort) -> Iterator[Result]:
    if not servers.is_installed("redis-server"):
        for name, target in TARGETS.items():
            yield absent(name, f"≥ {target}", "redis-server is not installed")
        return
    rounds = [(ours(effort.seconds), theirs(effort.seconds)) for _ in range(effort.rounds(ROUNDS))]
    for name, target in TARGETS.items():
        measured = [(one[name], other[name]) for one, other in rounds]
        ratios = [one.per_second / other.per_second for one, other in measured]
        yield at_least(
            name,
            target,
            statistics.median(ratios),
            spread(ratios),
            penstock=statistics.median(one.per_second for one, _ in measured),
            redis=statistics.median(other.per_second for _, other in measured),
            load_cores=statistics.median(other.load_cores for _, other in measured),
            redis_cores=statistics.median(other.server_cores for _, other in measured),
        )


MEASURES = {"redis": redis}
