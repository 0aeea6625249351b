"""NATS JetStream: a stream on the disk that keeps work until it is acked, and one pull consumer for all workers.

`sync_interval: always` syncs a message before it is confirmed; servers before 2.10 do not know it and sync every two
minutes. Acks are confirmed too. A batch is a thousand messages in one packet, or one request for a thousand.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench import servers
from bench.peers.peer import BATCH, BODY, Peer, Running, spoken, started
from bench.wire import Step, Worker

_STREAM = {"name": "Q", "subjects": ["q"], "retention": "workqueue", "storage": "file"}
_CONSUMER = {
    "stream_name": "Q",
    "config": {
        "durable_name": "W",
        "ack_policy": "explicit",
        "ack_wait": 600 * 10**9,
        "max_ack_pending": -1,
        "max_waiting": 100_000,
    },
}
_ALL = json.dumps({"batch": BATCH, "no_wait": True}).encode()
_ACK_TO = re.compile(rb"(\$JS\.ACK\.\S+)")
_END = b"NATS/1.0 4"
_ALWAYS = "sync_interval: always"


def publish(subject: bytes, inbox: bytes, body: bytes) -> bytes:
    return b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(body), body)


def told(count: int) -> Callable[[bytes], bool]:
    """So many messages without headers, of two lines each; the server may ask meanwhile whether we live."""
    return lambda reply: (
        reply.endswith(b"\r\n") and reply.count(b"\r\n") - reply.count(b"PING\r\n") >= 2 * count and b"MSG" in reply
    )


def has_batch(reply: bytes) -> bool:
    """All that was asked for, or what there is and a word that this is the end."""
    if not reply.endswith(b"\r\n"):
        return False
    found = reply.count(b"$JS.ACK.")
    return _END in reply or (found == BATCH and reply.count(b"\r\n") - reply.count(b"PING\r\n") >= 2 * found)


def _inbox(number: int) -> bytes:
    return b"_INBOX.%d.a" % number


class JetStream:
    def greet(self, connection: socket.socket, number: int) -> None:
        connection.recv(10_000)
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        connection.sendall(
            b"CONNECT %s\r\nSUB %s 1\r\nPING\r\n" % (json.dumps(options).encode(), _inbox(number)),
        )
        _read_until(connection, b"PONG\r\n")
        if number == 0:
            for subject, asked in ((b"STREAM.CREATE.Q", _STREAM), (b"CONSUMER.DURABLE.CREATE.Q.W", _CONSUMER)):
                connection.sendall(publish(b"$JS.API." + subject, _inbox(0), json.dumps(asked).encode()))
                reply = _read_until(connection, b"}\r\n")
                assert b'"error"' not in reply, reply

    def send(self, number: int) -> Worker:
        step = Step(publish(b"q", _inbox(number), BODY), told(1), 1)
        while True:
            reply = yield step
            assert b'"seq"' in reply, reply

    def cycle(self, number: int) -> Worker:
        one = told(1)
        send = Step(publish(b"q", _inbox(number), BODY), one)
        claim = Step(publish(b"$JS.API.CONSUMER.MSG.NEXT.Q.W", _inbox(number), b""), one)
        while True:
            yield send
            found = _ACK_TO.search((yield claim))
            assert found
            yield Step(publish(found[1], _inbox(number), b"+ACK"), one, 1)

    def send_batches(self, number: int) -> Worker:
        step = Step(publish(b"q", _inbox(number), BODY) * BATCH, told(BATCH), BATCH)
        while True:
            yield step

    def claim_batches(self, number: int) -> Worker:
        claim = Step(publish(b"$JS.API.CONSUMER.MSG.NEXT.Q.W", _inbox(number), _ALL), has_batch)
        while found := _ACK_TO.findall((yield claim)):
            request = b"".join(publish(to, _inbox(number), b"+ACK") for to in found)
            yield Step(request, told(len(found)), len(found))


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    data = connection.recv(10_000)
    while not data.endswith(end):
        data += connection.recv(10_000)
    return data


def configuration(folder: Path, port: int, always: str) -> Path:
    path = folder / "nats.conf"
    path.write_text(f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/js"\n{always}\n}}\n')
    return path


@cache
def syncs_always() -> bool:
    if not servers.is_installed("nats-server"):
        return True
    with tempfile.TemporaryDirectory() as folder:
        test = ["nats-server", "-t", "-c", str(configuration(Path(folder), 4222, _ALWAYS))]
        return subprocess.run(test, capture_output=True, check=False).returncode == 0


@contextmanager
def run(folder: Path) -> Iterator[Running]:
    port, dialect = servers.free_port(), JetStream()
    config = configuration(folder, port, _ALWAYS if syncs_always() else "")
    with started(["nats-server", "-c", str(config)], port, dialect) as process:
        yield spoken(dialect, port, process.pid)


def nats() -> Peer:
    durable = syncs_always()
    return Peer(
        "NATS JetStream" if durable else "NATS JetStream, not durable",
        _ALWAYS
        if durable
        else "this version confirms what it has not synced: it does not know `sync_interval: always`",
        lambda: "" if servers.is_installed("nats-server") else "nats-server is not installed",
        run,
    )
