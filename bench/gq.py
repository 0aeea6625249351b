"""gq on PostgreSQL: pushes beside plain psycopg, consumers in several processes, two other queues on PostgreSQL, and
the same on MariaDB.

Everybody works on a private server with its usual durability, and on a fresh database for each measurement. What is
consumed is worked off from the start of the worker to its return after the last job, with every outcome written; the
jobs do nothing, and the planner knows the tables, as it does a minute after they were filled. The other queues run from
an environment of their own, one process against one of ours; of every queue, ours too, the fastest of a few settings
counts (`bench/peers/`).
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from ctypes import Array, c_double, c_longlong
from dataclasses import dataclass
from itertools import count
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

from bench.databases import QUEUE, ROUNDS, fill, lies_in_memory
from bench.foundation import BODY
from bench.measure import Effort, Result, absent, at_least, spread
from devtools.databases import MariadbServer, NotInstalled, PostgresServer, Server
from penstock.clock import system_clock
from penstock.gq import Client
from penstock.ids import body_hash
from penstock.stores import open_store

BATCH = 100
LARGE_BATCH = 1_000
PROCESSES = 4
JOBS_A_SECOND = 10_000
PEERS = Path(__file__).parent / "peers"
PYTHON = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
START_SECONDS = 60
BESIDE_PEERS = f"gq consume in batches of {BATCH} ÷ the fastest of pgqueuer and procrastinate, one process each"
PASSED_IN = (10, 100)


@dataclass(frozen=True)
class Setting:
    """How a peer is run: `size` is PgQueuer's batch or Procrastinate's concurrency, `workers` those in its process."""

    peer: str
    size: int
    workers: int
    # So many are queued as the peer may work off, or more: what is left after twice the seconds stays.
    jobs_a_second: int

    def __str__(self) -> str:
        return f"{self.size} × {self.workers}"


SETTINGS = (
    Setting("pgqueuer", BATCH, 1, JOBS_A_SECOND),
    Setting("pgqueuer", 1_000, 1, JOBS_A_SECOND),
    Setting("pgqueuer", 200, 4, JOBS_A_SECOND),
    Setting("procrastinate", 1, 16, JOBS_A_SECOND // 10),
    Setting("procrastinate", 4, 8, JOBS_A_SECOND // 10),
)


def gq(effort: Effort) -> Iterator[Result]:
    try:
        server = PostgresServer()
    except NotInstalled as missing:
        yield absent("gq on PostgreSQL", "–", str(missing))
        return
    with server:
        yield pushing(server, effort)
        yield from consuming(server, effort)
        yield from passing(server, effort)


# Pushing


def pushing(server: PostgresServer, effort: Effort) -> Result:
    measured = []
    for _ in range(effort.rounds(ROUNDS)):
        url = server.new_url()
        measured.append((pushes(url, effort.seconds), plain_inserts(url, effort.seconds)))
        server.drop(url)
    return at_least(
        f"gq push in batches of {BATCH} ÷ plain psycopg inserts, {BATCH} a commit",
        0.6,
        statistics.median(ours / plain for ours, plain in measured),
        lies_in_memory(server) or "plain psycopg draws no numbers, hashes and tallies nothing",
        push=statistics.median(ours for ours, _ in measured),
        plain=statistics.median(plain for _, plain in measured),
    )


def pushes(url: str, seconds: float) -> float:
    done = 0
    with Client(url) as client:
        producer = client.producer(QUEUE, BATCH)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            for _ in range(BATCH):
                producer.push(BODY)
            done += BATCH
        producer.flush()
        return done / (time.perf_counter() - started)


_INSERT = """INSERT INTO plain (seq, queue, ready_at, sent_at, receives, claim, body_hash, body)
             VALUES (%s, 1, 0, %s, 0, 0, %s, %s)"""


def plain_inserts(url: str, seconds: float) -> float:
    """Into a table that has the columns and the indexes of ours."""
    seqs, hashed, done = count(1), body_hash(BODY), 0
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET search_path = penstock; CREATE TABLE plain (LIKE message INCLUDING ALL)")
        connection.commit()
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            now = system_clock()
            cursor.executemany(_INSERT, [(next(seqs), now, hashed, BODY) for _ in range(BATCH)])
            connection.commit()
            done += BATCH
        return done / (time.perf_counter() - started)


# Consuming


def consuming(server: PostgresServer, effort: Effort) -> Iterator[Result]:
    seconds = effort.seconds
    rates: dict[object, list[float]] = defaultdict(list)
    versions = {}
    # The first two are the fastest peer, at our size of batches and at its best.
    settings = () if not PYTHON.exists() else SETTINGS[:2] if effort.quick else SETTINGS
    for _ in range(effort.rounds(ROUNDS)):
        for processes, batch in ((1, BATCH), (PROCESSES, BATCH), (1, LARGE_BATCH)):
            rates[processes, batch].append(consumed(server, round(JOBS_A_SECOND * seconds), processes, batch))
        for setting in settings:
            rate, versions[setting.peer] = worked_off(server, setting, seconds)
            rates[setting].append(rate)
    yield at_least(
        f"gq consume in batches of {BATCH}, {PROCESSES} processes ÷ 1",
        1.2,
        statistics.median(many / one for many, one in zip(rates[PROCESSES, BATCH], rates[1, BATCH], strict=True)),
        f"{multiprocessing.cpu_count()} cores, which the database shares",
        four=statistics.median(rates[PROCESSES, BATCH]),
        one=statistics.median(rates[1, BATCH]),
    )
    if not settings:
        yield absent(BESIDE_PEERS, "≥ 2", f"there is no {PYTHON.parent.parent.name}, which make bench sets up")
        return
    medians = {setting: statistics.median(rates[setting]) for setting in settings}
    fastest = max(medians, key=lambda setting: medians[setting])
    named = {
        peer: max((one for one in settings if one.peer == peer), key=lambda one: medians[one]) for peer in versions
    }
    ratios = [own / theirs for own, theirs in zip(rates[1, BATCH], rates[fastest], strict=True)]
    at_their_best = [f"{peer} {versions[peer]} at its fastest, {one}" for peer, one in named.items()]
    yield at_least(
        BESIDE_PEERS,
        2,
        statistics.median(ratios),
        ", ".join(filter(None, [*at_their_best, spread(ratios)])),
        gq=statistics.median(rates[1, BATCH]),
        gq_in_batches_of_1000=statistics.median(rates[1, LARGE_BATCH]),
        **{peer: medians[one] for peer, one in named.items()},
        pgqueuer_in_batches_of_100=medians[SETTINGS[0]],
    )


def consumed(server: PostgresServer, jobs: int, processes: int, batch: int) -> float:
    """Messages a second of all processes together, which start at once."""
    url = server.new_url()
    store = open_store(url, lanes=1)
    fill(store, jobs)
    store.close()
    with psycopg.connect(url) as connection:
        connection.execute("ANALYZE")
    context = multiprocessing.get_context("spawn")
    done, ended = context.RawArray(c_longlong, processes), context.RawArray(c_double, processes)
    barrier = context.Barrier(processes + 1)
    children = [
        context.Process(target=consume, args=(url, jobs, batch, number, done, ended, barrier))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    try:
        barrier.wait(START_SECONDS)
        started = time.monotonic()
        while not any(ended):
            assert all(child.is_alive() for child in children) or any(ended), "a consumer has ended too early"
            time.sleep(0.005)
        spent = max(ended) - started  # the others only notice later that nothing is left
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.join()
    server.drop(url)
    assert sum(done) == jobs, f"{sum(done)} callbacks for {jobs} messages"
    return jobs / spent


def consume(
    url: str, jobs: int, batch: int, number: int, done: Array[c_longlong], ended: Array[c_double], barrier: Barrier
) -> None:
    """Until SIGTERM, or the last message: who has that one tells when its outcome was written."""
    with Client(url) as client:
        consumer = client.consumer(QUEUE, batch)

        def callback(_payload: bytes) -> None:
            done[number] += 1
            if sum(done) == jobs:
                consumer.stop()

        barrier.wait(START_SECONDS)
        consumer.process(callback)
        if sum(done) == jobs:
            ended[number] = time.monotonic()


def worked_off(server: PostgresServer, setting: Setting, seconds: float) -> tuple[float, str]:
    """Jobs a second, and the version that did them."""
    url = server.new_url()
    sizes = [round(setting.jobs_a_second * seconds), 2 * seconds, setting.size, setting.workers]
    # `-P`: what lies beside the program is not what it imports.
    command = [PYTHON, "-P", PEERS / f"drain_{setting.peer}.py", url, *map(str, sizes)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    server.drop(url)
    done, spent, version = output.split()
    return int(done) / float(spent), version


# The other database


def passing(postgresql: PostgresServer, effort: Effort) -> Iterator[Result]:
    """Pushed and consumed by one process, which has nothing else to do."""
    names = {batch: f"gq push and consume in batches of {batch}, MariaDB ÷ PostgreSQL" for batch in PASSED_IN}
    try:
        mariadb = MariadbServer()
    except NotInstalled as missing:
        for name in names.values():
            yield absent(name, "≥ 0.5", str(missing))
        return
    measured: dict[int, list[tuple[float, float]]] = {batch: [] for batch in PASSED_IN}
    with mariadb:
        for _ in range(effort.rounds(ROUNDS)):
            for batch, rates in measured.items():
                rates.append((passed(mariadb, batch, effort.seconds), passed(postgresql, batch, effort.seconds)))
    for batch, rates in measured.items():
        ratios = [one / other for one, other in rates]
        yield at_least(
            names[batch],
            0.5,
            statistics.median(ratios),
            spread(ratios),
            mariadb=statistics.median(one for one, _ in rates),
            postgresql=statistics.median(other for _, other in rates),
        )


def passed(server: Server, batch: int, seconds: float) -> float:
    """Messages a second: pushed for half of the time, then consumed until none is left."""
    url = server.new_url()
    pushed = done = 0
    with Client(url) as client:
        producer, consumer = client.producer(QUEUE, batch), client.consumer(QUEUE, batch)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds / 2:
            for _ in range(batch):
                producer.push(BODY)
            pushed += batch
        producer.flush()

        def callback(_payload: bytes) -> None:
            nonlocal done
            done += 1
            if done == pushed:
                consumer.stop()

        consumer.process(callback)
        spent = time.perf_counter() - started
    server.drop(url)
    return pushed / spent


MEASURES = {"gq": gq}
