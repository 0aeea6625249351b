"""One kept HTTP connection to one server: a request goes out, a status and its bytes come back.

It knows nothing of queues. A request is repeated only where that cannot do anything twice: when the kept
connection turns out to be closed before a byte was sent, or when the caller says that it is repeatable.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Protocol

from penstock.client.address import FOREIGN, Address, Answer, Doing, Lost
from penstock.client.requests import Request


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Connection:
    """For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http: HTTPConnection
        if address.tls is not None:
            self._http = HTTPSConnection(address.host, address.port, timeout=address.timeout_s, context=address.tls)
        else:
            self._http = HTTPConnection(address.host, address.port, timeout=address.timeout_s)

    @property
    def is_open(self) -> bool:
        return self._http.sock is not None

    def close(self) -> None:
        self._http.close()

    def abandon(self) -> None:
        """For a child process that inherited the connection: the parent keeps it, and the server hears nothing.

        This side of the socket goes, so that the server sees when the parent is done. No buffer is closed on the way:
        a thread that exists in the parent only may have locked it for ever.
        """
        sock = self._http.sock
        if sock is not None:
            descriptor = sock.detach()
            if descriptor >= 0:
                os.close(descriptor)

    def ask(self, request: Request[Any]) -> Answer:
        """The answer, whatever its status."""
        headers = self._address.headers_with(request.headers)
        if self._http.sock is not None and is_stale(self._http.sock):
            self._http.close()
        kept = self._http.sock is not None
        try:
            return self._ask_once(request, headers)
        except Lost:
            # A connection that was just opened does not go stale: then the server itself is in trouble.
            if not (kept and request.repeatable):
                raise
        return self._ask_once(request, headers)

    def _ask_once(self, request: Request[Any], headers: Mapping[str, str]) -> Answer:
        address = self._address
        if self._http.sock is None:
            self._connect()
        finished = False
        timeout_s = address.timeout_s + request.wait_s
        try:
            self._http.sock.settimeout(timeout_s)
            # A server that refuses a body early answers before it closes; that answer may be here already.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._http.request(request.method, address.prefix + request.path, request.body, headers)
            with self._http.getresponse() as response:
                answer = Answer(response.status, response.read(), response.headers)
            finished = True
            return answer
        except FOREIGN as error:
            raise address.translated(error, Doing.ASKING, timeout_s) from error
        finally:
            # What is left unread, even after an interrupt, must never pass for the next request's answer.
            if not finished:
                self._http.close()

    def _connect(self) -> None:
        self._http.timeout = self._address.timeout_s
        try:
            self._http.connect()
        except OSError as error:
            self._http.close()
            raise self._address.translated(error, Doing.CONNECTING) from error


def is_stale(sock: HasDescriptor) -> bool:
    """Between requests a server has nothing to say: whatever is readable is the end of the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
