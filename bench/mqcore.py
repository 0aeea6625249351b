"""MQ-Core over its folders: durable posts, what a deep queue costs, and what peers buy."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from bench import servers
from bench.foundation import BODY, CONNECTIONS, folder
from bench.load import wrk
from bench.measure import Effort, Result, at_least, at_most
from penstock import ids
from penstock.clock import system_clock

DEEP = 100_000
SHALLOW = 1_000
FETCHED = 800
WARM_UP = 100
PEERS = 3
DRAINED = 6_000
_MQ = "from penstock.cli.mqcore import mq; mq()"


@contextmanager
def mq(root: Path, *flags: str, program: bool = True) -> Iterator[tuple[int, Path]]:
    """`mq` alone, or the whole server with mover and reaper; the port, and the log it writes until it ends."""
    port = servers.free_port()
    log = root.parent / f"mq-{port}.log"
    if program:
        command = [sys.executable, "-c", _MQ, "--root", str(root)]
    else:
        command = [sys.executable, "-m", "penstock", "serve", "--store", f"mqcore:///{root}"]
    with log.open("w") as stderr:
        process = subprocess.Popen([*command, "--port", str(port), *flags], stderr=stderr)
    try:
        servers.wait_until_it_answers(port, process)
        yield port, log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def fill(root: Path, count: int) -> None:
    """Files as the server would have left them; nothing is measured here, so one sync serves all."""
    queue = root / "queues" / "q"
    queue.mkdir(parents=True)
    origin = ids.new_origin(Random(1))
    now = system_clock()
    for number in range(count):
        (queue / ids.make_id(origin, now, number + 1)).write_bytes(BODY)
    os.sync()


def bare_posts(path: Path, seconds: float) -> float:
    """Messages a second of one process that does for each what the document asks for."""
    new, queue = path / "new", path / "queue"
    new.mkdir()
    queue.mkdir()
    target = os.open(queue, os.O_RDONLY)
    count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        name = f"{count:036}"
        descriptor = os.open(new / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, BODY)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(new / name, queue / name)
        os.fsync(target)
        count += 1
    os.close(target)
    return count / (time.perf_counter() - start)


async def _fetch_and_delete(port: int, wanted: list[int]) -> int:
    """One connection, until as many are taken as all connections want, or the queue is empty."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = 0

    async def ask(request: str) -> bytes:
        writer.write(f"{request} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if length:
            await reader.readexactly(int(length[1]))
        return head

    while wanted[0] > 0:
        wanted[0] -= 1
        head = await ask("GET /q/messages")
        if b" 204 " in head[:20]:
            break
        message = re.search(rb"(?i)x-message-id: (\S+)", head)
        await ask(f"DELETE /q/messages/{message[1].decode()}")
        taken += 1
    writer.close()
    return taken


async def drain(ports: list[int], count: int, connections: int) -> float:
    """Messages a second, fetched and deleted."""
    wanted = [count]
    start = time.perf_counter()
    taken = await asyncio.gather(
        *(_fetch_and_delete(ports[number % len(ports)], wanted) for number in range(connections))
    )
    return sum(taken) / (time.perf_counter() - start)


def create_queue(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", "/q")
    assert connection.getresponse().status == 201
    connection.close()


def posts(effort: Effort) -> Iterator[Result]:
    ratios, rates, bares = [], [], []
    with ExitStack() as kept:
        for _ in range(effort.rounds(3)):
            # Kept to the end: for minutes ext4 looks past every inode that was freed, and creating a file would take
            # longer than syncing it.
            path = kept.enter_context(folder())
            (path / "bare").mkdir()
            bares.append(bare_posts(path / "bare", effort.seconds))
            with mq(path / "root", program=False) as (port, _):
                create_queue(port)
                load = wrk(f"http://127.0.0.1:{port}/q/messages", CONNECTIONS, effort.seconds, "send")
                assert load.errors == 0, load.output
                rates.append(load.per_second)
            ratios.append(rates[-1] / bares[-1])
    yield at_least(
        "MQ-Core durable posts ÷ write+fsync+rename+fsync(dir) per message",
        4,
        statistics.median(ratios),
        posts=statistics.median(rates),
        bare=statistics.median(bares),
    )


def depth(effort: Effort) -> Iterator[Result]:
    many = effort.messages(DEEP)
    rates: dict[int, list[float]] = {many: [], SHALLOW: []}
    with ExitStack() as stack:
        deep = stack.enter_context(folder())
        fill(deep / "root", many)
        for _ in range(effort.rounds(3)):
            with folder() as shallow:
                fill(shallow / "root", SHALLOW)
                for path, count in ((deep, many), (shallow, SHALLOW)):
                    with mq(path / "root", program=False) as (port, _):
                        asyncio.run(drain([port], WARM_UP, 16))
                        rates[count].append(asyncio.run(drain([port], FETCHED, 16)))
    yield at_least(
        f"MQ-Core fetch+delete with {many:,} files ÷ {SHALLOW:,}",
        0.7,
        statistics.median(a / b for a, b in zip(rates[many], rates[SHALLOW], strict=True)),
        deep=statistics.median(rates[many]),
        shallow=statistics.median(rates[SHALLOW]),
    )


def peers(effort: Effort) -> Iterator[Result]:
    count = effort.messages(DRAINED)
    lost = {}
    rate = {}
    for known in (0, PEERS - 1):
        with folder() as path:
            fill(path / "root", count)
            with ExitStack() as stack:
                running = [stack.enter_context(mq(path / "root", "--peers", str(known))) for _ in range(PEERS)]
                rate[known] = asyncio.run(drain([port for port, _ in running], count, 8 * PEERS))
            counts = [re.search(r"(\d+) messages were fetched; (\d+) times", log.read_text()) for _, log in running]
            fetched = sum(int(found[1]) for found in counts if found)
            lost[known] = sum(int(found[2]) for found in counts if found) / max(1, fetched)
    yield at_most(
        f"rename races lost per message, {PEERS} mq, --peers {PEERS - 1} ÷ --peers 0",
        0.5,
        lost[PEERS - 1] / max(lost[0], 1e-9),
        lost_with_peers=lost[PEERS - 1],
        lost_without=lost[0],
        drained_per_second_with_peers=rate[PEERS - 1],
        drained_per_second_without=rate[0],
    )


def mqcore(effort: Effort) -> Iterator[Result]:
    yield from posts(effort)
    yield from depth(effort)
    yield from peers(effort)


MEASURES = {"mqcore": mqcore}
