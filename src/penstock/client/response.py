"""An HTTP/1.1 response as it comes in, in pieces of any size. It reads bytes that it is given and nothing else.

What is wrong with a response is said with the exceptions of `http.client`, which the synchronous client uses.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator
from email.message import Message
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected, parse_headers

from penstock.client.address import Answer

_LONGEST_HEAD = 65_536
_LONGEST_LINE = 1_024
_BODILESS = (204, 304)
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)


class Response:
    """`answer` is there as soon as all of it has come. Then `reusable` says whether the connection may be asked
    again."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.reusable = False
        self._buffer = bytearray()
        self._ended = False
        self._reading = self._read()
        next(self._reading)

    def feed(self, data: bytes) -> None:
        """Raises HTTPException for what is not HTTP."""
        self._buffer += data
        self._go_on()

    def end(self) -> None:
        """The connection has ended. Raises HTTPException where that was too early."""
        self._ended = True
        self._go_on()

    def _go_on(self) -> None:
        if self.answer is not None:
            # More than the answer: the connection has ended, or something in between is confused.
            self.reusable = False
            return
        for _ in self._reading:
            return

    def _read(self) -> Generator[None, None, None]:
        """Yields where it needs more bytes."""
        yield
        status = 100
        # 100 Continue and the like go before the answer proper.
        while status // 100 == 1:
            version, status, headers = yield from self._head()
        keep = version == b"1" and "close" not in str(headers.get("Connection", "")).lower()
        length = headers.get("Content-Length")
        if status in _BODILESS:
            body = b""
        elif "chunked" in str(headers.get("Transfer-Encoding", "")).lower():
            body = yield from self._chunks()
        elif length is None:
            keep = False
            body = yield from self._rest()
        elif length.isascii() and length.isdecimal():
            body = yield from self._exactly(int(length))
        else:
            raise HTTPException(f"the length of its answer is {length!r}")
        self.answer = Answer(status, body, headers)
        self.reusable = keep and not self._buffer and not self._ended

    def _head(self) -> Generator[None, None, tuple[bytes, int, Message]]:
        while len(self._buffer) < 5:
            yield from self._more()
        if not self._buffer.startswith(b"HTTP/"):
            raise BadStatusLine(bytes(self._buffer[:80]).decode("latin-1"))
        text = yield from self._until(b"\r\n\r\n", _LONGEST_HEAD)
        line, _, fields = text.partition(b"\r\n")
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise BadStatusLine(line[:80].decode("latin-1"))
        return found[1], int(found[2]), parse_headers(io.BytesIO(fields + b"\r\n\r\n"))

    def _chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            line = yield from self._until(b"\r\n", _LONGEST_LINE)
            found = _CHUNK_LINE.fullmatch(line)
            if found is None:
                raise HTTPException(f"the length of a piece of its answer is {line[:80]!r}")
            size = int(found[1], 16)
            if not size:
                break
            body += yield from self._exactly(size)
            if (yield from self._exactly(2)) != b"\r\n":
                raise HTTPException("a piece of its answer is longer than it says")
        while (yield from self._until(b"\r\n", _LONGEST_HEAD)):
            pass  # Trailers say nothing that is asked for.
        return bytes(body)

    def _until(self, mark: bytes, longest: int) -> Generator[None, None, bytes]:
        while (end := self._buffer.find(mark)) < 0:
            if len(self._buffer) > longest:
                raise LineTooLong("answer")
            yield from self._more()
        found = self._taken(end)
        del self._buffer[: len(mark)]
        return found

    def _exactly(self, count: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < count:
            yield from self._more()
        return self._taken(count)

    def _rest(self) -> Generator[None, None, bytes]:
        while not self._ended:
            yield
        return self._taken(len(self._buffer))

    def _more(self) -> Generator[None, None, None]:
        if self._ended and not self._buffer:
            raise RemoteDisconnected("the server closed it without an answer")
        if self._ended:
            raise IncompleteRead(bytes(self._buffer))
        yield

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken
