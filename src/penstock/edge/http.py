"""A request and a response, as plain values that need no socket, what is counted of them, and the bytes of an
HTTP/1.1 answer.

Nothing here reads or writes a connection, and nothing here decides what is answered. A header value can
never forge another header or a second response. No clock is read: the connections of a listener tell
the date.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from penstock.edge.lately import Lately
from penstock.pending import Pending

# The `Connection` line of an answer. Compared by identity on the hot path.
KEEP: Final = b""
KEEP_OLD: Final = b"Connection: keep-alive\r\n"
CLOSE: Final = b"Connection: close\r\n"

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}

_LENGTHS: Final = [b"Content-Length: %d\r\n\r\n" % size for size in range(1024)]

# These decide where an answer ends, so they are set in one place.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection"))

# Upper bounds of buckets, in seconds; what takes longer is in one more. A request that its client lets wait for
# something to happen says nothing about how fast the server is, so it is counted apart.
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_BOUNDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)

# Names and values. See `Response`.
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...] | list[tuple[bytes, bytes]]

# Handlers mostly answer with the same few tuples.
_BLOCKS_KEPT: Final = 256
_blocks: dict[tuple[tuple[bytes, bytes], ...], bytes] = {(): b""}
_lately: Final = Lately(_BLOCKS_KEPT)
# Names that were checked. Handlers use few.
_usual_names: set[bytes] = set()

# Status line, server and date of every status answered in this second.
_openings: dict[int, bytes] = {}
_date = formatdate(usegmt=True).encode()


class Traffic:
    """What one route has answered: how often with which status, and how long it took. It is counted on the hot path,
    so a route holds its own numbers, and no label is looked up for them. The time of a request is that between its last
    byte and the moment its answer is handed to the socket.

    `api` is what the composition root calls the API it belongs to, `route` its pattern. Where one
    pattern serves several operations, each is a part."""

    __slots__ = ("api", "buckets", "method", "parts", "route", "seconds", "statuses", "wait_buckets", "wait_seconds")

    def __init__(self, api: str = "", method: str = "", route: str = "") -> None:
        self.api = api
        self.method = method
        self.route = route
        self.statuses: dict[int, int] = {}
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.wait_buckets = [0] * (len(WAIT_BOUNDS) + 1)
        self.wait_seconds = 0.0
        self.parts: dict[str, Traffic] = {}

    def label(self, api: str, method: str, route: str) -> None:
        self.api = api
        self.method = method
        self.route = route

    def part(self, name: str) -> Traffic:
        """Of one operation. There must be few names: each is kept."""
        found = self.parts.get(name)
        if found is None:
            self.parts[name] = found = Traffic(self.api, self.method, name)
        return found

    def note(self, status: int, seconds: float, waits: bool) -> None:
        statuses = self.statuses
        statuses[status] = statuses.get(status, 0) + 1
        if waits:
            self.wait_buckets[bisect_left(WAIT_BOUNDS, seconds)] += 1
            self.wait_seconds += seconds
        else:
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds


class Request:
    """What a client asked, complete with its body.

    `path` and `query` are as they were sent; `params` are the percent-decoded segments that the
    pattern of the route names, in their order. Header names are lower case, and the values of a
    repeated header are joined with a comma. `cut` says that the body was longer than the rule of
    its route, and that only its beginning is here. `caller` is for the guard of the router to set.
    A handler sets `waits` where the client has asked for an answer that may be long in coming; then the
    time it takes is not the server's. `traffic` is where the answer is counted. `request_id` is for
    `request_ids`.
    """

    __slots__ = (
        "_query_params",
        "body",
        "caller",
        "cut",
        "headers",
        "method",
        "params",
        "path",
        "query",
        "request_id",
        "traffic",
        "waits",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: dict[bytes, bytes] | None = None,
        body: bytes = b"",
        params: tuple[str, ...] = (),
        cut: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = {} if headers is None else headers
        self.body = body
        self.params = params
        self.cut = cut
        self.caller: Any = None
        self.waits = False
        self.traffic: Traffic | None = None
        self.request_id: str | None = None
        self._query_params: dict[str, str] | None = None

    def query_params(self) -> dict[str, str]:
        """The decoded query; of a repeated name the last value, and blank values are kept."""
        params = self._query_params
        if params is None:
            self._query_params = params = dict(parse_qsl(self.query, keep_blank_values=True))
        return params

    def __repr__(self) -> str:
        # No header or body: either may hold a secret, and a repr ends up in logs.
        return f"<Request {self.method} {self.path}>"


class Response:
    """What is answered. The edge adds framing, `Date` and `Server`; a handler never sets those.

    Headers that come again are a tuple: their bytes are looked up. Those of this answer alone, such as the id of what
    it tells of, are a list: hashing them would only show that they were never seen.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def __repr__(self) -> str:
        return f"<Response {self.status}, {len(self.body)} bytes>"


Handler: TypeAlias = Callable[[Request], Response | Pending[Response]]


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
    block = _blocks.get(headers) if isinstance(headers, tuple) else None
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


def _encode_headers(headers: Headers) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        if name not in _usual_names:
            _check_name(name)
        parts += (name, b": ", value, b"\r\n")
    block = b"".join(parts)
    # One line end per header is ours; any other came in with a name or a value.
    if block.count(b"\n") != len(headers) or block.count(b"\r") != len(headers) or b"\0" in block:
        raise ValueError("a header holds a line end or NUL")
    if isinstance(headers, tuple) and len(_blocks) < _BLOCKS_KEPT and _lately.note(headers):
        _blocks[headers] = block
    return block


def _check_name(name: bytes) -> None:
    if name.lower() in _FRAMING:
        raise ValueError("framing headers belong to the edge")
    if len(_usual_names) < _BLOCKS_KEPT:
        _usual_names.add(name)
