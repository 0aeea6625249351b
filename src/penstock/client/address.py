"""Where a server is, what every request to it carries, and how a failure to talk to it is told.

Both transports use it. An error of a socket, of TLS, of HTTP or of a parser becomes one of the client's own here and
nowhere else, so it reads the same whichever transport met it.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from enum import Enum, auto
from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.parse import urlsplit

from penstock.client.errors import ClientError, UnexpectedAnswer, Unreachable


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Message

    @property
    def retry_after(self) -> str | None:
        return self.headers.get("Retry-After")

    def json(self) -> dict[str, Any]:
        """Raises ValueError where the body is not a JSON object."""
        try:
            value = json.loads(self.body)
        except RecursionError:
            value = None
        if not isinstance(value, dict):
            raise ValueError("the answer is not a JSON object")
        return value


class Lost(Unreachable):
    """The connection ended where an answer should have come. `kept` says that it had been used before, so it may have
    ended between two requests."""

    def __init__(self, message: str, *, sent: bool = False, kept: bool = False) -> None:
        super().__init__(message, sent=sent)
        self.kept = kept


class Doing(Enum):
    """What the client was doing when something failed."""

    CONNECTING = auto()
    ASKING = auto()
    READING = auto()


class Address:
    """`tls` is a context of the caller's for https; without one the system's certificates are trusted."""

    def __init__(
        self, url: str, api_key: str | None = None, timeout_s: float = 30, tls: ssl.SSLContext | None = None
    ) -> None:
        """Raises ValueError for an address that cannot be one, and for a key that would break a header."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a server's address; it looks like http://127.0.0.1:8080")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"a server's address holds no user, query or fragment: {url!r}")
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("an API key is made of printable ASCII characters")
        self.url = url
        self.host = parts.hostname
        usual = 443 if parts.scheme == "https" else 80
        self.port = usual if parts.port is None else parts.port
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.authority = name if self.port == usual else f"{name}:{self.port}"
        self.prefix = parts.path.rstrip("/")
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._own_tls = tls
        self.tls = (tls or _system_tls()) if parts.scheme == "https" else None
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def __reduce__(self) -> tuple[type[Address], tuple[object, ...]]:
        """To be pickled. A context of the caller's cannot be."""
        return Address, (self.url, self._api_key, self.timeout_s, self._own_tls)

    def headers_with(self, more: Mapping[str, str] | None) -> Mapping[str, str]:
        return self._headers if more is None else {**self._headers, **more}

    def translated(self, error: Exception, doing: Doing, timeout_s: float = 0, *, kept: bool = False) -> ClientError:
        """The client's own error for a foreign one; `kept` is about the connection, as in `Lost`."""
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        match doing, error:
            case Doing.READING, _:
                return UnexpectedAnswer(f"the answer of {self.url} lacks something; is it a Penstock server? {reason}")
            case Doing.CONNECTING, TimeoutError():
                return Unreachable(f"cannot reach {self.url}: timed out", sent=False)
            case Doing.CONNECTING, _:
                return Unreachable(f"cannot reach {self.url}: {reason}", sent=False)
            case _, TimeoutError():
                return Unreachable(f"no answer from {self.url} within {timeout_s:g} s", sent=True)
            case _, OSError() | IncompleteRead():
                return Lost(f"lost the connection to {self.url}: {reason}", sent=True, kept=kept)
        return UnexpectedAnswer(f"{self.url} does not speak HTTP: {reason}")


# What a transport may meet.
FOREIGN = (OSError, HTTPException)


def _system_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
