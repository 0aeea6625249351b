"""One client: its bytes to requests, and the answers to bytes, one at a time and in order.

A request is started only when the answer before it has been handed to the socket and the client keeps
reading. What the client sends meanwhile stays as bytes, up to a bound, after which reading stops. There
are no timers here: `Connections` compares each deadline with its clock.

One file because a connection is one thing: the parser's callbacks, the refusals and the answers share
its state, and one object less between them is one call less for every request. Its sections:

    transport   what the event loop calls
    parser      how much the parser gets at a time, and what it calls
    refusals    requests that are not plain, and those the edge answers by itself
    answers     order, handlers, back-pressure
    end         the last answer, deadlines, the stop of the listener
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Final

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from penstock.edge.connections import CROWDED, FULL, NEVER, Connections
from penstock.edge.head import Refused, check_transfer_encoding, declared_length, head_size, persistence
from penstock.edge.header_blocks import HEAD_END, LINE_END, LONGEST_HEAD, VERSION
from penstock.edge.http import CLOSE, CONTINUE, KEEP, Handler, Request, Response, encode
from penstock.edge.request_ids import with_id
from penstock.edge.router import Route, Router
from penstock.pending import Pending

# Where the parser stands: between requests, in a head, in a body, or past the last request it will read.
_IDLE: Final = 0
_HEAD: Final = 1
_BODY: Final = 2
_DONE: Final = 3

# Why no request may be started, as bits: one is with its handler, the client does not read, the last
# answer has been written, the transport is closing, the next request waits for the event loop.
_WAITING: Final = 1
_CHOKED: Final = 2
_ANSWERED: Final = 4
_CLOSING: Final = 8
_SCHEDULED: Final = 16

# The parser cannot be stopped between two requests of one piece, so pieces are small: what is parsed
# ahead of its turn stays below the requests that fit in one.
_PIECE: Final = 4096
_BODY_PIECE: Final = 1 << 18

# One byte in a chunk takes six on the wire. More than this is spent on chunk extensions and trailers.
_CHUNK_OVERHEAD: Final = 16

# A longer body is written on its own instead of being copied behind its head.
_LARGE_BODY: Final = 1 << 16
# What says how a request is read or where it goes comes too late behind its body: not every reader would obey it.
_NOT_TRAILERS: Final = (
    b"connection", b"content-length", b"expect", b"host", b"proxy-connection", b"transfer-encoding", b"upgrade",
)  # fmt: skip

_BARE_500: Final = Response(500)


class StopParsing(Exception):
    """Leaves the parser: the last request of this connection has been read."""


def _discard(_data: bytes | memoryview) -> None:
    """Where bytes go that have no transport or parser: before the first, and after the last."""


# Takes the place of a lost connection's parser. It is never fed.
_SPENT_PARSER: Final = HttpRequestParser(object())


class Connection:
    """A protocol in the sense of asyncio, and the callbacks of the parser."""

    __slots__ = (
        "_backlog",
        "_began",
        "_blocks",
        "_charged",
        "_chunked",
        "_connections",
        "_current",
        "_current_persist",
        "_declared",
        "_drained",
        "_failed",
        "_feed",
        "_fresh",
        "_guard",
        "_handler",
        "_head_bytes",
        "_headers",
        "_held",
        "_limits",
        "_lingers",
        "_loop",
        "_overhead",
        "_owes_continue",
        "_parser",
        "_pending",
        "_persist",
        "_phase",
        "_piece",
        "_queue",
        "_reading",
        "_refusing",
        "_repeats",
        "_request",
        "_rest",
        "_room",
        "_route",
        "_router",
        "_targets",
        "_transport",
        "_unmatched",
        "_upgrading",
        "_url",
        "_write",
        "deadline",
    )

    def __init__(self, router: Router, connections: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self._router = router
        self._targets = router.targets
        self._guard = router.guard
        self._unmatched = router.unmatched
        self._failed = router.errors.failed
        self._connections = connections
        self._blocks = connections.blocks.known
        self._limits = connections.limits
        self._loop = loop
        self.deadline = connections.idle_until

        # The transport: why nothing may be started, what waits, and what is owed.
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], object] = _discard
        self._held = 0
        self._reading = True
        self._backlog = b""
        self._queue: deque[tuple[Request | None, Handler, bytes]] = deque()
        self._owes_continue = False
        self._lingers = False

        # The request that is being read.
        self._parser = parser = HttpRequestParser(self)
        self._feed: Callable[[bytes | memoryview], object] = parser.feed_data
        self._piece = min(_PIECE, connections.limits.header_bytes)
        self._phase = _IDLE
        # The piece that begins with the head that is being read, until its headers are complete.
        self._fresh = b""
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeats = 0
        self._head_bytes = -1
        self._request: Request | None = None
        self._upgrading: Request | None = None
        self._route = router.not_found
        self._handler = router.not_found.handler
        self._persist = CLOSE

        # Its body. `_room` is what its route still takes, below zero when there is more.
        self._refusing = False
        self._chunked = False
        self._declared = 0
        self._drained = 0
        self._overhead = 0
        self._room = 0
        self._rest = bytearray()
        # What the budget of all bodies has given to this connection.
        self._charged = 0

        # The request that is with its handler, and since when.
        self._began = 0.0
        self._current: Request | None = None
        self._current_persist = CLOSE
        self._pending: Pending[Response] | None = None

    # ---- transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._write = transport.write
        connections = self._connections
        room = connections.add(self)
        if room == FULL:
            self.abort()
        elif room == CROWDED:
            self._refuse_for_now(None, "too many connections")
        elif connections.persist is CLOSE:
            self._close()

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase or self._held:
            self._receive(data)
            return
        if self._serve_known(data):
            return
        if len(data) > self._piece:
            self._receive(data)
            return
        self._fresh = data
        read = -1
        try:
            self._feed(data)
        except HttpParserUpgrade as upgrade:
            read = upgrade.args[0]
        except HttpParserError as error:
            self._fail_parsing(error)
        else:
            if self._phase:
                self._check_progress(len(data))
        if read >= 0:
            # Not while the upgrade is handled: it would become the context of what the parser raises next, in place of
            # what our callbacks have raised.
            self._skip_upgrade()
            self._receive(data[read:])

    def eof_received(self) -> bool:
        transport = self._transport
        if transport is None or not self._held & _WAITING:
            unreadable = self._answer_to_unreadable("the body ended too early")
            if transport is not None and unreadable is not None and not self._backlog:
                self._drop_body(self._request)
                self._conclude(self._request, unreadable, lingers=False)
                # Not yet, if the client does not take the answers before this one. TLS cannot be half closed.
                return bool(self._queue) and transport.get_extra_info("sslcontext") is None
            # Answers already written are still flushed by the transport.
            self._flush()
            return False
        pending = self._pending
        if pending is not None and pending.cancel():
            self._pending = self._current = None
            self._flush()
            return False
        # TLS cannot be half closed; there the answer is lost with the connection.
        if transport.get_extra_info("sslcontext") is not None:
            return False
        self._phase = _DONE
        self._queue.clear()
        self._backlog = b""
        self._current_persist = CLOSE
        return True

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._phase = _DONE
        self._held |= _CLOSING
        self._connections.forget(self)
        pending, self._pending = self._pending, None
        self._queue.clear()
        self._backlog = b""
        self._rest = bytearray()
        self._free_body()
        self._request = self._upgrading = self._current = None
        # The parser holds our callbacks and we hold the parser: without this only the cycle
        # collector would free either.
        self._parser = _SPENT_PARSER
        self._feed = self._write = _discard
        if pending is not None:
            pending.abandon()

    def pause_writing(self) -> None:
        self._held |= _CHOKED
        self._connections.choke(self)

    def resume_writing(self) -> None:
        self._held &= ~_CHOKED
        if not self._held & _CLOSING:
            self._connections.unchoke(self)
            self._advance()

    def address(self) -> str:
        """For a guard that wants to know."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "an unknown address"

    # ---- known heads ---------------------------------------------------------------------------------

    def _serve_known(self, data: bytes) -> bool:
        """Serve a request that is here as a whole, with a header block that the parser has read before and a plain
        request line. False where the parser has to see it."""
        end = data.find(HEAD_END, 0, LONGEST_HEAD)
        line_end = data.find(LINE_END)
        # Compiled, a slice that begins before its bytes is an error.
        if end < 0 or line_end < len(VERSION):
            return False
        known = self._blocks.get(data[line_end:end])
        if known is None:
            return False
        headers, length = known
        persist = self._connections.persist
        if len(data) - end - 4 != length or persist is CLOSE or data[line_end - 9 : line_end] != VERSION:
            return False
        line = data[: line_end - 9]
        target = self._targets.get(line)
        if target is None:
            target = self._router.resolve_line(line)
            if target is None:
                return False
        method, path, query, route, params = target
        request = Request(method, path, query, headers, b"", params)
        if route.choose is not None:
            route = route.choose(request)
        if length > route.body.limit or length > self._limits.refused_bytes or route.refuses:
            return False
        request.traffic = route.traffic
        handler = self._admitted(request, route)
        if handler is None:
            handler = self._handler
        elif length:
            request.body = data[end + 4 :]
        self._serve(request, handler, persist)
        return True

    def _admitted(self, request: Request, route: Route) -> Handler | None:
        """The handler of the route, if the guard lets the request pass. If not, None: what answers it instead is
        `_handler`."""
        guard = self._guard
        if guard is None:
            return route.handler
        try:
            refusal = guard(request, route, self)
        except Exception as error:
            self._handler = _raising(error)
            return None
        if refusal is None:
            return route.handler
        self._handler = _answering(refusal)
        return None

    # ---- parser --------------------------------------------------------------------------------------
    # Every request pays for every line of its callbacks: the common case comes first, and what is rare
    # is looked at once.

    def on_message_begin(self) -> None:
        if self._phase == _DONE:
            raise StopParsing
        self._phase = _HEAD
        self._url = b""
        self._head_bytes = -1
        self.deadline = self._connections.head_until

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        # The parser leaves out the blanks before a value; those behind it are not part of it either.
        value = value.rstrip(b" \t")
        headers = self._headers
        if self._phase == _BODY and name in _NOT_TRAILERS:
            raise Refused(400, f"{name.decode()} comes behind the body")
        if name in headers:
            self._join_repeated(name, value)
        else:
            headers[name] = value

    def on_headers_complete(self) -> None:  # noqa: C901 - every request would pay for another call
        headers = self._headers
        # A new one already here: trailers come through the same callback and must not reach the request.
        self._headers = {}
        if self._request is not None:
            # The parser that replaces one which saw an upgrade has read the head we made for it.
            self._phase = _BODY
            self.deadline = self._connections.body_until
            return
        url = self._url
        limits = self._limits
        repeats = self._repeats
        if len(headers) > limits.header_count or len(url) > limits.target_bytes or self._head_bytes >= 0 or repeats:
            self._check_head(url, headers)
        parser = self._parser
        if parser.should_keep_alive() and b"connection" not in headers and b"proxy-connection" not in headers:
            # Only HTTP/1.1 is kept alive without a word, so the version needs no look.
            if b"host" not in headers:
                raise Refused(400, "Host is missing")
            persist = self._connections.persist
        else:
            persist = self._choose_persistence(headers)
        name = parser.get_method()
        key = b"%b %b" % (name, url)
        target = self._targets.get(key)
        if target is None:
            target = self._router.resolve(name, url, key)
        method, path, query, route, params = target
        request = Request(method, path, query, headers, b"", params)
        if route.choose is not None:
            route = route.choose(request)
        refusing = route.refuses
        if refusing:
            self._handler = route.handler
        else:
            request.traffic = route.traffic
            handler = self._admitted(request, route)
            if handler is None:
                refusing = True
            else:
                self._handler = handler
        self._persist = persist
        length = headers.get(b"content-length")
        fresh, self._fresh = self._fresh, b""
        if length is None:
            if b"transfer-encoding" in headers or b"expect" in headers:
                self._begin_unusual_body(request, route, refusing, None)
                fresh = b""
        elif refusing or b"expect" in headers:
            self._begin_unusual_body(request, route, refusing, length)
        else:
            self._declared = declared = declared_length(length)
            self._route = route
            self._room = room = route.body.limit
            if declared > room and not route.body.cut:
                self._refuse_length(request, route)
            self.deadline = self._connections.body_until
        self._phase = _BODY
        if b"upgrade" in headers or method == "CONNECT":
            self._begin_upgrade(request)
            return
        self._request = request
        if fresh and persist is KEEP and not repeats and b"expect" not in headers:
            self._connections.blocks.learn(fresh, headers, 0 if length is None else self._declared)

    def on_body(self, data: bytes) -> None:
        request = self._request
        self._room = room = self._room - len(data)
        if request is None:
            return
        if room < 0:
            self._spill(request, data, room)
        elif request.body:
            self._rest += data
        else:
            request.body = data

    def on_message_complete(self) -> None:
        request = self._request
        if request is None:
            return
        self._request = None
        self._phase = _IDLE
        if self._rest or self._chunked or self._refusing:
            self._complete_unusual_body(request)
        persist = self._persist
        if persist is CLOSE:
            self._phase = _DONE
        if self._held or self._queue:
            self._queue.append((request, self._handler, persist))
            # Its body has come without our asking.
            self._owes_continue = False
        else:
            self._serve(request, self._handler, persist)

    def _complete_unusual_body(self, request: Request) -> None:
        if self._rest:
            request.body = b"".join((request.body, self._rest))
            self._rest = bytearray()
        if self._chunked:
            self._chunked = False
            self._headers = {}
        self._refusing = False
        self._repeats = 0

    def _receive(self, data: bytes) -> None:
        """Take what is not one small piece for an idle connection."""
        if self._phase == _DONE:
            self._drain(len(data))
            return
        if self._held or self._queue or self._backlog:
            self._backlog += data
        else:
            self._backlog = self._parse(data)
        if len(self._backlog) > self._limits.backlog_bytes:
            self._stop_reading()

    def _drain(self, size: int) -> None:
        """What comes behind the last request is read so that the answer is not lost, but not without end: a client
        that sends on and on can read its answer without our reading along."""
        self._drained += size
        if self._drained > self._limits.trailing_bytes:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _parse(self, data: bytes) -> bytes:
        """Feed `data` piece by piece; what must wait for its turn is given back."""
        view = memoryview(data)
        while view and self._phase != _DONE and not self._held and not self._queue:
            size = self._piece
            if self._phase == _BODY and not self._chunked and not self._refusing:
                left = self._declared - self._route.body.limit + self._room
                size = min(max(size, left), _BODY_PIECE)
            self._feed_piece(view[:size])
            view = view[size:]
        if self._phase == _BODY:
            self._charge_body()
        return b"" if self._phase == _DONE else bytes(view)

    def _feed_piece(self, piece: memoryview) -> None:
        """Feed one piece and see to what is not a plain request."""
        read = -1
        try:
            self._feed(piece)
        except HttpParserUpgrade as upgrade:
            read = upgrade.args[0]
        except HttpParserError as error:
            self._fail_parsing(error)
        if read >= 0:
            # As in `data_received`.
            self._skip_upgrade()
            rest = piece[read:]
            if rest and self._phase != _DONE:
                self._feed_piece(rest)
        elif self._phase:
            self._check_progress(len(piece))

    def _charge_body(self) -> None:
        """Ask the budget for what a body that goes on has grown by."""
        request = self._request
        if request is None:
            return
        size = len(request.body) + len(self._rest)
        more = size - self._charged
        if more > 0:
            if self._connections.bodies.grow(size, more):
                self._charged = size
            else:
                self._refuse_for_now(request, "too many request bodies are in progress")

    def _free_body(self) -> None:
        self._connections.bodies.free(self._charged)
        self._charged = 0

    def _check_progress(self, size: int) -> None:
        """Limits on a request that this piece did not complete."""
        header_bytes = self._limits.header_bytes
        if self._phase == _HEAD:
            # The piece in which a head begins may hold other requests as well, so it is not counted;
            # the whole head is measured once it is complete.
            self._head_bytes = 0 if self._head_bytes < 0 else self._head_bytes + size
            if len(self._url) > self._limits.target_bytes:
                self._refuse(None, 414, "the target is too long")
            elif self._head_bytes > header_bytes:
                self._refuse(None, 431, "the headers are too long")
        elif self._phase == _BODY and self._chunked:
            self._overhead += size
            taken = self._drained if self._refusing else self._route.body.limit - self._room
            if self._overhead > _CHUNK_OVERHEAD * taken + header_bytes + self._piece:
                self._refuse(self._request, 400, "too many bytes around the chunks")

    def _fail_parsing(self, error: HttpParserError) -> None:
        if self._phase == _DONE:
            # Data behind the last request, which may be anything.
            return
        cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
        if isinstance(cause, Refused):
            self._refuse(self._request, cause.status, cause.reason)
        elif cause is not None:
            self._refuse(self._request, 500, "internal error")
        else:
            self._refuse(self._request, 400, "not a well-formed request")

    def _begin_upgrade(self, request: Request) -> None:
        if request.method == "CONNECT":
            self._answer_early(request, self._router.refuse_method(()).handler)
        if self._parser.should_upgrade():
            # The parser takes the request for complete now; its body is still to come.
            self._upgrading = request
        else:
            self._request = request

    def _skip_upgrade(self) -> None:
        """Go on after a request to upgrade, which HTTP lets us ignore.

        The parser has left HTTP behind, so another one reads the body, told how long it is.
        """
        if self._phase == _DONE or self._upgrading is None:
            return
        self._request = request = self._upgrading
        self._upgrading = None
        self._parser = parser = HttpRequestParser(self)
        self._feed = parser.feed_data
        length = request.headers.get(b"content-length")
        if self._chunked:
            parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        elif length is not None:
            parser.feed_data(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % declared_length(length))
        else:
            parser.feed_data(b"GET / HTTP/1.1\r\n\r\n")

    # ---- refusals ------------------------------------------------------------------------------------

    def _join_repeated(self, name: bytes, value: bytes) -> None:
        self._repeats += 1
        if self._repeats > self._limits.header_count:
            raise Refused(431, "too many headers")
        if name == b"host":
            raise Refused(400, "Host is repeated")
        self._headers[name] += b", " + value

    def _check_head(self, url: bytes, headers: dict[bytes, bytes]) -> None:
        count = len(headers) + self._repeats
        self._repeats = 0
        if len(url) > self._limits.target_bytes:
            raise Refused(414, "the target is too long")
        if count > self._limits.header_count:
            raise Refused(431, "too many headers")
        if self._head_bytes >= 0 and head_size(url, headers) > self._limits.header_bytes:
            raise Refused(431, "the headers are too long")

    def _choose_persistence(self, headers: dict[bytes, bytes]) -> bytes:
        version = self._parser.get_http_version()
        if b"host" not in headers and version == "1.1":
            raise Refused(400, "Host is missing")
        persist = persistence(version, headers.get(b"connection"))
        if self._connections.persist is CLOSE or not self._parser.should_keep_alive():
            return CLOSE
        return persist

    def _begin_unusual_body(self, request: Request, route: Route, refusing: bool, length: bytes | None) -> None:
        """A body that is chunked, asked about beforehand, or sent to a route that refuses."""
        headers = request.headers
        version = self._parser.get_http_version()
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            check_transfer_encoding(coding, version)
        declared = 0 if length is None else declared_length(length)
        coming = declared > 0 or coding is not None
        expected = headers.get(b"expect") if version == "1.1" else None
        self._route = route
        self._declared = declared
        self._chunked = coding is not None
        self._overhead = 0
        self._room = limit = route.body.limit
        if coming:
            self.deadline = self._connections.body_until
        if refusing:
            # Expecting 100 the client waits for our word, and then may or may not send the body.
            if declared > self._limits.refused_bytes or (coming and expected is not None):
                self._answer_early(request, self._handler)
            self._refusing = True
            self._drained = 0
            self._room = -1
            return
        if declared > limit and not route.body.cut:
            self._refuse_length(request, route)
        if expected is not None:
            if expected.strip().lower() != b"100-continue":
                self._refuse(request, 417, "unknown expectation")
                raise StopParsing
            if not coming:
                return
            if self._held or self._queue:
                self._owes_continue = True
            else:
                self._write(CONTINUE)

    def _spill(self, request: Request, data: bytes, room: int) -> None:
        """Body bytes that do not become part of the request."""
        if self._refusing:
            self._drained += len(data)
            if self._drained > self._limits.refused_bytes:
                self._answer_early(request, self._handler)
        elif self._route.body.cut:
            fitting = data[: max(0, len(data) + room)]
            if request.body:
                self._rest += fitting
            else:
                request.body = fitting
            request.cut = True
            if self._route.body.limit - room > self._limits.cut_bytes:
                # What is here is all that the handler would get; the rest could take forever.
                request.body += self._rest
                self._answer_early(request, self._handler)
        else:
            self._refuse_length(request, self._route)

    def _answer_early(self, request: Request, handler: Handler) -> None:
        """Answer before all of the request has been read, and read no other."""
        self._conclude(request, handler)
        raise StopParsing

    def _refuse_length(self, request: Request, route: Route) -> None:
        self._refuse(request, 413, f"the body is longer than {route.body.limit} bytes")
        raise StopParsing

    def _refuse(self, request: Request | None, status: int, reason: str) -> None:
        refused = self._router.errors.refused
        self._drop_body(request)
        self._conclude(request, lambda _request: refused(request, status, reason))

    def _refuse_for_now(self, request: Request | None, reason: str) -> None:
        """The same request may succeed a moment later."""
        refused = self._router.errors.refused

        def answer(_request: Request) -> Response:
            busy = refused(request, 503, reason)
            return Response(503, busy.body, (*busy.headers, (b"Retry-After", b"1")))

        self._drop_body(request)
        self._conclude(request, answer)

    def _answer_to_unreadable(self, reason: str) -> Handler | None:
        """How the route answers a body that does not come to its end, if it has an answer to that."""
        if self._phase != _BODY or self._request is None or self._refusing:
            return None
        answer = self._route.unreadable
        return None if answer is None else lambda _request: answer(reason)

    def _drop_body(self, request: Request | None) -> None:
        """Nothing of a body that is refused is kept while its sender may still be listening."""
        self._rest = bytearray()
        if request is not None:
            request.body = b""

    # ---- answers -------------------------------------------------------------------------------------

    def _serve(self, request: Request, handler: Handler, persist: bytes) -> None:
        self._began = self._connections.clock()
        try:
            answer = handler(request)
        except Exception as error:
            answer = self._explain(request, error)
        if isinstance(answer, Response):
            self._send(request, answer, persist)
        elif isinstance(answer, Pending):
            self._held |= _WAITING
            self._current = request
            self._current_persist = persist
            self._pending = answer
            self.deadline = NEVER
            answer.listen(self._resolved, self._rejected)
        else:
            wrong = TypeError("a handler returned neither a response nor a pending one")  # type: ignore[unreachable]
            self._send(request, self._explain(request, wrong), persist)

    def _resolved(self, response: Response) -> None:
        request = self._current
        # The client may have gone, or a listener may be told twice.
        if self._transport is None or request is None:
            return
        self._current = None
        self._pending = None
        self._held &= ~_WAITING
        self._send(request, response, self._current_persist)
        if self._phase or self._queue or self._backlog or not self._reading:
            # Later: the call that resolved us is in the middle of its own work.
            self._held |= _SCHEDULED
            self._loop.call_soon(self._advance_later)

    def _rejected(self, error: Exception) -> None:
        if self._current is not None:
            self._resolved(self._explain(self._current, error))

    def _explain(self, request: Request, error: Exception) -> Response:
        try:
            return self._failed(request, error)
        except Exception:
            return _BARE_500

    def _send(self, request: Request, response: Response, persist: bytes) -> None:
        without_body = request.method == "HEAD"
        connections = self._connections
        if connections.logs_access or response.status == 500 or b"x-request-id" in request.headers:
            response = with_id(request, response, connections.logs_access or response.status == 500)
        try:
            large = len(response.body) > _LARGE_BODY
            data = encode(response, persist, without_body or large)
        except Exception as error:
            response, large = self._explain(request, error), False
            try:
                data = encode(response, persist, without_body)
            except Exception:
                response = _BARE_500
                data = encode(response, persist, without_body)
        if self._charged:
            self._free_body()
        connections.answered += 1
        journal = connections.journal
        if response.status == 500 and journal is not None:
            # Before the answer: who looks its id up finds it.
            journal.note_failure(request)
        self._write(data)
        if large and not without_body and response.status not in (204, 304):
            self._write(response.body)
        traffic = request.traffic
        if traffic is None:
            traffic = self._unmatched
        seconds = connections.clock() - self._began
        traffic.note(response.status, seconds, request.waits)
        if connections.logs_access and journal is not None:
            journal.note(request, response, seconds, self)
        if persist is CLOSE:
            self._finish()
        else:
            self.deadline = self._connections.idle_until

    def _advance_later(self) -> None:
        self._held &= ~_SCHEDULED
        self._advance()

    def _advance(self) -> None:
        """Go on with what has waited, as far as it goes."""
        while not self._held:
            if self._queue:
                request, handler, persist = self._queue.popleft()
                if self._connections.persist is CLOSE:
                    persist = CLOSE
                # None when what was sent could not be read as a request.
                self._serve(Request("", "") if request is None else request, handler, persist)
            elif self._owes_continue:
                self._owes_continue = False
                self._write(CONTINUE)
            elif self._backlog and self._phase != _DONE:
                data, self._backlog = self._backlog, b""
                self._backlog = self._parse(data)
            else:
                break
        if self._held:
            return
        if self._phase == _HEAD:
            self.deadline = self._connections.head_until
        elif self._phase == _BODY:
            self.deadline = self._connections.body_until
        else:
            self.deadline = self._connections.idle_until
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    # ---- end -----------------------------------------------------------------------------------------

    def _conclude(self, request: Request | None, handler: Handler, lingers: bool = True) -> None:
        """Make this the last answer on the connection, whatever the client still sends; what it sends is
        not read, unless the connection lingers."""
        self._phase = _DONE
        self._request = None
        self._backlog = b""
        self._rest = bytearray()
        self._owes_continue = False
        self._lingers = lingers
        self._queue.append((request, handler, CLOSE))
        self._advance()

    def _finish(self) -> None:
        """After the last answer. A client that may still be sending is read from until it stops:
        closing on unread bytes resets the connection, and the reset can overtake the answer."""
        self._phase = _DONE
        self._held |= _ANSWERED
        self._queue.clear()
        self._backlog = b""
        transport = self._transport
        if not self._lingers or transport is None:
            self._close()
            return
        self.deadline = self._connections.linger_until
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def _close(self) -> None:
        """Close once everything is written."""
        self._phase = _DONE
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        """Nothing more will be written. What the transport still has is the client's as long as it takes some of it."""
        self._held |= _CLOSING
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.deadline = NEVER
            self._connections.choke(self)
        else:
            self.deadline = self._connections.write_until

    def abort(self) -> None:
        self._held |= _CLOSING
        self.deadline = self._connections.write_until
        if self._transport is not None:
            self._transport.abort()

    def expire(self) -> None:
        """The deadline has passed."""
        held = self._held
        if held & _CLOSING and not held & _CHOKED:
            self.abort()
        elif held & _ANSWERED and not held & _CLOSING:
            self._close()
        elif held:
            # With its handler, or choked, which `Connections` watches. Set again when it continues.
            self.deadline = NEVER
        elif self._phase == _IDLE:
            self._close()
        else:
            unreadable = self._answer_to_unreadable("the body came too slowly")
            if unreadable is None:
                self._refuse(self._request, 408, "too slow")
            else:
                self._drop_body(self._request)
                self._conclude(self._request, unreadable)

    def unwritten(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        transport = self._transport
        if transport is None:
            return 0
        # The kernel takes megabytes ahead and reports room late: to see a slow client take a few
        # bytes, what it has not acknowledged counts as well.
        waiting = array("i", (0,))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):
                ioctl(sock.fileno(), TIOCOUTQ, waiting)
        return transport.get_write_buffer_size() + waiting[0]

    def wind_down(self) -> None:
        """The listener stops: what is in progress is the last."""
        if self._held & (_WAITING | _SCHEDULED) or self._queue or self._phase in (_HEAD, _BODY):
            self._persist = self._current_persist = CLOSE
        else:
            self._close()


def _answering(response: Response) -> Handler:
    return lambda _request: response


def _raising(error: Exception) -> Handler:
    # Raised again where a handler would raise, so that it is answered like any failure.
    def handler(_request: Request) -> Response:
        raise error

    return handler
