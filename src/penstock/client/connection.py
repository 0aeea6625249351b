"""One kept HTTP connection to one server: a request goes out, a status and its bytes come back.

It knows nothing of queues. A request is repeated only where that cannot do anything twice: when the kept
connection turns out to be closed before a byte was sent, or when the caller says that it is repeatable.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from urllib.parse import urlsplit

from penstock.client.errors import UnexpectedAnswer, Unreachable


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Message

    @property
    def retry_after(self) -> str | None:
        return self.headers.get("Retry-After")


class Lost(Unreachable):
    """The connection ended where an answer should have come."""


class Connection:
    def __init__(self, url: str, headers: dict[str, str], timeout_s: float) -> None:
        """Raises ValueError for an address that is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no server's address; it looks like http://127.0.0.1:8080")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"a server's address holds no user, query or fragment: {url!r}")
        self.url = url
        self._prefix = parts.path.rstrip("/")
        self._headers = headers
        self._timeout_s = timeout_s
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.hostname, parts.port, timeout=timeout_s)

    def close(self) -> None:
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        repeatable: bool,
        patience_s: float = 0,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer, whatever its status. `patience_s` is how long the server may take on purpose; `headers` go with
        this request alone."""
        sent = self._headers if headers is None else {**self._headers, **headers}
        if self._http.sock is not None and _is_stale(self._http.sock):
            self._http.close()
        kept = self._http.sock is not None
        try:
            return self._ask_once(method, path, body, sent, patience_s)
        except Lost:
            # A connection that was just opened does not go stale: then the server itself is in trouble.
            if not (kept and repeatable):
                raise
        return self._ask_once(method, path, body, sent, patience_s)

    def _ask_once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], patience_s: float
    ) -> Answer:
        if self._http.sock is None:
            self._connect()
        finished = False
        timeout_s = self._timeout_s + patience_s
        try:
            self._http.sock.settimeout(timeout_s)
            # A server that refuses a body early answers before it closes; that answer may be here already.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._http.request(method, self._prefix + path, body, headers)
            with self._http.getresponse() as response:
                answer = Answer(response.status, response.read(), response.headers)
            finished = True
            return answer
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.url} within {timeout_s:g} s", sent=True) from error
        except (ConnectionError, IncompleteRead) as error:
            raise Lost(f"lost the connection to {self.url}: {_reason(error)}", sent=True) from error
        except HTTPException as error:
            raise UnexpectedAnswer(f"{self.url} does not speak HTTP: {_reason(error)}") from error
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.url}: {_reason(error)}", sent=True) from error
        finally:
            # What is left unread, even after an interrupt, must never pass for the next request's answer.
            if not finished:
                self._http.close()

    def _connect(self) -> None:
        self._http.timeout = self._timeout_s
        try:
            self._http.connect()
        except OSError as error:
            self._http.close()
            raise Unreachable(f"cannot reach {self.url}: {_reason(error)}", sent=False) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _is_stale(sock: socket.socket) -> bool:
    """Between requests a server has nothing to say: whatever is readable is the end of the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
