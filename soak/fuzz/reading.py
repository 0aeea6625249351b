"""HTTP/1.1 read a second time, by the words of RFC 9112 and by nothing that the server uses.

`read_requests` is deliberately strict and simple: a request is either in the plain form in which every reader of HTTP
agrees about it, or the rest of the stream is not read at all. `read_answers` refuses every answer that a client could
misread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from soak.fuzz.finding import Finding

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Every reader takes more than one blank between its words.
_LINE = re.compile(rb"(" + _TOKEN + rb") +([!-~]+) +HTTP/1\.([01])")
_PLAIN_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_PLAIN_TARGET = re.compile(rb"/(?:[!$&-~]|%[0-9A-Fa-f]{2})*")
_MOST_HEADERS = 100
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*")
_LENGTH = re.compile(rb"0*[0-9]{1,18}")
_CHUNK = re.compile(rb"(0*[0-9A-Fa-f]{1,15})(;[\t -~\x80-\xff]*)?")
_EXTENSION = re.compile(rb"(?:;[a-z]+(?:=[a-z]+)?)*")
# Headers that say how a request is read, or where it goes: behind the body they come too late.
_NOT_TRAILERS = (
    b"connection", b"content-length", b"expect", b"host", b"proxy-connection", b"transfer-encoding", b"upgrade",
)  # fmt: skip


@dataclass
class Asked:
    """A request as it was meant. `end` is where the next one begins."""

    method: str
    target: bytes
    version: int
    headers: dict[bytes, list[bytes]]
    body: bytes = b""
    end: int = 0
    closes: bool = False


@dataclass
class Read:
    """The requests of a stream, as far as they are in the plain form. It `is_open` how the rest is read where that
    begins with a request that asks for something else than a plain one: an upgrade, say, or a word before its body."""

    requests: list[Asked] = field(default_factory=list)
    is_open: bool = False
    # One whose body is not whole, or not plain.
    begun: Asked | None = None


class _NotPlain(Exception):
    """Not a request, or not yet."""


class _Open(Exception):
    """A request of another kind."""


def read_requests(data: bytes) -> Read:
    read = Read()
    at = 0
    try:
        while at < len(data):
            if data[at] in b"\r\n":
                at += 1  # empty lines before a request are passed over
                continue
            read.begun = asked = _read_head(data, at)
            _read_body(data, asked)
            read.begun = None
            read.requests.append(asked)
            if asked.closes:
                break
            at = asked.end
    except _NotPlain:
        pass
    except _Open:
        read.is_open = True
    return read


def _read_head(data: bytes, at: int) -> Asked:
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        raise _NotPlain
    line, *lines = data[at:end].split(b"\r\n")
    found = _LINE.fullmatch(line)
    if found is None:
        raise _NotPlain
    headers: dict[bytes, list[bytes]] = {}
    for one in lines:
        header = _HEADER.fullmatch(one)
        if header is None:
            raise _NotPlain
        headers.setdefault(header[1].lower(), []).append(header[2])
    if found[1] not in _PLAIN_METHODS or _PLAIN_TARGET.fullmatch(found[2]) is None or len(lines) > _MOST_HEADERS:
        raise _Open
    asked = Asked(found[1].decode(), found[2], int(found[3]), headers, end=end + 4)
    hosts = len(headers.get(b"host", ()))
    if hosts > 1 or (asked.version == 1 and not hosts):
        raise _NotPlain
    words = [word.strip().lower() for value in headers.get(b"connection", ()) for word in value.split(b",")]
    if b"upgrade" in words or b"upgrade" in headers or asked.method == "CONNECT" or b"expect" in headers:
        raise _Open
    asked.closes = b"close" in words or (asked.version == 0 and b"keep-alive" not in words)
    return asked


def _read_body(data: bytes, asked: Asked) -> None:
    lengths = asked.headers.get(b"content-length", [])
    codings = asked.headers.get(b"transfer-encoding", [])
    if (lengths and codings) or len(lengths) > 1 or len(codings) > 1:
        raise _NotPlain
    if codings:
        if codings[0].lower() != b"chunked" or asked.version == 0:
            raise _NotPlain
        _read_chunks(data, asked)
    elif lengths:
        if _LENGTH.fullmatch(lengths[0]) is None:
            raise _NotPlain
        end = asked.end + int(lengths[0])
        if end > len(data):
            raise _NotPlain
        asked.body, asked.end = data[asked.end : end], end


def _read_chunks(data: bytes, asked: Asked) -> None:
    at, parts = asked.end, []
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            raise _NotPlain
        chunk = _CHUNK.fullmatch(data[at:line_end])
        if chunk is None:
            raise _NotPlain
        if _EXTENSION.fullmatch(chunk[2] or b"") is None:
            raise _Open
        size = int(chunk[1], 16)
        at = line_end + 2
        if size == 0:
            break
        if at + size + 2 > len(data):
            raise _NotPlain
        if data[at + size : at + size + 2] != b"\r\n":
            raise _NotPlain
        parts.append(data[at : at + size])
        at += size + 2
    asked.body, asked.end = b"".join(parts), _end_of_trailers(data, at)


def _end_of_trailers(data: bytes, at: int) -> int:
    """They are headers that come too late to say anything about the request."""
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            raise _NotPlain
        line, at = data[at:line_end], line_end + 2
        if not line:
            return at
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _NotPlain
        if header[1].lower() in _NOT_TRAILERS:
            raise _NotPlain


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes


def read_answers(data: bytes, methods: Sequence[str], *, whole: bool = True) -> list[Answer]:
    """The answers to requests with these methods, in their order. To what is not among them there may be one more.
    Raises Finding for anything that is not an answer. With `whole`, the last one must have all of its body."""
    answers: list[Answer] = []
    at = 0
    while at < len(data):
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            if whole:
                raise Finding(f"an answer has no end: {data[at : at + 200]!r}")
            break
        answer = _read_answer_head(data[at:end])
        at = end + 4
        if answer.status == 100:
            continue
        bodiless = answer.status in (204, 304) or (len(answers) < len(methods) and methods[len(answers)] == "HEAD")
        if not bodiless:
            length = int(answer.headers[b"content-length"])
            if at + length > len(data):
                if whole:
                    raise Finding("the body of an answer is shorter than it says")
                break
            answer.body = data[at : at + length]
            at += length
        answers.append(answer)
        if b"close" in answer.headers.get(b"connection", b"").lower() and at < len(data):
            raise Finding("there are bytes behind the last answer")
    return answers


def _read_answer_head(head: bytes) -> Answer:
    line, *lines = head.split(b"\r\n")
    found = _STATUS.fullmatch(line)
    if found is None:
        raise Finding(f"not a status line: {line[:200]!r}")
    answer = Answer(int(found[1]), {}, b"")
    for one in lines:
        header = _HEADER.fullmatch(one)
        if header is None:
            raise Finding(f"not a header of an answer: {one[:200]!r}")
        name = header[1].lower()
        if name in answer.headers and name in (b"content-length", b"connection", b"content-type", b"date", b"server"):
            raise Finding(f"an answer has {name!r} twice")
        answer.headers[name] = header[2]
    if answer.status >= 200 and answer.status not in (204, 304):
        length = answer.headers.get(b"content-length")
        if length is None or _LENGTH.fullmatch(length) is None or b"transfer-encoding" in answer.headers:
            raise Finding("an answer does not say how long it is")
    return answer
