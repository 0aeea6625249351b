"""`multipart/mixed`, the form in which mqs carries several messages in one body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from email.message import Message as HeaderParser

from penstock.errors import InvalidRequest

Headers = tuple[tuple[bytes, bytes], ...]

# What a part may say before its body.
HEAD_BYTES = 8192
HEAD_LINES = 100

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FOLD = re.compile(rb"\r\n[ \t]+")
_BLANKS = b" \t"


def boundary_of(content_type: str) -> bytes | None:
    """The boundary of a multipart/mixed content type; None for any other type."""
    if not content_type.lower().startswith("multipart/mixed"):
        return None
    header = HeaderParser()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= 70 or not boundary.isascii():
        return None
    return boundary.encode()


def encode(parts: Iterable[tuple[Headers, bytes]], boundary: bytes) -> bytes:
    pieces = []
    for headers, body in parts:
        pieces.append(b"--" + boundary + b"\r\n")
        pieces += [b"%s: %s\r\n" % header for header in headers]
        pieces += [b"\r\n", body, b"\r\n"]
    pieces.append(b"--" + boundary + b"--\r\n")
    return b"".join(pieces)


def decode(body: bytes, boundary: bytes, limit: int) -> list[tuple[Mapping[bytes, bytes], bytes]]:
    """Headers (names in lower case) and body of each part. What comes before the first delimiter and after the
    last is ignored, as RFC 2046 has it."""
    # One piece more than the parts allowed: the closing boundary begins it, or there are too many.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary, limit + 1)
    parts: list[tuple[Mapping[bytes, bytes], bytes]] = []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return parts
        if len(parts) == limit:
            raise InvalidRequest(f"a multipart body holds at most {limit} messages")
        padding, newline, part = piece.partition(b"\r\n")
        if not newline or padding.strip(_BLANKS):
            raise InvalidRequest("a boundary of the multipart body is not followed by a new line")
        parts.append(_part(part))
    raise InvalidRequest("the multipart body does not end with its closing boundary")


def _part(part: bytes) -> tuple[Mapping[bytes, bytes], bytes]:
    if part.startswith(b"\r\n"):
        return {}, part[2:]
    end = part.find(b"\r\n\r\n", 0, HEAD_BYTES + 4)
    if end < 0:
        if len(part) > HEAD_BYTES:
            raise InvalidRequest(f"the headers of a part of the multipart body are at most {HEAD_BYTES} bytes long")
        raise InvalidRequest("a part of the multipart body has no empty line after its headers")
    return _headers(part[:end]), part[end + 4 :]


def _headers(head: bytes) -> Mapping[bytes, bytes]:
    lines = _FOLD.sub(b" ", head).split(b"\r\n")
    if len(lines) > HEAD_LINES:
        raise InvalidRequest(f"a part of the multipart body has at most {HEAD_LINES} headers")
    headers = {}
    for line in lines:
        if not line.strip(_BLANKS):
            continue  # a line of blanks says nothing, and some clients send one
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name) or b"\n" in line or b"\r" in line or b"\0" in line:
            raise InvalidRequest("a part of the multipart body has a header that does not parse")
        headers[name.lower()] = value.strip(_BLANKS)
    return headers
