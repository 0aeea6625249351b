"""Draining a queue into a lake: beside plain Python, with how much of the machine each part takes, what others wait for
meanwhile, and at a depth.

Spark's session is open and warm before anything is timed, but where its start is what is timed. `--seconds` scales the
number of messages: the usual five seconds stand for 2,000,000 of 200 bytes, and for 5,000,000 beside 500,000;
`--only drain-depth --seconds 50` takes 50,000,000 beside 5,000,000.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import servers
from bench.measure import Effort, Result, at_least, at_most, described
from bench.processes import family, memory_mb
from penstock.client import Client, ShipmentRef
from penstock.clock import system_clock
from penstock.model import Draft, Message, Receipt, Settings
from penstock.spark.jobs import Run, Server, drain
from penstock.spark.session import open_session
from penstock.stores import open_store

MESSAGES = 2_000_000
ON_THE_FILE = 500_000
TIMES_DEEPER = 10
USUAL_SECONDS = 5
ROUNDS = 2
# Of what takes a few seconds, so that a busy moment of the machine weighs little.
SHORT_ROUNDS = 4
QUEUE = "q"
SHIPMENT = 500_000
# As many as our own shipments claim and settle in a unit.
PLAIN_BATCH = 5_000
FILE_ROWS = 100_000
GROUP_ROWS = 128 * 1024
_SENT = 10_000
_PAUSE_S = 0.01


def drains(effort: Effort) -> Iterator[Result]:
    count = _scaled(MESSAGES, effort)
    yield _nothing()
    with _warm_session() as (spark, folder):
        yield _beside_the_file(spark, folder, _scaled(ON_THE_FILE, effort))
        yield from _beside_http(spark, folder, count, effort.rounds(ROUNDS))
        yield _meanwhile(spark, folder, count // 4)


def drain_depth(effort: Effort) -> Iterator[Result]:
    with _warm_session() as (spark, folder):
        yield _deeper(spark, folder, _scaled(ON_THE_FILE, effort))


def _scaled(count: int, effort: Effort) -> int:
    return max(20_000, int(count * effort.seconds / USUAL_SECONDS))


@contextmanager
def _warm_session() -> Iterator[tuple[Any, Path]]:
    """A session that has drained before, and an empty folder."""
    spark = open_session("bench")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
            warm(spark, Path(name))
            yield spark, Path(name)
    finally:
        spark.stop()


# Queues


def body_of(number: int) -> bytes:
    """An order of 200 bytes, as JSON."""
    head = b'{"order": %d, "customer": "c%d", "total": %d.5, "note": "' % (number, number % 997, number % 89)
    return head + b"x" * (198 - len(head)) + b'"}'


@contextmanager
def filled(folder: Path, count: int) -> Iterator[Path]:
    """A folder with a store that holds so many messages."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        _fill(Path(name, "penstock.db"), count)
        yield Path(name)


def _fill(store: Path, count: int) -> None:
    opened = open_store(f"sqlite:///{store}")
    with opened.unit() as unit:
        unit.create_queue(QUEUE, Settings(), system_clock())
    for start in range(0, count, _SENT):
        drafts = [Draft(body_of(number)) for number in range(start, min(count, start + _SENT))]
        with opened.unit() as unit:
            unit.send(QUEUE, drafts, system_clock())
    opened.close()


def timed(function: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    function()
    return time.perf_counter() - started_at


def warm(spark: Any, folder: Path) -> None:
    with filled(folder, 10_000) as store, servers.penstock(store) as (url, _process):
        drain(Server(url), QUEUE, str(store / "lake"), limit=5_000, lanes=2, run=Run(spark))


def checked_drain(spark: Any, url: str, store: Path, count: int, **options: Any) -> None:
    done = drain(Server(url), QUEUE, str(store / "lake"), run=Run(spark), **options)
    if done.messages != count or done.problems:
        raise RuntimeError(f"drained {done.messages} of {count}: {done.problems}")


# An empty queue


def _nothing() -> Result:
    """The whole command, as a user or a timer runs it, and what the start of a session alone takes."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        with filled(folder, 0) as store, servers.penstock(store) as (url, _process):
            command = [sys.executable, "-m", "penstock", "pipeline", "drain", "--queue", QUEUE]
            words = ["--url", url, "--lake", str(folder / "lake")]
            run = partial(subprocess.run, [*command, *words], check=True, capture_output=True)
            took = min(timed(run) for _ in range(ROUNDS))
        session = "from penstock.spark import open_session; open_session().stop()"
        start = min(timed(partial(subprocess.run, [sys.executable, "-c", session], check=True)) for _ in range(ROUNDS))
    return at_most("seconds of `penstock pipeline drain` on an empty queue", 8, took, spark_alone_s=start)


# Beside the store's own verbs


def _beside_the_file(spark: Any, folder: Path, count: int) -> Result:
    """Each side's best of a few rounds, one after the other."""
    ours, plain = [], []
    for _ in range(SHORT_ROUNDS):
        with filled(folder, count) as store:
            plain.append(count / timed(partial(_drain_file, store, count)))
        with filled(folder, count) as store, servers.penstock(store) as (url, _process):
            ours.append(count / timed(partial(checked_drain, spark, url, store, count)))
    return at_least(
        "`drain` to Parquet ÷ plain Python claiming, writing and acking on the file",
        1.2,
        max(ours) / max(plain),
        drain=max(ours),
        plain=max(plain),
        messages=count,
    )


def _drain_file(folder: Path, count: int) -> None:
    """The store's own verbs in a loop, and Arrow's own writer: no server, no Spark."""
    store = open_store(f"sqlite:///{folder}/penstock.db")
    done, file, held = 0, 0, []
    while done < count:
        with store.unit() as unit:
            messages = unit.claim(QUEUE, PLAIN_BATCH, system_clock(), 3_600_000).messages
        held += messages
        done += len(messages)
        if len(held) >= FILE_ROWS or done == count:
            pq.write_table(_table(held), folder / f"plain-{file}.parquet")
            for start in range(0, len(held), PLAIN_BATCH):
                receipts = [Receipt(it.id, it.claim, QUEUE) for it in held[start : start + PLAIN_BATCH]]
                with store.unit() as unit:
                    unit.ack(receipts, system_clock())
            held = []
            file += 1
    store.close()


def _table(messages: list[Message]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([it.id for it in messages]),
            "body": pa.array([it.body for it in messages], pa.binary()),
            "content_type": pa.array([it.content_type for it in messages], pa.string()),
            "sent_at": pa.array([it.sent_at for it in messages], pa.timestamp("ms", tz="UTC")),
            "receives": pa.array([it.receives for it in messages], pa.int32()),
        }
    )


# Beside a program over HTTP


def _beside_http(spark: Any, folder: Path, count: int, rounds: int) -> Iterator[Result]:
    """A round of each, one after the other, so that all see the same machine."""
    took: dict[str, list[float]] = {"plain": [], "one": [], "two": []}
    spent: list[dict[str, float]] = []
    for _ in range(rounds):
        with filled(folder, count) as store, servers.penstock(store) as (url, _process):
            took["plain"].append(timed(partial(_drain_http, url, store, count)))
        for name, lanes in (("one", 1), ("two", 2)):
            with filled(folder, count) as store, servers.penstock(store) as (url, process):
                before = _spent(spark, process.pid)
                run = partial(checked_drain, spark, url, store, count, lanes=lanes, limit=SHIPMENT)
                took[name].append(timed(run))
                after = _spent(spark, process.pid)
                spent.append({part: (after[part] - before[part]) / count * 1e6 for part in after})
    rates = {name: count / min(seconds) for name, seconds in took.items()}
    for name, words, target in (("one", "one task", 0.9), ("two", "two tasks", 1.2)):
        yield at_least(
            f"`drain` with {words} ÷ plain Python over HTTP, reading Arrow and writing with pyarrow",
            target,
            rates[name] / rates["plain"],
            drain=rates[name],
            plain=rates["plain"],
            messages=count,
        )
    least = min(spent, key=lambda parts: sum(parts.values()))
    parts = {f"{part}_s": seconds for part, seconds in least.items()}
    yield at_most("CPU seconds of a `drain` for a million messages, all processes", 18, sum(least.values()), **parts)


def _meanwhile(spark: Any, folder: Path, count: int) -> Result:
    with filled(folder, count) as store, servers.penstock(store) as (url, _process), _sending(url) as waits:
        checked_drain(spark, url, store, count, lanes=2, limit=SHIPMENT)
    seconds = sorted(waits.seconds)
    median = seconds[len(seconds) // 2]
    return described(
        "sends of one client while a `drain` with two tasks runs",
        longest_ms=1000 * seconds[-1],
        median_ms=1000 * median,
        sends=len(seconds),
    )


def _drain_http(url: str, folder: Path, count: int) -> None:
    """Shipments of the same size, page by page, each a file: what somebody would write who has no Spark."""
    done = 0
    with Client(url) as client:
        number = 0
        while done < count:
            number += 1
            shipment = client.claim_shipment(ShipmentRef(QUEUE, "plain", number), SHIPMENT, 3_600_000)
            if shipment is None:
                raise RuntimeError(f"drained {done} of {count}")
            pages = client.arrow.read_shipment(shipment, 0, shipment.messages)
            _write(folder / f"plain-{number}.parquet", pages)
            client.settle_shipment(shipment)
            done += shipment.messages


def _write(file: Path, pages: Iterator[pa.RecordBatch]) -> None:
    held: list[pa.RecordBatch] = []
    first = next(pages)
    with pq.ParquetWriter(file, first.schema) as writer:
        for page in chain([first], pages):
            held.append(page)
            if sum(it.num_rows for it in held) >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held))


def _spent(spark: Any, server: int) -> dict[str, float]:
    """CPU seconds so far: of the server, of the JVM, of its Python workers, and of this process, the driver."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    everyone = family(jvm)
    return {
        "server": sum(it.cpu_s + it.ended_cpu_s for it in family(server)),
        "jvm": sum(it.cpu_s for it in everyone if it.pid == jvm),
        "workers": sum(it.cpu_s + it.ended_cpu_s for it in everyone if it.pid != jvm),
        "driver": time.process_time(),
    }


@dataclass
class _Waits:
    seconds: list[float]


@contextmanager
def _sending(url: str) -> Iterator[_Waits]:
    """Another client, which sends a message now and then to a queue of its own; how long each took."""
    waits, done = _Waits([]), threading.Event()
    address = url.removeprefix("http://")
    setup = http.client.HTTPConnection(address)
    setup.request("PUT", "/v1/queues/beside", b"{}")
    setup.getresponse().read()

    def send() -> None:
        body = json.dumps({"messages": [{"body": "x"}]})
        while not done.wait(_PAUSE_S):
            started_at = time.perf_counter()
            setup.request("POST", "/v1/queues/beside/messages", body, {"Content-Type": "application/json"})
            setup.getresponse().read()
            waits.seconds.append(time.perf_counter() - started_at)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield waits
    finally:
        done.set()
        thread.join()
        setup.close()


# Depth


def _deeper(spark: Any, folder: Path, count: int) -> Result:
    """The few before the many and after them: a machine is not as fast from one minute to the next. The memory is the
    most that each part held with the many, seen once a second."""
    deep = count * TIMES_DEEPER
    before, _ = _watched_drain(spark, folder, count)
    rate, most = _watched_drain(spark, folder, deep)
    after, _ = _watched_drain(spark, folder, count)
    return at_least(
        f"`drain` of {deep:,} ÷ of {count:,}, messages a second",
        0.95,
        rate / ((before + after) / 2),
        messages_per_s=rate,
        few_before=before,
        few_after=after,
        **most,
    )


def _watched_drain(spark: Any, folder: Path, messages: int) -> tuple[float, dict[str, float]]:
    """Messages a second, and what `_watching` saw."""
    with filled(folder, messages) as store, servers.penstock(store) as (url, process):
        with _watching(spark, process.pid) as most:
            took = timed(partial(checked_drain, spark, url, store, messages))
        return messages / took, most


@contextmanager
def _watching(spark: Any, server: int) -> Iterator[dict[str, float]]:
    """The most memory of each part while this lasts, in megabytes."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    most = {"server_mb": 0.0, "jvm_mb": 0.0, "largest_worker_mb": 0.0, "driver_mb": 0.0}
    done = threading.Event()

    def look() -> None:
        while not done.wait(1.0):
            workers = [it.pid for it in family(jvm) if it.pid != jvm]
            for name, pids in (("server_mb", [server]), ("jvm_mb", [jvm]), ("driver_mb", [os.getpid()])):
                most[name] = max(most[name], *map(_resident_mb, pids))
            most["largest_worker_mb"] = max([most["largest_worker_mb"], *map(_resident_mb, workers)])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _resident_mb(pid: int) -> float:
    """0 where it has ended meanwhile."""
    try:
        return memory_mb(pid)[0]
    except OSError:
        return 0.0


MEASURES = {"drains": drains, "drain-depth": drain_depth}
