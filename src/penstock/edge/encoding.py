"""A response to the bytes of an HTTP/1.1 answer.

It never lets a header value forge another header or a second response, and it reads no clock: the
connections of a listener tell it the date.
"""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from penstock.edge.http import Response

# The `Connection` line of an answer. Compared by identity on the hot path.
KEEP: Final = b""
KEEP_OLD: Final = b"Connection: keep-alive\r\n"
CLOSE: Final = b"Connection: close\r\n"

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}

_LENGTHS: Final = [b"Content-Length: %d\r\n\r\n" % size for size in range(1024)]

# These decide where a message ends, so they are set in one place.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection"))

# Handlers mostly answer with the same few short tuples. Longer ones describe a message and differ every
# time: hashing all their values would only show that they are not here.
_MOST_HEADERS_KEPT: Final = 2
_BLOCKS_KEPT: Final = 256
_blocks: dict[tuple[tuple[bytes, bytes], ...], bytes] = {(): b""}
# Hashes of tuples that were answered lately, so that only those are kept that come again.
_lately = [0] * _BLOCKS_KEPT

# Status line, server and date of every status answered in this second.
_openings: dict[int, bytes] = {}
_date = formatdate(usegmt=True).encode()


def set_date(at: float) -> None:
    """`at` is seconds since the epoch; to be called about once a second."""
    global _date
    date = formatdate(at, usegmt=True).encode()
    if date != _date:
        _date = date
        _openings.clear()


def encode(response: Response, connection: bytes, without_body: bool) -> bytes:
    """The whole answer, or only its head for HEAD and for bodies that are written on their own.

    Raises ValueError for a response that cannot be sent as it is.
    """
    status = response.status
    opening = _openings.get(status) or _open(status)
    headers = response.headers
    block = _blocks.get(headers) if len(headers) <= _MOST_HEADERS_KEPT else None
    if block is None:
        block = _encode_headers(headers)
    body = response.body
    if status in (204, 304) or status < 200:
        return b"%b%b%b\r\n" % (opening, block, connection)
    if without_body:
        return b"%b%b%bContent-Length: %d\r\n\r\n" % (opening, block, connection, len(body))
    size = len(body)
    length = _LENGTHS[size] if size < 1024 else b"Content-Length: %d\r\n\r\n" % size
    return b"".join((opening, block, connection, length, body))


def _open(status: int) -> bytes:
    if not 100 <= status <= 999:
        raise ValueError("a status has three digits")
    line = b"HTTP/1.1 %d %b\r\nServer: penstock\r\nDate: %b\r\n" % (status, _PHRASES.get(status, b""), _date)
    _openings[status] = line
    return line


def _encode_headers(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    block = b"".join([b"%b: %b\r\n" % header for header in headers])
    # One line end per header is ours; any other came in with a name or a value.
    if block.count(b"\n") != len(headers) or block.count(b"\r") != len(headers) or b"\0" in block:
        raise ValueError("a header holds a line end or NUL")
    for name, _ in headers:
        if name.lower() in _FRAMING:
            raise ValueError("framing headers belong to the edge")
    if len(headers) <= _MOST_HEADERS_KEPT and len(_blocks) < _BLOCKS_KEPT:
        mark = hash(headers)
        place = mark % _BLOCKS_KEPT
        if _lately[place] == mark:
            _blocks[headers] = block
        else:
            _lately[place] = mark
    return block
