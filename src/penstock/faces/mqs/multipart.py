"""`multipart/mixed`, the form in which mqs carries several messages in one body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from email.message import Message as HeaderParser

from penstock.errors import InvalidRequest

Headers = tuple[tuple[bytes, bytes], ...]

_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_FOLD = re.compile(rb"\r\n[ \t]+")


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
    delimiter = b"\r\n--" + boundary
    pieces = (b"\r\n" + body).split(delimiter)
    parts: list[tuple[Mapping[bytes, bytes], bytes]] = []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return parts
        if len(parts) == limit:
            raise InvalidRequest(f"a multipart body holds at most {limit} messages")
        padding, newline, part = piece.partition(b"\r\n")
        if not newline or padding.strip(b" \t"):
            raise InvalidRequest("a boundary of the multipart body is not followed by a new line")
        parts.append(_part(part))
    raise InvalidRequest("the multipart body does not end with its closing boundary")


def _part(part: bytes) -> tuple[Mapping[bytes, bytes], bytes]:
    if part.startswith(b"\r\n"):
        return {}, part[2:]
    head, blank, body = part.partition(b"\r\n\r\n")
    if not blank:
        raise InvalidRequest("a part of the multipart body has no empty line after its headers")
    headers = {}
    for line in _FOLD.sub(b" ", head).split(b"\r\n"):
        match = _HEADER_LINE.fullmatch(line)
        if match is None or b"\n" in line or b"\r" in line or b"\0" in line:
            raise InvalidRequest("a part of the multipart body has a header that does not parse")
        headers[match[1].lower()] = match[2]
    return headers, body
