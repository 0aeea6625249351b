"""What a connection costs the server in memory: one that is idle, and one that waits for a message."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

from bench import servers
from bench.foundation import create_queue, folder
from bench.measure import Effort, Result, at_most
from bench.peers.penstock import is_whole, request

CONNECTIONS = 10_000
_SPARE = 300
_WARM_UP = 50
_IDLE = request("GET /health", b"")
_WAITING = request("POST /v1/queues/q/claim", b'{"wait_ms": 60000}')


def allowed() -> int:
    """As many connections as the limit of open files allows us; it is raised as far as it may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return CONNECTIONS if most == resource.RLIM_INFINITY else min(CONNECTIONS, most - _SPARE)


def ask(connection: socket.socket, asked: bytes) -> None:
    connection.sendall(asked)
    data = connection.recv(10_000)
    while not is_whole(data):
        data += connection.recv(10_000)


def connected(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    """Connections that have had one answer each: it is what an idle one has behind it."""
    made = []
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        ask(connection, _IDLE)
        made.append(connection)
    return made


def kilobytes(count: int) -> tuple[float, float]:
    """Of an idle connection, and of one with a claim that waits."""
    with folder() as path, servers.penstock(path, "--max-connections", str(count + _SPARE)) as (url, process):
        create_queue(url, "q")
        port = servers.port_of(url)
        with ExitStack() as stack:
            connected(stack, port, _WARM_UP)
        with ExitStack() as stack:
            before = servers.resident_mb(process)
            connections = connected(stack, port, count)
            idle = servers.resident_mb(process)
            for connection in connections:
                connection.sendall(_WAITING)
            # Served after all of those: each has been read, and found nothing.
            ask(connected(stack, port, 1)[0], request("POST /v1/queues/q/claim", b"{}"))
            waiting = servers.resident_mb(process)
    return (idle - before) * 1000 / count, (waiting - before) * 1000 / count


def memory(_effort: Effort) -> Iterator[Result]:
    count = allowed()
    idle, waiting = kilobytes(count)
    yield at_most(f"memory of an idle connection, KB, {count:,} of them", 8, idle)
    yield at_most(f"memory of a waiting long poll with its connection, KB, {count:,} of them", 12, waiting)


MEASURES = {"memory": memory}
