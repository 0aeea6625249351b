"""A plain HTTP client for tests: one connection, no retries, nothing hidden."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)


class Talk:
    """`talk("POST", "/messages/q", b"body")` on a connection that is kept open."""

    def __init__(self, url: str, timeout: float = 120) -> None:
        self.url = url
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)

    def __call__(self, method: str, path: str, body: bytes | str | dict | list | None = None, **headers: str) -> Reply:
        if isinstance(body, dict | list):
            body = json.dumps(body)
            headers.setdefault("content_type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body, named)
        response = self._connection.getresponse()
        return Reply(response.status, response.headers, response.read())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Talk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
