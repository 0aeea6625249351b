"""Requests that reach a face: whatever they say, the answer is well formed and the fault is not the server's.

A case is written as a person would: a line with method and target, lines with headers, an empty line, the body. What
would keep it from being a request at all is mended, because the edge has a target of its own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from xml.etree import ElementTree

import msgspec

from penstock.errors import InvalidRequest
from penstock.faces.mqs import multipart
from penstock.faces.native.arrow import ARROW, check_batch
from soak.fuzz.finding import Finding, expect
from soak.fuzz.house import House

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_OURS = {b"host", b"content-length", b"transfer-encoding", b"connection", b"expect", b"upgrade", b"proxy-connection"}
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_TARGETS = re.compile(rb"[^!-~]|#")
_NOT_IN_VALUES = re.compile(rb"[^\t -~\x80-\xff]")
_MOST_HEADERS = 40
_LONGEST_TARGET = 4_096
_CASES_IN_A_HOUSE = 2_000


def request_of(data: bytes, places: tuple[bytes, ...] = (b"/",)) -> tuple[str, bytes]:
    """The method of a case, and its bytes on the wire. Its path begins with one of these places."""
    method, target, told, body = parts_of(data, places)
    head = b"\r\n".join(name + b": " + value for name, value in told)
    return method, b"%b %b HTTP/1.1\r\n%b\r\n\r\n%b" % (method.encode(), target, head, body)


def parts_of(data: bytes, places: tuple[bytes, ...] = (b"/",)) -> tuple[str, bytes, list[tuple[bytes, bytes]], bytes]:
    """Method, target, headers and body of a case."""
    head, _, body = data.partition(b"\n\n")
    line, *lines = head.split(b"\n")
    name, _, target = line.partition(b" ")
    word = name.decode("latin-1")
    method = word if word in METHODS else "POST"
    target = _NOT_IN_TARGETS.sub(lambda found: b"%%%02X" % found[0][0], target.strip())[:_LONGEST_TARGET]
    if not target.startswith(places):
        target = places[0] + target.lstrip(b"/")
    told = [(b"Host", b"127.0.0.1:8080")]
    for one in lines[:_MOST_HEADERS]:
        header, _, value = one.partition(b":")
        if _NAME.fullmatch(header) and header.lower() not in _OURS:
            told.append((header, _NOT_IN_VALUES.sub(b"?", value.strip())))
    if body or method != "GET":
        told.append((b"Content-Length", b"%d" % len(body)))
    return method, target, told, body


class _Street:
    """One house after the other."""

    def __init__(self) -> None:
        self._house: House | None = None
        self._cases = 0

    def house(self) -> House:
        if self._house is None or self._cases >= _CASES_IN_A_HOUSE:
            if self._house is not None:
                self._house.close()
            self._house = House()
            self._cases = 0
        self._cases += 1
        return self._house


_street = _Street()


def _ask(method: str, data: bytes) -> int:
    """The status of the answer; 0 if the request waits for a message."""
    for answer in _street.house().ask(data, [method]):
        expect(answer.status < 500, f"answered {answer.status}: {answer.body[:500]!r}")
        if answer.body:
            _check_content(answer.headers.get(b"content-type", b""), answer.body)
        return answer.status
    return 0


def _check_content(kind: bytes, body: bytes) -> None:
    """What a server says in a format is in that format. Messages are as their senders want them."""
    try:
        if kind in (b"application/x-amz-json-1.0", b"application/json; charset=utf-8"):
            msgspec.json.decode(body)
        elif kind == b"text/xml":
            ElementTree.fromstring(body)
    except (msgspec.DecodeError, UnicodeDecodeError, ElementTree.ParseError) as error:
        raise Finding(f"the answer is not {kind.decode()}: {error}: {body[:500]!r}") from error


def face(*places: bytes) -> Callable[[bytes], None]:
    def fuzz(data: bytes) -> None:
        _ask(*request_of(data, places))

    return fuzz


def fuzz_multipart(data: bytes) -> None:
    """A case is a content type, an empty line, and the body."""
    kind, _, body = data.partition(b"\n\n")
    boundary = multipart.boundary_of(kind.decode("latin-1"))
    if boundary is not None:
        try:
            parts = multipart.decode(body, boundary, 10)
        except InvalidRequest:
            parts = []
        expect(len(parts) <= 10, "there are more parts than there may be")
        for headers, part in parts:
            expect(part in body, "a part is not from the body")
            expect(not any(b"\n" in value or b"\r" in value for value in headers.values()), "a header has two lines")
        encoded = multipart.encode([(tuple(headers.items()), part) for headers, part in parts], boundary)
        expect(multipart.decode(encoded, boundary, 10) == parts, "what was decoded cannot be encoded again")
    _ask(*request_of(b"POST /messages/orders\ncontent-type: " + kind.replace(b"\n", b" ") + b"\n\n" + body))


def fuzz_arrow(data: bytes) -> None:
    """A case is a byte that says where to, and a stream; the stream may also be the metadata of a batch."""
    where, stream = data[:1], data[1:]
    with contextlib.suppress(InvalidRequest):
        check_batch(stream, len(stream))
    path = (b"messages", b"ack", b"renew", b"release")[where[0] % 4 if where else 0]
    head = b"POST /v1/queues/orders/%b\ncontent-type: %b\naccept: %b" % (path, ARROW, ARROW)
    _ask(*request_of(head + b"\n\n" + stream))
