"""Redis streams: every write is synced before it is answered (`appendfsync always`).

A claim is an XREADGROUP of one consumer group, an ack is XACK and XDEL in one packet: an entry that is only acked
stays in the stream. Batches are pipelines of a thousand XADD, and one XREADGROUP, XACK and XDEL of a thousand.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import servers
from bench.peers.peer import BATCH, BODY, Peer, Running, spoken
from bench.wire import Step, Worker, lines

_ID = re.compile(rb"\r\n(\d+-\d+)\r\n")
_LINES_BEFORE, _LINES_OF_AN_ENTRY = 5, 8


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


_GROUP = command(b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM")
_XADD = command(b"XADD", b"s", b"*", b"body", BODY)


def _read(number: int, count: int) -> bytes:
    return command(b"XREADGROUP", b"GROUP", b"g", b"w%d" % number, b"COUNT", b"%d" % count, b"STREAMS", b"s", b">")


def has_all_entries(reply: bytes) -> bool:
    """A whole answer to XREADGROUP of one stream, whose entries have one field each; or none."""
    if reply == b"*-1\r\n":
        return True
    head = reply.split(b"\r\n", _LINES_BEFORE)
    if len(head) <= _LINES_BEFORE or not reply.endswith(b"\r\n"):
        return False
    return reply.count(b"\r\n") == _LINES_BEFORE + _LINES_OF_AN_ENTRY * int(head[-2][1:])


def _has_one_entry(reply: bytes) -> bool:
    return reply.count(b"\r\n") == _LINES_BEFORE + _LINES_OF_AN_ENTRY


class Resp:
    def greet(self, connection: socket.socket, number: int) -> None:
        if number == 0:
            connection.sendall(_GROUP)
            connection.recv(200)  # it may say that the group is there

    def send(self, number: int) -> Worker:  # noqa: ARG002
        step = Step(_XADD, lines(2), 1)
        while True:
            reply = yield step
            assert reply.startswith(b"$"), reply

    def cycle(self, number: int) -> Worker:
        send, claim = Step(_XADD, lines(2)), Step(_read(number, 1), _has_one_entry)
        acked = lines(2)
        while True:
            yield send
            found = _ID.search((yield claim))
            assert found
            # Made in one go: the load must cost less than what it asks for.
            id_ = b"$%d\r\n%s\r\n" % (len(found[1]), found[1])
            request = b"*4\r\n$4\r\nXACK\r\n$1\r\ns\r\n$1\r\ng\r\n%s*3\r\n$4\r\nXDEL\r\n$1\r\ns\r\n%s" % (id_, id_)
            reply = yield Step(request, acked, 1)
            assert reply == b":1\r\n:1\r\n", reply

    def send_batches(self, number: int) -> Worker:  # noqa: ARG002
        step = Step(_XADD * BATCH, lines(2 * BATCH), BATCH)
        while True:
            yield step

    def claim_batches(self, number: int) -> Worker:
        claim = Step(_read(number, BATCH), has_all_entries)
        while ids := _ID.findall((yield claim)):
            request = command(b"XACK", b"s", b"g", *ids) + command(b"XDEL", b"s", *ids)
            reply = yield Step(request, lines(2), len(ids))
            assert reply == b":%d\r\n" % len(ids) * 2, reply


@contextmanager
def run(folder: Path) -> Iterator[Running]:
    with servers.redis(folder) as (port, process):
        yield spoken(Resp(), port, process.pid)


REDIS = Peer(
    "Redis streams",
    "`appendfsync always`; XADD, XREADGROUP, XACK + XDEL",
    lambda: "" if servers.is_installed("redis-server") else "redis-server is not installed",
    run,
)
