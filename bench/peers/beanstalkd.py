"""beanstalkd, every change synced to its log (`-f0`). It has no batches: a thousand commands go out in one packet."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import servers
from bench.peers.peer import BATCH, BODY, Peer, Running, spoken, started
from bench.wire import Step, Worker, lines

_PUT = b"put 0 0 600 %d\r\n%s\r\n" % (len(BODY), BODY)
_RESERVE = b"reserve-with-timeout 0\r\n"
_RESERVED = re.compile(rb"RESERVED (\d+) ")


def is_reserved(reply: bytes) -> bool:
    return reply.count(b"\r\n") == 2 or reply == b"TIMED_OUT\r\n"


def are_answered(reply: bytes) -> bool:
    """A whole batch: two lines for each job, one for each that there is none."""
    jobs, none = reply.count(b"RESERVED "), reply.count(b"TIMED_OUT\r\n")
    return jobs + none == BATCH and reply.count(b"\r\n") == 2 * jobs + none


class Tubes:
    def greet(self, connection: socket.socket, number: int) -> None:
        pass

    def send(self, number: int) -> Worker:  # noqa: ARG002
        step = Step(_PUT, lines(1), 1)
        while True:
            reply = yield step
            assert reply.startswith(b"INSERTED"), reply

    def cycle(self, number: int) -> Worker:  # noqa: ARG002
        put, reserve, deleted = Step(_PUT, lines(1)), Step(_RESERVE, is_reserved), lines(1)
        while True:
            yield put
            found = _RESERVED.match((yield reserve))
            assert found
            reply = yield Step(b"delete %s\r\n" % found[1], deleted, 1)
            assert reply == b"DELETED\r\n", reply

    def send_batches(self, number: int) -> Worker:  # noqa: ARG002
        step = Step(_PUT * BATCH, lines(BATCH), BATCH)
        while True:
            yield step

    def claim_batches(self, number: int) -> Worker:  # noqa: ARG002
        reserve = Step(_RESERVE * BATCH, are_answered)
        while ids := _RESERVED.findall((yield reserve)):
            request = b"".join(b"delete %s\r\n" % id_ for id_ in ids)
            yield Step(request, lines(len(ids)), len(ids))


@contextmanager
def run(folder: Path) -> Iterator[Running]:
    port, dialect = servers.free_port(), Tubes()
    command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(folder), "-f0"]
    with started(command, port, dialect) as process:
        yield spoken(dialect, port, process.pid)


BEANSTALKD = Peer(
    "beanstalkd",
    "`-f0`; batches are a thousand commands in one packet",
    lambda: "" if servers.is_installed("beanstalkd") else "beanstalkd is not installed",
    run,
)
