"""Load over raw sockets, for the protocols that `wrk` does not speak.

A worker is a generator: it yields a request and is sent the whole reply. The loop below does nothing else, in one
thread and without a parser, and says how much of a core it took: where that is near 1 the load is measured, not the
server.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bench.servers import cpu_seconds

_RECEIVED_AT_ONCE = 1 << 18


class Step(NamedTuple):
    """What is written next, whether what came back is all of the reply, and how many messages that reply finishes."""

    request: bytes
    is_whole: Callable[[bytes], bool]
    done: int = 0


Worker = Generator[Step, bytes, None]


class Dialect(Protocol):
    """How the workers of a measure talk to one kind of server. A worker that finds nothing left returns."""

    def greet(self, connection: socket.socket, number: int) -> None:
        """Whatever a connection needs first; it is not measured."""

    def send(self, number: int) -> Worker: ...

    def cycle(self, number: int) -> Worker:
        """Send, claim, ack, each answered before the next where the protocol has answers."""

    def send_batches(self, number: int) -> Worker: ...

    def claim_batches(self, number: int) -> Worker:
        """Claim and ack."""


@dataclass(frozen=True)
class Rate:
    """Messages a second, and all of them; and the cores that the load and the server were busy with meanwhile."""

    per_second: float
    count: int
    load_cores: float
    server_cores: float


def connect(port: int, dialect: Dialect, number: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    dialect.greet(connection, number)
    return connection


class _Lane:
    """A worker and its connection."""

    __slots__ = ("_left", "_receive", "_send", "_step", "_worker", "connection", "is_done")

    def __init__(self, connection: socket.socket, worker: Worker) -> None:
        self.connection = connection
        self._receive, self._send, self._worker = connection.recv, connection.sendall, worker
        self._left = b""
        self._step = next(worker)
        self.is_done = False

    def start(self) -> None:
        self._send(self._step.request)

    def go_on(self) -> int:
        """How many messages are finished now."""
        data = self._receive(_RECEIVED_AT_ONCE)
        if not data:
            raise ConnectionError("the server has closed the connection")
        if self._left:
            data = self._left + data
        _, is_whole, done = self._step
        if not is_whole(data):
            self._left = data
            return 0
        self._left = b""
        try:
            self._step = step = self._worker.send(data)
        except StopIteration:
            self.is_done = True
            return done
        self._send(step.request)
        return done


def drive(
    port: int, dialect: Dialect, work: Callable[[int], Worker], connections: int, seconds: float, server: int
) -> Rate:
    """All workers at once, until the time is over or they have nothing left. `server` is the process that is asked."""
    lanes = {}
    for number in range(connections):
        lane = _Lane(connect(port, dialect, number), work(number))
        lanes[lane.connection.fileno()] = lane
    count, busy, asked = 0, time.process_time(), cpu_seconds(server)
    with select.epoll() as epoll:
        for descriptor in lanes:
            epoll.register(descriptor, select.EPOLLIN)
        last = started = time.perf_counter()
        for lane in lanes.values():
            lane.start()
        while lanes and time.perf_counter() - started < seconds:
            ready = epoll.poll(0.2)
            for descriptor, _ in ready:
                lane = lanes[descriptor]
                count += lane.go_on()
                if lane.is_done:
                    epoll.unregister(descriptor)
                    lanes.pop(descriptor).connection.close()
            if ready:  # at the end, all may be waiting for messages that do not come
                last = time.perf_counter()
        spent = last - started
    for lane in lanes.values():
        lane.connection.close()
    return Rate(count / spent, count, (time.process_time() - busy) / spent, (cpu_seconds(server) - asked) / spent)


def latencies(port: int, dialect: Dialect, work: Callable[[int], Worker], seconds: float) -> list[float]:
    """Of each step on one connection, in seconds; sorted."""
    times = []
    with connect(port, dialect, 0) as connection:
        worker = work(0)
        step = next(worker)
        until = time.perf_counter() + seconds
        while (started := time.perf_counter()) < until:
            connection.sendall(step.request)
            data = connection.recv(_RECEIVED_AT_ONCE)
            while not step.is_whole(data):
                data += connection.recv(_RECEIVED_AT_ONCE)
            times.append(time.perf_counter() - started)
            step = worker.send(data)
    return sorted(times)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of all is at or below; `ordered` has one at least."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def lines(count: int) -> Callable[[bytes], bool]:
    """A reply of that many lines."""
    return lambda data: data.endswith(b"\r\n") and data.count(b"\r\n") >= count
