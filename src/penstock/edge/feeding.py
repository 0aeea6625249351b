"""Feeding the parser: how much at a time, and what happens when it stops.

The parser cannot be paused between two requests, so it gets small pieces and whatever has to wait for
its turn stays as bytes. It never writes to a client and never calls a handler.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from penstock.edge.framing import RefusedError
from penstock.edge.judging import BODY, DONE, HEAD
from penstock.edge.reading import Reader

_BODY_PIECE: Final = 1 << 18

# One byte in a chunk takes six on the wire. More than this is spent on chunk extensions and trailers.
_CHUNK_OVERHEAD: Final = 16


class Feeder(Reader):
    __slots__ = ()

    def _may_parse(self) -> bool:
        """Whether a request read now could be started; `Connection` knows."""
        raise NotImplementedError

    def _parse(self, data: bytes) -> bytes:
        """Feed `data` piece by piece; what must wait for its turn is given back."""
        view = memoryview(data)
        while view and self._phase != DONE and self._may_parse():
            size = self._piece
            if self._phase == BODY and not self._chunked and not self._refusing:
                left = self._declared - self._route.body.limit + self._room
                size = min(max(size, left), _BODY_PIECE)
            self._feed_piece(view[:size])
            view = view[size:]
        if self._phase == BODY:
            self._charge_body()
        return b"" if self._phase == DONE else bytes(view)

    def _charge_body(self) -> None:
        """Ask for what a body that goes on has grown by."""
        request = self._request
        if request is None:
            return
        size = len(request.body) + len(self._rest)
        more = size - self._charged
        if more > 0:
            if self._sweep.bodies.grow(size, more):
                self._charged = size
            else:
                self._turn_away(request, "too many request bodies are in progress")

    def _feed_piece(self, piece: bytes | memoryview) -> None:
        """Feed one piece and see to whatever is not a plain request."""
        try:
            self._feed(piece)
        except HttpParserUpgrade as upgrade:
            self._skip_upgrade()
            rest = memoryview(piece)[upgrade.args[0] :]
            if rest and self._phase != DONE:
                self._feed_piece(rest)
            return
        except HttpParserError as error:
            self._fail_parsing(error)
        if self._phase:
            self._check_progress(len(piece))

    def _check_progress(self, size: int) -> None:
        """Limits on a request that this piece did not complete."""
        header_bytes = self._sweep.limits.header_bytes
        if self._phase == HEAD:
            # The piece in which a head begins may hold other requests as well, so it is not counted;
            # the whole head is measured once it is complete.
            self._head_bytes = 0 if self._head_bytes < 0 else self._head_bytes + size
            if len(self._url) > self._max_target:
                self._give_up(None, 414, "the target is too long")
            elif self._head_bytes > header_bytes:
                self._give_up(None, 431, "the headers are too long")
        elif self._phase == BODY and self._chunked:
            self._overhead += size
            taken = self._drained if self._refusing else self._route.body.limit - self._room
            if self._overhead > _CHUNK_OVERHEAD * taken + header_bytes + self._piece:
                self._give_up(self._request, 400, "too many bytes around the chunks")

    def _fail_parsing(self, error: HttpParserError) -> None:
        if self._phase == DONE:
            # Data behind the last request, which may be anything.
            return
        cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
        if isinstance(cause, RefusedError):
            self._give_up(self._request, cause.status, cause.reason)
        elif cause is not None:
            self._give_up(self._request, 500, "internal error")
        else:
            self._give_up(self._request, 400, "not a well-formed request")

    def _skip_upgrade(self) -> None:
        """Go on after a request to upgrade, which HTTP lets us ignore.

        The parser has left HTTP behind, so another one reads the body, told how long it is.
        """
        if self._phase == DONE or self._upgrading is None:
            return
        self._request = self._upgrading
        self._upgrading = None
        self._parser = parser = HttpRequestParser(self)
        self._feed = parser.feed_data
        length = self._request.headers.get(b"content-length")
        if self._chunked:
            parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        elif length is not None:
            parser.feed_data(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % int(length))
        else:
            parser.feed_data(b"GET / HTTP/1.1\r\n\r\n")
