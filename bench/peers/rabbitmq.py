"""RabbitMQ: a quorum queue on one node, with publisher confirms.

Spoken in AMQP 0-9-1 by hand. Workers are consumers with a prefetch of one, to whom the server pushes; an ack has no
answer, so it leaves in one packet with the next message. A batch is a thousand messages in one packet, or a thousand
deliveries that one ack finishes.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import servers
from bench.peers.peer import BATCH, BODY, Peer, Running, spoken, started
from bench.wire import Step, Worker

# Not what the package calls `rabbitmq-server`: that one insists on the system's folders.
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_END = b"\xce"
_CONFIRM = struct.Struct(">BHIHHQ?B")
_CONFIRMED = b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50"
_LAST_OF_A_BODY = BODY[-1:] + _END


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def method(class_: int, number: int, arguments: bytes, channel: int = 1) -> bytes:
    return frame(1, channel, struct.pack(">HH", class_, number) + arguments)


_OPENING = (
    b"AMQP\x00\x00\x09\x01",
    method(10, 11, long(b"") + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US"), 0),
    method(10, 31, struct.pack(">HIH", 1, 131_072, 0), 0) + method(10, 40, short(b"/") + short(b"") + b"\0", 0),
    method(20, 10, short(b"")),
    method(85, 10, b"\0"),
    method(50, 10, b"\0\0" + short(b"q") + b"\x02" + long(short(b"x-queue-type") + b"S" + long(b"quorum"))),
)
_PERSISTENT = struct.pack(">HHQHB", 60, 0, len(BODY), 0x1000, 2)
_PUBLISH = method(60, 40, b"\0\0" + short(b"") + short(b"q") + b"\0") + frame(2, 1, _PERSISTENT) + frame(3, 1, BODY)


def _consume(prefetch: int) -> bytes:
    limit = method(60, 10, struct.pack(">IHB", 0, prefetch, 0))
    return limit + method(60, 20, b"\0\0" + short(b"q") + short(b"") + b"\0" + long(b""))


def _ack(tag: int, multiple: bool) -> bytes:
    return method(60, 80, struct.pack(">Q?", tag, multiple))


def is_confirmed(reply: bytes) -> bool:
    return _CONFIRMED in reply and reply.endswith(_END)


def delivered(count: int) -> Callable[[bytes], bool]:
    """That many deliveries, which have their bodies at the end."""
    return lambda reply: reply.endswith(_END) and reply.count(_LAST_OF_A_BODY) >= count


class Confirms:
    """Those of a batch: a server answers each message, or several at once, in any order."""

    def __init__(self) -> None:
        self._through = 0
        self._single: set[int] = set()

    def read(self, reply: bytes) -> int:
        """How many are confirmed by all that was read until now."""
        for kind, _, _, _, number, tag, multiple, _ in _CONFIRM.iter_unpack(reply):
            assert (kind, number) == (1, 80), reply
            if multiple:
                self._through = max(self._through, tag)
            else:
                self._single.add(tag)
        self._single = {tag for tag in self._single if tag > self._through}
        return self._through + len(self._single)


class Amqp:
    def greet(self, connection: socket.socket, number: int) -> None:  # noqa: ARG002
        for request in _OPENING:
            connection.sendall(request)
            reply = connection.recv(100_000)
            while not reply.endswith(_END):
                more = connection.recv(100_000)
                if not more:
                    raise ConnectionError("the server has closed the connection")
                reply += more

    def send(self, number: int) -> Worker:  # noqa: ARG002
        step = Step(_PUBLISH, is_confirmed, 1)
        while True:
            yield step

    def cycle(self, number: int) -> Worker:  # noqa: ARG002
        is_delivered = delivered(1)

        def is_whole(reply: bytes) -> bool:
            return is_confirmed(reply) and is_delivered(reply)

        # The server numbers the deliveries of a channel, so that nothing has to be looked up in them.
        request, tag = _consume(1) + _PUBLISH, 0
        while True:
            yield Step(request, is_whole, 1)
            tag += 1
            request = _ack(tag, False) + _PUBLISH

    def send_batches(self, number: int) -> Worker:  # noqa: ARG002
        confirms, sent = Confirms(), 0

        def are_confirmed(reply: bytes) -> bool:
            return len(reply) % _CONFIRM.size == 0 and confirms.read(reply) == sent

        step = Step(_PUBLISH * BATCH, are_confirmed, BATCH)
        while True:
            sent += BATCH
            yield step

    def claim_batches(self, number: int) -> Worker:  # noqa: ARG002
        """With as many again on their way while a batch is acked."""
        request, tag = _consume(2 * BATCH), 0
        while True:
            reply = yield Step(request, delivered(BATCH), BATCH)
            tag += reply.count(_LAST_OF_A_BODY)
            request = _ack(tag, True)


@contextmanager
def run(folder: Path) -> Iterator[Running]:
    port, registry, dialect = servers.free_port(), servers.free_port(), Amqp()
    environment = os.environ | {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(servers.free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "ERL_EPMD_PORT": str(registry),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    # Erlang would start this one itself and leave it behind.
    names = subprocess.Popen(["epmd"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with started([SERVER], port, dialect, environment) as process:
            yield spoken(dialect, port, process.pid)
    finally:
        names.terminate()
        names.wait()


RABBITMQ = Peer(
    "RabbitMQ",
    "a quorum queue with publisher confirms; consumers are pushed to",
    lambda: "" if Path(SERVER).exists() else "rabbitmq-server is not installed",
    run,
)
