"""Bytes to requests: the callbacks of the parser.

Every line here is paid for by every request: the common case comes first, and nothing that is rare is
looked at twice. It never writes to a client and never calls a handler.
"""

from __future__ import annotations

from penstock.edge.framing import RefusedError
from penstock.edge.http import Request
from penstock.edge.judging import BODY, DONE, HEAD, Judge, StopParsingError


class Reader(Judge):
    __slots__ = ()

    def on_message_begin(self) -> None:
        if self._phase == DONE:
            raise StopParsingError
        self._phase = HEAD
        self._url = b""
        self._head_bytes = -1
        self.deadline = self._sweep.head_until

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        headers = self._headers
        if name in headers:
            self._repeat(name, value)
        else:
            headers[name] = value

    def on_headers_complete(self) -> None:  # noqa: C901 - a call more is paid by every request
        headers = self._headers
        # A new one already here: trailers come through the same callback and must not reach the request.
        self._headers = {}
        if self._request is not None:
            self._enter_body()
            return
        url = self._url
        if len(headers) > self._max_headers or len(url) > self._max_target or self._head_bytes >= 0 or self._repeats:
            self._check_size(url, headers)
        parser = self._parser
        if parser.should_keep_alive() and b"connection" not in headers and b"proxy-connection" not in headers:
            # Only HTTP/1.1 is kept alive without a word, so the version needs no look.
            if b"host" not in headers:
                raise RefusedError(400, "Host is missing")
            persist = self._sweep.persist
        else:
            persist = self._judge_persistence(headers)
        name = parser.get_method()
        found = self._targets.get(name + url)
        if found is None:
            found = self._resolve(name, url)
        method, path, query, route, params = found
        request = Request(method, path, query, headers, b"", params)
        if route.choose is not None:
            route = route.choose(request)
        self._handler = route.handler
        self._persist = persist
        refusing = route.refuses
        guard = self._guard
        if guard is not None and not refusing:
            refusing = self._ask_guard(guard, request, route)
        length = headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" in headers or b"expect" in headers:
                self._judge_body(request, route, refusing, None)
        elif refusing or b"expect" in headers:
            self._judge_body(request, route, refusing, length)
        else:
            self._declared = declared = int(length)
            self._route = route
            self._room = room = route.body.limit
            if declared > room and not route.body.cut:
                self._refuse_length(request, route)
            self.deadline = self._sweep.body_until
        self._phase = BODY
        if b"upgrade" in headers or method == "CONNECT":
            self._judge_upgrade(request)
        else:
            self._request = request

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
