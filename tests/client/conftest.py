"""Clients of a real server: the synchronous one, and the one of asyncio awaited call by call, so that every test of the
one is a test of the other."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

import pytest

from penstock.client import AsyncClient, ClaimedMessage, Client, Worked


class Awaited:
    """An AsyncClient on a loop in a thread of its own, with the methods of a Client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = AsyncClient(*args, **kwargs)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._wait(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def work(self, queue: str, handle: Any, *, stop: threading.Event | None = None, **options: Any) -> Worked:
        """With handlers and events of threads, which the loop only waits for."""

        async def handled(message: ClaimedMessage) -> None:
            await asyncio.to_thread(handle, message)

        async def work() -> Worked:
            stopped = asyncio.Event() if stop else None
            if stop and stopped:
                stop.tell = lambda: self._loop.call_soon_threadsafe(stopped.set)
            return await self.client.work(queue, handled, stop=stopped, **options)

        return self._wait(work())

    @property
    def arrow(self) -> AwaitedVerbs:
        return AwaitedVerbs(self.client.arrow, self._wait)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(AwaitedVerbs(self.client, self._wait), name)

    def _wait(self, task: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()


class AwaitedVerbs:
    def __init__(self, verbs: Any, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._verbs = verbs
        self._wait = wait

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._verbs, name)
        if inspect.isasyncgenfunction(method):
            return lambda *args, **kwargs: iter(self._wait(_collected(method(*args, **kwargs))))
        return lambda *args, **kwargs: self._wait(method(*args, **kwargs))


async def _collected(found: Any) -> list[Any]:
    return [one async for one in found]


@pytest.fixture(params=[Client, Awaited], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> type[Client]:
    return request.param


@pytest.fixture
def client(server, connect) -> Iterator[Client]:
    with connect(server.url) as client:
        yield client
