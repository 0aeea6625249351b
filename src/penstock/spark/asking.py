"""Requests of the Spark side, each repeated until it is answered or the patience is over.

It knows how to reach a server and what an answer means, and nothing of shipments or Spark. Only requests that may be
repeated without doing anything twice belong here. The API key is in no representation, error or log line.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from penstock.client import ClientError
from penstock.client import Unreachable as ConnectionFailed
from penstock.client.address import Address, Answer
from penstock.client.requests import Request
from penstock.client.transport import Pool
from penstock.spark.failures import Conflict, Ended, Failed, Refused, Unreachable

JSON = "application/json"
_TIMEOUT_S = 120.0
_FIRST_NAP_S = 0.1
_LONGEST_NAP_S = 5.0
# Answers of a proxy whose server is away, and of a server that asks for patience.
_TRY_AGAIN = (502, 503, 504)


class Asking:
    """A server, for any number of threads. It can be pickled, and then opens connections of its own."""

    def __init__(self, url: str, api_key: str | None = None, patience_s: float = 300.0) -> None:
        """Raises ValueError for an address or a key that cannot be one."""
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("an API key is made of printable ASCII characters")
        self.url = url
        self.patience_s = patience_s
        self._api_key = api_key
        self._pool = self._open()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_pool"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pool = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The next call opens a new connection."""
        self._pool.close()

    def _ask(self, method: str, path: str, value: Mapping[str, object] | None = None) -> dict[str, Any]:
        """JSON both ways; an empty object for an answer without content."""
        body = None if value is None else json.dumps(value).encode()
        return object_of(self._answer(method, path, body))

    def _answer(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        accept: str = JSON,
        content_type: str = JSON,
        more: Mapping[str, str] | None = None,
    ) -> Answer:
        headers = {"Accept": accept, "Content-Type": content_type, **(more or {})}
        end = time.monotonic() + self.patience_s
        nap_s = _FIRST_NAP_S
        while True:
            waited = 0.0
            try:
                answer = self._once(method, path, body, headers)
                if answer.status not in _TRY_AGAIN:
                    return _checked(answer, self.url)
                problem = f"{self.url} answered {answer.status}"
                if answer.retry_after and answer.retry_after.isdecimal():
                    waited = float(answer.retry_after)
            except ConnectionFailed as error:
                problem = str(error)
            # Many tasks lose the server at once; they should not all come back at once.
            pause_s = max(waited, nap_s) * random.uniform(0.5, 1.0)  # noqa: S311
            if time.monotonic() + pause_s >= end:
                raise Unreachable(f"{problem}; tried for {self.patience_s:g} s")
            time.sleep(pause_s)
            nap_s = min(2 * nap_s, _LONGEST_NAP_S)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        try:
            return self._pool.ask(Request(_nothing, method, path, body, repeatable=True, headers=headers))
        except ConnectionFailed:
            raise
        except ClientError as error:
            raise Failed(str(error)) from None

    def _open(self) -> Pool:
        # Each thread has a connection to itself: a heartbeat never waits for the answer to somebody's long request.
        return Pool(Address(self.url, self._api_key, min(_TIMEOUT_S, max(self.patience_s, 1.0))))


def _nothing(_answer: Answer) -> None:
    """Answers are read here, not by the pool's request."""


def _checked(answer: Answer, url: str) -> Answer:
    """The one table from an HTTP status to an exception."""
    if answer.status < 300:
        return answer
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {}
    text = told.get("error")
    text = text if isinstance(text, str) else f"{url} answered {answer.status}"
    if answer.status == 410:
        raise Ended(text, str(told.get("how", "ended")))
    if answer.status == 409:
        raise Conflict(text, told.get("expected"))
    if 400 <= answer.status < 500:
        raise Refused(text, answer.status)
    raise Failed(text)


def object_of(answer: Answer) -> dict[str, Any]:
    if not answer.body:
        return {}
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Failed("the answer is not what a Penstock server says; look at the address")
    return value
