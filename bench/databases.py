"""The PostgreSQL store: durable sends beside the SQLite store, and what a deep queue and dead rows cost a claim.

The server is a private one with PostgreSQL's own settings for durability: every commit waits for the disk.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg

from bench import servers
from bench.foundation import BODY, CONNECTIONS, create_queue
from bench.foundation import sends as sends_over_http
from bench.measure import Effort, Result, absent, at_least
from devtools.databases import NotInstalled, PostgresServer
from penstock.clock import system_clock
from penstock.model import Draft, Receipt, Settings
from penstock.stores import Store, open_store

ROUNDS = 3
# Of a run with the usual seconds; a shorter one has less.
DEEP = 1_000_000
USUAL_SECONDS = 5
SHALLOW = 1_000
PASSED_AT_ONCE = 1_000
CLAIMED = (10, 100)
QUEUE = "q"


def databases(effort: Effort) -> Iterator[Result]:
    try:
        server = PostgresServer()
    except NotInstalled as missing:
        yield absent("the PostgreSQL store", "–", str(missing))
        return
    with server:
        yield sends(server, effort)
        yield from by_depth(server, effort)


def lies_in_memory(server: PostgresServer) -> str:
    """A note where no sync is a real one; nothing otherwise."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", server.folder], capture_output=True, text=True, check=True).stdout
    return "the database lies in memory" if kind.strip() in ("tmpfs", "ramfs") else ""


# Sends


def sends(server: PostgresServer, effort: Effort) -> Result:
    measured = []
    for _ in range(effort.rounds(ROUNDS)):
        url = server.new_url()
        # Beside the database, so that both sync to the same disk.
        with tempfile.TemporaryDirectory(dir=server.folder.parent) as folder:
            measured.append((sends_to(url, effort.seconds), sends_to(Path(folder), effort.seconds)))
        server.drop(url)
    return at_least(
        f"durable sends, PostgreSQL store ÷ SQLite store, {CONNECTIONS} connections",
        0.7,
        statistics.median(postgresql / sqlite for postgresql, sqlite in measured),
        lies_in_memory(server),
        postgresql=statistics.median(postgresql for postgresql, _ in measured),
        sqlite=statistics.median(sqlite for _, sqlite in measured),
    )


def sends_to(store: Path | str, seconds: float) -> float:
    with servers.penstock(store) as (url, _):
        create_queue(url, "q")
        return sends_over_http(url, CONNECTIONS, seconds).per_second


# Depth


def by_depth(server: PostgresServer, effort: Effort) -> Iterator[Result]:
    seconds = effort.seconds
    count = effort.messages(DEEP) if effort.quick else round(DEEP * min(1, seconds / USUAL_SECONDS))
    urls = server.new_url(), server.new_url()
    deep, shallow = (open_store(url, lanes=1) for url in urls)
    fill(deep, count)
    fill(shallow, SHALLOW)
    with ThreadPoolExecutor() as threads:
        list(threads.map(partial(pass_through, count=count), (deep, shallow)))
    dead = [dead_rows(url) for url in urls]
    measured: dict[int, list[tuple[float, float]]] = {batch: [] for batch in CLAIMED}
    for _ in range(effort.rounds(ROUNDS)):
        for batch, rates in measured.items():
            rates.append((claims(deep, batch, seconds), claims(shallow, batch, seconds)))
    for store, url in zip((deep, shallow), urls, strict=True):
        store.close()
        server.drop(url)
    for batch, rates in measured.items():
        yield at_least(
            f"PostgreSQL: claim + ack of {batch} with {count:,} queued ÷ {SHALLOW:,}, after {count:,} more",
            0.8,
            statistics.median(deep_rate / shallow_rate for deep_rate, shallow_rate in rates),
            "messages a second of the time in claim and ack; sends between them hold the depth",
            deep=statistics.median(deep_rate for deep_rate, _ in rates),
            shallow=statistics.median(shallow_rate for _, shallow_rate in rates),
            dead_rows_deep=dead[0],
            dead_rows_shallow=dead[1],
        )


def send(store: Store, count: int) -> None:
    with store.unit() as unit:
        unit.send(QUEUE, [Draft(BODY)] * count, system_clock() + store.ahead_ms)


def claim(store: Store, count: int) -> list[Receipt]:
    with store.unit() as unit:
        claimed = unit.claim(QUEUE, count, system_clock() + store.ahead_ms, None).messages
    assert len(claimed) == count, f"{len(claimed)} of {count} messages were there"
    return [Receipt(message.id, message.claim, QUEUE) for message in claimed]


def ack(store: Store, receipts: list[Receipt]) -> None:
    with store.unit() as unit:
        assert all(unit.ack(receipts, system_clock() + store.ahead_ms))


def fill(store: Store, count: int, at_once: int = 5_000) -> None:
    with store.unit() as unit:
        unit.create_queue(QUEUE, Settings(visibility_ms=600_000), system_clock())
    for first in range(0, count, at_once):
        send(store, min(at_once, count - first))


def pass_through(store: Store, count: int) -> None:
    for _ in range(0, count, PASSED_AT_ONCE):
        send(store, PASSED_AT_ONCE)
        ack(store, claim(store, PASSED_AT_ONCE))


def claims(store: Store, batch: int, seconds: float) -> float:
    """Messages claimed and acked a second, in a unit each. The sends in between are not counted."""
    count, spent = 0, 0.0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        ack(store, claim(store, batch))
        spent += time.perf_counter() - started
        count += batch
        send(store, batch)
    return count / spent


def dead_rows(url: str) -> int:
    """As the server estimates them: those that no vacuum has removed yet."""
    with psycopg.connect(url) as connection:
        [(count,)] = connection.execute("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'message'")
    return int(count)


MEASURES = {"databases": databases}
