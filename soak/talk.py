"""A plain HTTP client: one connection, no retries, and a clear word on what became of a request."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Unreachable(Exception):
    """No connection: nothing was asked."""


class Unanswered(Exception):
    """It was asked, and no answer came: it may have been done."""


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Talk:
    """To one of several servers, and to the next when that is gone."""

    def __init__(self, urls: list[str], first: int = 0, timeout: float = 30) -> None:
        # Not copied: a campaign may add servers and take them away.
        self._urls = urls
        self._next = first
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def connect(self) -> None:
        if self._connection is not None:
            return
        parts = urlsplit(self._urls[self._next % len(self._urls)])
        if parts.scheme == "https":
            # Whom they speak to is not what is tried here.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=self._timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()  # of one with TLS there may be a socket already
            self._next += 1
            raise Unreachable(str(error)) from None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection

    def __call__(self, method: str, path: str, body: bytes | str | object = None, **headers: str) -> Reply:
        """Headers are written with underscores: `content_type="text/plain"`."""
        if body is not None and not isinstance(body, bytes | str):
            body = json.dumps(body)
            headers.setdefault("content_type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        self.connect()
        assert self._connection is not None
        try:
            self._connection.request(method, path, body, {name.replace("_", "-"): v for name, v in headers.items()})
            response = self._connection.getresponse()
            reply = Reply(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            self.close()
            self._next += 1
            raise Unanswered(repr(error)) from None
        if response.will_close:
            self.close()
        return reply

    def close(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
