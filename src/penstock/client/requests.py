"""What a request is, and how its answer is read. Nothing here talks to a server.

A verb of `verbs` or `arrow` describes one of three things: a `Request`; a `Moot` one, whose result is known without
asking; or a `Dialogue` of several requests. For `Pages` the result is a page, which may name what to ask for the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from penstock.client.address import Address, Answer, Doing
from penstock.client.errors import InvalidRequest, Refused, UnexpectedAnswer, error_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """`repeatable` says that doing it twice is doing it once, `wait_s` how long the server may take on purpose.
    `refusals` are the errors of this verb by their status, `headers` what this request alone carries."""

    read: Callable[[Answer], T]
    method: str
    path: str
    body: bytes | None = None
    repeatable: bool = False
    wait_s: float = 0
    refusals: Mapping[int, type[Refused]] | None = None
    headers: Mapping[str, str] | None = None

    def result(self, answer: Answer, address: Address) -> T:
        """What the server's answer means. Raises the error that it tells of."""
        if answer.status in (200, 201, 204):
            try:
                return self.read(answer)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise address.translated(error, Doing.READING) from error
        with suppress(ValueError):
            told = answer.json()
            if isinstance(told.get("error"), str) and answer.status >= 400:
                raise error_of(answer.status, told, answer.retry_after, self.refusals)
        if answer.status >= 500:  # a proxy in front may answer without our words
            raise error_of(answer.status, {"error": f"{address.url} answered {answer.status}"}, answer.retry_after)
        raise UnexpectedAnswer(f"{address.url} answered {answer.status} in a way no Penstock server does")


@dataclass(frozen=True, slots=True)
class Moot(Generic[T]):
    """Nothing to ask: the result is known."""

    value: T


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    following: Asking[Page[T]] | None = None


# Yields requests and is sent their results, or thrown their errors; what it returns is the result of all.
Dialogue: TypeAlias = Generator[Request[Any] | Moot[Any], Any, T]

Asking: TypeAlias = Request[T] | Moot[T] | Dialogue[T]
Pages: TypeAlias = Asking[Page[T]]


# How a request is written


def encoded(value: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"the request cannot be written as JSON: {error}") from error


def quoted(name: str, what: str) -> str:
    # An empty name or dots would be another path altogether, and some proxies would go there.
    if name not in ("", ".", ".."):
        with suppress(UnicodeEncodeError):
            return quote(name, safe="")
    raise InvalidRequest(f"{name!r} is not a {what}")


def queue_path(queue: str, rest: str = "", **query: object) -> str:
    return f"/v1/queues/{quoted(queue, 'queue name')}{rest}{query_of(**query)}"


def query_of(**query: object) -> str:
    """What is None is left out."""
    given = {name: value for name, value in query.items() if value is not None}
    try:
        return f"?{urlencode(given)}" if given else ""
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the request cannot be written as UTF-8: {error}") from error
