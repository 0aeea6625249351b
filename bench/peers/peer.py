"""What a peer is: how it is run, and the five things that are asked of each."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.wire import Dialect, Rate, Worker, connect, drive, latencies

WORKERS = 64
BATCHING = 4
BATCH = 1_000
BODY = b"x" * 200
_START_S = 60
_STOP_S = 15


@dataclass(frozen=True)
class Running:
    """A peer that runs. Everything is asked for some seconds; batches are claimed from what is there."""

    sends: Callable[[float], Rate]
    cycles: Callable[[float], Rate]
    batch_sends: Callable[[float], Rate]
    batch_claims: Callable[[float], Rate]
    # Of sends on one connection, in seconds, sorted.
    latencies: Callable[[float], list[float]]
    # How many of so many messages are there after at most so many seconds.
    fill: Callable[[int, float], int]


@dataclass(frozen=True)
class Peer:
    """`missing` says why it cannot be run, if it cannot; `how` what is special about the way it is run and asked."""

    name: str
    how: str
    missing: Callable[[], str]
    run: Callable[[Path], AbstractContextManager[Running]]


def spoken(dialect: Dialect, port: int, server: int) -> Running:
    """A server that is spoken to over raw sockets; `server` is its process."""

    def ask(work: Callable[[int], Worker], connections: int) -> Callable[[float], Rate]:
        return lambda seconds: drive(port, dialect, work, connections, seconds, server)

    def fill(count: int, most_seconds: float) -> int:
        share = -(-count // BATCH // BATCHING)
        rate = drive(
            port, dialect, lambda number: first(dialect.send_batches(number), share), BATCHING, most_seconds, server
        )
        return rate.count

    return Running(
        sends=ask(dialect.send, WORKERS),
        cycles=ask(dialect.cycle, WORKERS),
        batch_sends=ask(dialect.send_batches, BATCHING),
        batch_claims=ask(dialect.claim_batches, BATCHING),
        latencies=lambda seconds: latencies(port, dialect, dialect.send, seconds),
        fill=fill,
    )


def first(worker: Worker, steps: int) -> Worker:
    """The same worker, who returns after so many steps."""
    step = next(worker)
    for _ in range(steps):
        step = worker.send((yield step))


@contextmanager
def started(
    command: list[str], port: int, dialect: Dialect, environment: Mapping[str, str] = os.environ
) -> Iterator[subprocess.Popen[bytes]]:
    """A server as a process of ours, once it speaks."""
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + _START_S
        while True:
            try:
                connect(port, dialect, 0).close()
                break
            except (ConnectionError, TimeoutError):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} did not start") from None
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
