"""The state of one connection's reading, and the judgement on requests that are not plain.

Whatever is rare sits here, so that the callbacks of the parser, which every request pays for, stay
short. It never writes to a client and never calls a handler.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpRequestParser

from penstock.edge.encoding import CLOSE
from penstock.edge.framing import (
    RefusedError,
    check_transfer_encoding,
    head_size,
    origin_form,
    persistence,
)
from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import Guard, Route, Router, Target
from penstock.edge.sweep import Sweep

# Where the parser stands: between requests, in a head, in a body, or past the last request it will read.
IDLE: Final = 0
HEAD: Final = 1
BODY: Final = 2
DONE: Final = 3

# The parser cannot be stopped between two requests of one piece, so pieces are small: what is parsed
# ahead of its turn stays below the requests that fit in one.
_PIECE: Final = 4096

# So much is read of a body that is cut off; behind it the connection is closed.
_READ_OF_CUT: Final = 1 << 24

# A request that is refused keeps its connection if its body is shorter than this.
_DRAINED: Final = 1 << 16

# Clients ask for the same few targets all the time: taking one apart is done once.
_TARGETS_KEPT: Final = 4096
_TARGET_KEPT: Final = 256


class StopParsingError(Exception):
    """Leaves the parser: the last request of this connection has been read."""


class Judge:
    __slots__ = (
        "_charged",
        "_chunked",
        "_declared",
        "_drained",
        "_feed",
        "_guard",
        "_handler",
        "_head_bytes",
        "_headers",
        "_max_headers",
        "_max_target",
        "_overhead",
        "_parser",
        "_persist",
        "_phase",
        "_piece",
        "_refusing",
        "_repeats",
        "_request",
        "_rest",
        "_room",
        "_route",
        "_router",
        "_sweep",
        "_targets",
        "_upgrading",
        "_url",
        "deadline",
    )

    _handler: Handler
    _route: Route

    def __init__(self, router: Router, sweep: Sweep) -> None:
        self._router = router
        self._targets = router.targets
        self._guard = router.guard
        self._sweep = sweep
        self._max_headers = sweep.limits.header_count
        self._max_target = sweep.limits.target_bytes
        self._piece = min(_PIECE, sweep.limits.header_bytes)
        self.deadline = sweep.idle_until

        self._parser = parser = HttpRequestParser(self)
        self._feed = parser.feed_data
        self._phase = IDLE
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeats = 0
        self._head_bytes = -1

        self._request: Request | None = None
        self._upgrading: Request | None = None
        self._persist = CLOSE
        self._refusing = False
        self._chunked = False
        self._declared = 0
        self._drained = 0
        self._overhead = 0
        self._room = 0
        self._rest = bytearray()
        # What the budget of all bodies has given to this connection.
        self._charged = 0

    # What Connection makes of it.

    def address(self) -> str:
        raise NotImplementedError

    def _owe_continue(self) -> None:
        raise NotImplementedError

    def _conclude(self, request: Request | None, handler: Handler, lingers: bool = True) -> None:
        """Answer as the last thing on this connection, whatever the client still sends; nothing, if it does not
        linger."""
        raise NotImplementedError

    def _repeat(self, name: bytes, value: bytes) -> None:
        self._repeats += 1
        if self._repeats > self._max_headers:
            raise RefusedError(431, "too many headers")
        if name == b"host":
            raise RefusedError(400, "Host is repeated")
        self._headers[name] += b", " + value

    def _check_size(self, url: bytes, headers: dict[bytes, bytes]) -> None:
        count = len(headers) + self._repeats
        self._repeats = 0
        if len(url) > self._max_target:
            raise RefusedError(414, "the target is too long")
        if count > self._max_headers:
            raise RefusedError(431, "too many headers")
        if self._head_bytes >= 0 and head_size(url, headers) > self._sweep.limits.header_bytes:
            raise RefusedError(431, "the headers are too long")

    def _resolve(self, name: bytes, url: bytes) -> Target:
        method = name.decode("latin-1")
        target = url.decode("latin-1")
        if target[0] != "/" or "#" in target:
            target = origin_form(target)
        path, _, query = target.partition("?")
        found = (method, path, query, *self._router.match(method, path))
        targets = self._targets
        if len(url) <= _TARGET_KEPT:
            if len(targets) >= _TARGETS_KEPT:
                # Starting over costs the few that are in use one look-up each; ids go for good.
                targets.clear()
            # No method is another one followed by what a target may begin with.
            targets[name + url] = found
        return found

    def _judge_persistence(self, headers: dict[bytes, bytes]) -> bytes:
        version = self._parser.get_http_version()
        if b"host" not in headers and version == "1.1":
            raise RefusedError(400, "Host is missing")
        persist = persistence(version, headers.get(b"connection"))
        if self._sweep.persist is CLOSE or not self._parser.should_keep_alive():
            return CLOSE
        return persist

    def _ask_guard(self, guard: Guard, request: Request, route: Route) -> bool:
        try:
            verdict = guard(request, route, self)
        except Exception as error:
            self._handler = _raising(error)
            return True
        if verdict is None:
            return False
        self._handler = _answering(verdict)
        return True

    def _judge_body(self, request: Request, route: Route, refusing: bool, length: bytes | None) -> None:
        """A body that is chunked, asked about beforehand, or sent to a route that refuses."""
        headers = request.headers
        version = self._parser.get_http_version()
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            check_transfer_encoding(coding, version)
        declared = 0 if length is None else int(length)
        coming = declared > 0 or coding is not None
        expected = headers.get(b"expect") if version == "1.1" else None
        self._route = route
        self._declared = declared
        self._chunked = coding is not None
        self._overhead = 0
        self._room = limit = route.body.limit
        if coming:
            self.deadline = self._sweep.body_until
        if refusing:
            # Expecting 100 the client waits for our word, and then may or may not send the body.
            if declared > _DRAINED or (coming and expected is not None):
                self._answer_refusal(request)
            self._refusing = True
            self._drained = 0
            self._room = -1
            return
        if declared > limit and not route.body.cut:
            self._refuse_length(request, route)
        if expected is not None:
            if expected.strip().lower() != b"100-continue":
                self._refuse(request, 417, "unknown expectation")
            if coming:
                self._owe_continue()

    def _enter_body(self) -> None:
        """The parser that replaces one which saw an upgrade has read the head we made for it."""
        self._phase = BODY
        self.deadline = self._sweep.body_until

    def _judge_upgrade(self, request: Request) -> None:
        if request.method == "CONNECT":
            self._conclude(request, self._router.refuse_method(()).handler)
            raise StopParsingError
        if self._parser.should_upgrade():
            # The parser takes the message for complete now; its body is still to come.
            self._upgrading = request
        else:
            self._request = request

    def _spill(self, request: Request, data: bytes, room: int) -> None:
        """Body bytes that do not become part of the request."""
        if self._refusing:
            self._drained += len(data)
            if self._drained > _DRAINED:
                self._answer_refusal(request)
        elif self._route.body.cut:
            fitting = data[: max(0, len(data) + room)]
            if request.body:
                self._rest += fitting
            else:
                request.body = fitting
            request.cut = True
            if self._route.body.limit - room > _READ_OF_CUT:
                self._answer_cut(request)
        else:
            self._refuse_length(request, self._route)

    def _answer_cut(self, request: Request) -> None:
        """What is here is all that the handler would get; the rest could take for ever."""
        request.body += self._rest
        self._conclude(request, self._handler)
        raise StopParsingError

    def _answer_refusal(self, request: Request) -> None:
        self._conclude(request, self._handler)
        raise StopParsingError

    def _refuse_length(self, request: Request, route: Route) -> None:
        self._refuse(request, 413, f"the body is longer than {route.body.limit} bytes")

    def _refuse(self, request: Request, status: int, reason: str) -> None:
        self._give_up(request, status, reason)
        raise StopParsingError

    def _give_up(self, request: Request | None, status: int, reason: str) -> None:
        refused = self._router.errors.refused
        self._drop_body(request)
        self._conclude(request, lambda _request: refused(request, status, reason))

    def _unreadable(self, reason: str) -> Handler | None:
        """How the route answers a body that does not come to its end, if it has a word for that."""
        if self._phase != BODY or self._request is None or self._refusing:
            return None
        answer = self._route.unreadable
        return None if answer is None else lambda _request: answer(reason)

    def _turn_away(self, request: Request | None, reason: str) -> None:
        """Not now: the same request may succeed a moment later."""
        refused = self._router.errors.refused

        def answer(_request: Request) -> Response:
            busy = refused(request, 503, reason)
            return Response(503, busy.body, (*busy.headers, (b"Retry-After", b"1")))

        self._drop_body(request)
        self._conclude(request, answer)

    def _drop_body(self, request: Request | None) -> None:
        """Nothing of a body that is refused is kept while its sender may still be listening."""
        self._rest = bytearray()
        if request is not None:
            request.body = b""


def _answering(response: Response) -> Handler:
    return lambda _request: response


def _raising(error: Exception) -> Handler:
    # Raised again where a handler would raise, so that it is answered like any failure.
    def handler(_request: Request) -> Response:
        raise error

    return handler
