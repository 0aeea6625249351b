"""What the edge asks of a request head beyond what the parser has checked already.

llhttp is strict by default: it refuses repeated or unreadable Content-Length, Content-Length next
to Transfer-Encoding, chunk sizes with anything but hexadecimal digits, line ends without CR, folded
lines and spaces before a colon. Left to us are versions, Host, transfer codings, expectations and
the form of the target. Nothing here touches a connection.
"""

from __future__ import annotations

from typing import Final

from penstock.edge.http import CLOSE, KEEP, KEEP_OLD

_MOST_DIGITS: Final = 40


class Refused(Exception):
    """A request that the edge refuses by itself, before it closes the connection."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def persistence(version: str, connection: bytes | None) -> bytes:
    """The `Connection` line to answer with, by the client's version and `Connection` header."""
    if connection == b"keep-alive" and version == "1.1":
        return KEEP
    options = [] if connection is None else [option.strip() for option in connection.lower().split(b",")]
    if version == "1.1":
        return CLOSE if b"close" in options else KEEP
    if version != "1.0":
        raise Refused(400, "unknown HTTP version")
    return KEEP_OLD if b"keep-alive" in options and b"close" not in options else CLOSE


def check_transfer_encoding(value: bytes, version: str) -> None:
    # A proxy that speaks 1.0 does not know chunks, so it sees another end of the request than we do.
    if version != "1.1":
        raise Refused(400, "Transfer-Encoding needs HTTP/1.1")
    # The parser takes any list that ends in "chunked", but nothing here would undo the rest.
    if value.strip().lower() != b"chunked":
        raise Refused(501, "unknown transfer coding")


def declared_length(value: bytes) -> int:
    """What a Content-Length says, which the parser has found to be a number below 2^64. It may begin with any number of
    zeros, and Python reads no number of more than 4,300 digits."""
    if len(value) > _MOST_DIGITS:
        raise Refused(400, "Content-Length has too many digits")
    return int(value)


def origin_form(target: str) -> str:
    """Path and query of a target in absolute form; other forms are left as they are."""
    if "#" in target:
        raise Refused(400, "a fragment is not part of a request")
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return target
    for position, character in enumerate(rest):
        if character == "/":
            return rest[position:]
        if character == "?":
            return "/" + rest[position:]
    return "/"


def head_size(target: bytes, headers: dict[bytes, bytes]) -> int:
    """About the bytes of a request line and its headers, separators included."""
    return len(target) + 16 + sum(len(name) + len(value) + 4 for name, value in headers.items())
