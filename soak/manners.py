"""Clients as they should not be, on real sockets: each connects once, does something bad, and leaves.

Each is a function of a `Caller` that returns when it is done; none of them needs long. What they send must never be
done: it goes to `FORBIDDEN`, where nothing may ever arrive. What they do send well goes to `SCRATCH`.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

FORBIDDEN, SCRATCH = "forbidden", "scratch"
_PATIENCE_S = 20.0
_RESET = struct.pack("ii", 1, 0)


class Caller:
    """One client's way to the server. `tls` is None where the server speaks none."""

    def __init__(self, port: int, random: Random, tls: ssl.SSLContext | None) -> None:
        self.port = port
        self.random = random
        self.tls = tls
        self._opened: list[socket.socket] = []

    def raw(self) -> socket.socket:
        return self._noted(socket.create_connection(("127.0.0.1", self.port), _PATIENCE_S))

    def _noted(self, sock: socket.socket) -> socket.socket:
        self._opened.append(sock)
        return sock

    def close(self) -> None:
        """Whatever became of it."""
        for sock in self._opened:
            sock.close()
        self._opened.clear()

    def open(self) -> socket.socket:
        """With TLS, if the server speaks it."""
        raw = self.raw()
        if self.tls is None:
            return raw
        try:
            return self._noted(self.tls.wrap_socket(raw))
        except OSError:
            raw.close()
            raise


def request(queue: str, body: bytes = b"x", *headers: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [b"POST /messages/%b HTTP/1.1" % queue.encode(), b"Host: 127.0.0.1", b"Content-Length: %d" % size, *headers]
    return b"\r\n".join((*lines, b"", b"")) + body


def claim(wait_ms: int) -> bytes:
    body = b'{"wait_ms": %d}' % wait_ms
    head = b"POST /v1/queues/%b/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
    return head % (FORBIDDEN.encode(), len(body)) + body


def _reset(sock: socket.socket) -> None:
    """Leave with an RST, as a process that is killed with bytes unread."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def _half_close(sock: socket.socket) -> None:
    with suppress(OSError):
        (sock.unwrap() if isinstance(sock, ssl.SSLSocket) else sock).shutdown(socket.SHUT_WR)


def _read_to_the_end(sock: socket.socket) -> bytes:
    read = b""
    with suppress(OSError):
        while data := sock.recv(65536):
            read += data
    return read


def _leave(caller: Caller, sock: socket.socket) -> None:
    """In one of the ways there are."""
    way = caller.random.randrange(3)
    if way == 0:
        _reset(sock)
    elif way == 1:
        _half_close(sock)
        _read_to_the_end(sock)
    sock.close()


def half_a_head(caller: Caller) -> None:
    data = request(FORBIDDEN)
    sock = caller.open()
    sock.sendall(data[: caller.random.randrange(1, data.index(b"\r\n\r\n") + 2)])
    _leave(caller, sock)


def half_a_body(caller: Caller) -> None:
    size = caller.random.choice((1, 100, 70_000, 400_000))
    sock = caller.open()
    sock.sendall(request(FORBIDDEN, b"x" * (size // 2), length=size))
    _leave(caller, sock)


def half_a_chunk(caller: Caller) -> None:
    sock = caller.open()
    head = b"POST /messages/%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % FORBIDDEN.encode()
    sock.sendall(
        head + caller.random.choice((b"", b"5", b"5\r\nhel", b"5\r\nhello\r\n", b"fffffff\r\n" + b"x" * 100_000))
    )
    _leave(caller, sock)


def nothing(caller: Caller) -> None:
    _leave(caller, caller.raw())


def gone_before_the_answer(caller: Caller) -> None:
    """It may be done or not; no one is told."""
    sock = caller.open()
    sock.sendall(request(SCRATCH) * caller.random.choice((1, 5, 50)))
    _reset(sock)


def half_closed_with_a_whole_request(caller: Caller) -> None:
    sock = caller.open()
    sock.sendall(request(SCRATCH))
    _half_close(sock)
    _read_to_the_end(sock)
    sock.close()


def slow(caller: Caller) -> None:
    """Byte by byte, until it has no more time or is told that it is too slow."""
    sock = caller.open()
    until = time.monotonic() + caller.random.uniform(0.01, 0.3)
    with suppress(OSError):
        for byte in request(FORBIDDEN, b"x" * 10_000):
            sock.sendall(bytes([byte]))
            time.sleep(0.005)
            if time.monotonic() > until:
                break
    _leave(caller, sock)


def pipelined_after_an_error(caller: Caller) -> None:
    """What stands behind a request that cannot be read must not be done."""
    wrong = caller.random.choice(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            b"POST /messages/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            b"POST /messages/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /messages/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
            b"noise\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"POST /messages/x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n",
        )
    )
    sock = caller.open()
    with suppress(OSError):
        sock.sendall(wrong + request(FORBIDDEN) * caller.random.randrange(1, 30))
        _half_close(sock)
        _read_to_the_end(sock)
    sock.close()


def gone_while_it_waits(caller: Caller) -> None:
    """A claim whose client has gone must take no message."""
    sock = caller.open()
    sock.sendall(claim(60_000))
    time.sleep(caller.random.uniform(0, 0.05))
    _leave(caller, sock)


def deaf(caller: Caller) -> None:
    """Asks for far more than it reads."""
    sock = caller.open()
    with suppress(OSError):
        sock.settimeout(0.2)
        for _ in range(20):
            sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 5)
    _reset(sock)


def not_tls(caller: Caller) -> None:
    """In place of a ClientHello."""
    sock = caller.raw()
    with suppress(OSError):
        sock.sendall(caller.random.choice((request(FORBIDDEN), bytes(500), b"\x16\x03\x01\xff\xff" + bytes(100))))
    _leave(caller, sock)


def half_a_hello(caller: Caller) -> None:
    context = caller.tls or ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()
    sock = caller.raw()
    sock.sendall(data[: caller.random.randrange(1, len(data) + 1)])
    _leave(caller, sock)


def cut_off(caller: Caller) -> None:
    """TLS without a goodbye, in the middle of a request or after one."""
    sock = caller.open()
    sock.sendall(request(FORBIDDEN)[: caller.random.randrange(1, 40)] if caller.random.random() < 0.5 else claim(0))
    _reset(sock)


Manner = Callable[[Caller], None]

PLAIN: tuple[Manner, ...] = (
    *(half_a_head, half_a_body, half_a_chunk, nothing, gone_before_the_answer, half_closed_with_a_whole_request),
    *(slow, pipelined_after_an_error, gone_while_it_waits, deaf),
)
TLS: tuple[Manner, ...] = (not_tls, half_a_hello, cut_off)
