"""Where a server is, what every request to it carries, and how a failure to talk to it is told.

Both transports use it, so that an error reads the same whichever of them met it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
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


class Address:
    """`tls` is a context of the caller's for https; without one the system's certificates are trusted."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        """Raises ValueError for an address that cannot be one."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a server's address; it looks like http://127.0.0.1:8080")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"a server's address holds no user, query or fragment: {url!r}")
        self.url = url
        self.host = parts.hostname
        usual = 443 if parts.scheme == "https" else 80
        self.port = usual if parts.port is None else parts.port
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.authority = name if self.port == usual else f"{name}:{self.port}"
        self.prefix = parts.path.rstrip("/")
        self.headers = dict(headers)
        self.timeout_s = timeout_s
        self.tls = (tls or _system_tls()) if parts.scheme == "https" else None

    def headers_with(self, more: Mapping[str, str] | None) -> Mapping[str, str]:
        return self.headers if more is None else {**self.headers, **more}

    # What can go wrong

    def cannot_reach(self, error: Exception) -> Unreachable:
        return Unreachable(f"cannot reach {self.url}: {_reason(error)}", sent=False)

    def no_answer(self, timeout_s: float) -> Unreachable:
        return Unreachable(f"no answer from {self.url} within {timeout_s:g} s", sent=True)

    def lost(self, error: Exception) -> Lost:
        return Lost(f"lost the connection to {self.url}: {_reason(error)}", sent=True)

    def not_http(self, error: Exception) -> UnexpectedAnswer:
        return UnexpectedAnswer(f"{self.url} does not speak HTTP: {_reason(error)}")


def native_headers(api_key: str | None) -> dict[str, str]:
    """What every request of the native API in JSON carries. Raises ValueError for a key that would break a header."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if api_key:
        if not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("an API key is made of printable ASCII characters")
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


def _system_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
