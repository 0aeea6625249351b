"""A request and a response, as plain values that need no socket to be made or read.

Nothing here reads or writes a connection, and nothing here decides what is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from penstock.pending import Pending


class Request:
    """What a client asked, complete with its body.

    `path` and `query` are as they were sent; `params` are the percent-decoded segments that the
    pattern of the route names, in their order. Header names are lower case, and the values of a
    repeated header are joined with a comma. `cut` says that the body was longer than the rule of
    its route, and that only its beginning is here. `caller` is for the guard of the router to set.
    """

    __slots__ = ("_query_params", "body", "caller", "cut", "headers", "method", "params", "path", "query")

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
    """What is answered. The edge adds framing, `Date` and `Server`; a handler never sets those."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def __repr__(self) -> str:
        return f"<Response {self.status}, {len(self.body)} bytes>"


Handler: TypeAlias = Callable[[Request], Response | Pending[Response]]
