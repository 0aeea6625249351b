"""Methods of the clients, made of the verbs' descriptions: with their parameters and their documentation, so that the
clients for threads and for asyncio cannot differ in more than how they wait.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from penstock.client.errors import ClientError
from penstock.client.requests import Asking, Moot, Pages, Request

M = TypeVar("M", bound=Callable[..., object])
P = ParamSpec("P")
T = TypeVar("T")

_RESULT = re.compile(r"(?:Request|Pages|Dialogue)\[(.*?)\](?: \| Moot\[\1\])?")


class Asks(Protocol):
    def _ask(self, request: Request[T] | Moot[T]) -> T: ...


class AsksAsync(Protocol):
    async def _ask(self, request: Request[T] | Moot[T]) -> T: ...


def verb(describe: Callable[P, Asking[T]]) -> Callable[Concatenate[Asks, P], T]:
    @functools.wraps(describe)
    def method(client: Asks, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _result(client, describe(*args, **kwargs))

    return _as_method(method, describe, "{}")


def async_verb(describe: Callable[P, Asking[T]]) -> Callable[Concatenate[AsksAsync, P], Coroutine[Any, Any, T]]:
    @functools.wraps(describe)
    async def method(client: AsksAsync, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _async_result(client, describe(*args, **kwargs))

    return _as_method(method, describe, "{}")


def pages(describe: Callable[P, Pages[T]]) -> Callable[Concatenate[Asks, P], Iterator[T]]:
    @functools.wraps(describe)
    def method(client: Asks, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        request: Pages[T] | None = describe(*args, **kwargs)
        while request is not None:
            page = _result(client, request)
            yield from page.items
            request = page.following

    return _as_method(method, describe, "Iterator[{}]")


def async_pages(describe: Callable[P, Pages[T]]) -> Callable[Concatenate[AsksAsync, P], AsyncIterator[T]]:
    @functools.wraps(describe)
    async def method(client: AsksAsync, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        request: Pages[T] | None = describe(*args, **kwargs)
        while request is not None:
            page = await _async_result(client, request)
            for item in page.items:
                yield item
            request = page.following

    return _as_method(method, describe, "AsyncIterator[{}]")


def _result(client: Asks, asking: Asking[T]) -> T:
    if isinstance(asking, Request | Moot):
        return client._ask(asking)
    try:
        request = next(asking)
        while True:
            try:
                result = client._ask(request)
            except ClientError as error:
                request = asking.throw(error)
            else:
                request = asking.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _async_result(client: AsksAsync, asking: Asking[T]) -> T:
    if isinstance(asking, Request | Moot):
        return await client._ask(asking)
    try:
        request = next(asking)
        while True:
            try:
                result = await client._ask(request)
            except ClientError as error:
                request = asking.throw(error)
            else:
                request = asking.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _as_method(method: M, describe: Callable[..., object], result: str) -> M:
    """What `help()`, editors and `inspect` see: the parameters of the description, behind `self`, and what the method
    results in."""
    told = inspect.signature(describe)
    found = _RESULT.fullmatch(str(told.return_annotation))
    if found is None:
        raise TypeError(f"{describe.__name__} does not say what its request results in")
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returned = result.format(found[1])
    signature = told.replace(parameters=[self, *told.parameters.values()], return_annotation=returned)
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__annotations__ = {**describe.__annotations__, "return": returned}
    return method
