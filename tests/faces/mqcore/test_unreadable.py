"""Bodies that cannot be read are 400, as far as an answer can be sent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.servers import ThreadServer
from tests.talk import Talk

LENGTH = b"Content-Length: 10"
CHUNKED = b"Transfer-Encoding: chunked"


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[ThreadServer]:
    """A server that does not wait long for a body."""
    running = ThreadServer(f"mqcore:///{tmp_path}/hasty", body_timeout_s=0.2)
    yield running
    running.stop()


def answer(server: ThreadServer, framing: bytes, body: bytes, ends: bool) -> bytes:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as one:
        one.sendall(b"POST /queue001/messages HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n\r\n" + body)
        if ends:
            one.shutdown(socket.SHUT_WR)
        read = b""
        while piece := one.recv(65536):
            read += piece
        return read


@pytest.mark.parametrize(
    ("framing", "body"),
    [(LENGTH, b""), (LENGTH, b"half"), (CHUNKED, b""), (CHUNKED, b"4\r\nhalf\r\n"), (CHUNKED, b"9\r\nhalf")],
)
def test_half_a_body_is_answered_400_and_not_stored(
    server: ThreadServer, talk: Talk, queue: str, framing: bytes, body: bytes
) -> None:
    read = answer(server, framing, body, ends=True)
    assert read.startswith(b"HTTP/1.1 400 ")
    assert b"the body ended too early" in read
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize("body", [b"zz\r\n", b"4\r\nlonger\r\n0\r\n\r\n"])
def test_malformed_chunks_are_answered_400(server: ThreadServer, talk: Talk, queue: str, body: bytes) -> None:
    assert answer(server, CHUNKED, body, ends=False).startswith(b"HTTP/1.1 400 ")
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize(("framing", "body"), [(LENGTH, b"slow"), (CHUNKED, b"4\r\nslow\r\n")])
def test_a_body_that_is_too_slow_is_answered_400(hasty: ThreadServer, framing: bytes, body: bytes) -> None:
    with hasty.talk() as talk:
        assert talk("PUT", "/queue001").status == 201
        read = answer(hasty, framing, body, ends=False)
        assert read.startswith(b"HTTP/1.1 400 ")
        assert b"the body came too slowly" in read
        assert talk("GET", "/queue001/messages").status == 204
