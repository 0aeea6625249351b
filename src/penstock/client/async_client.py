"""The client of asyncio programs: the same verbs, each called and awaited."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.client import requests
from penstock.client.address import Address, native_headers
from penstock.client.async_pool import AsyncPool
from penstock.client.async_worker import AsyncWorker
from penstock.client.requests import Moot, Request
from penstock.client.signatures import as_method
from penstock.client.values import ClaimedMessage, Move, Queue
from penstock.client.work import Plan, Worked

P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    describe: Callable[P, Request[T] | Moot[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(describe)
    async def method(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._ask(describe(*args, **kwargs))

    return as_method(method, describe)


class AsyncClient:
    """A server, for any number of tasks of one event loop. It does and promises what `Client` does.

    A call that is cancelled leaves its connection; the server may carry out the request nevertheless.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        api_key: str | None = None,
        timeout_s: float = 30,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pool = AsyncPool(Address(url, native_headers(api_key), timeout_s, tls))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; those in use, when their answers are here. The next call opens a new one."""
        await self._pool.close()

    # Queues

    create_queue = _verb(requests.create_queue)
    update_queue = _verb(requests.update_queue)
    delete_queue = _verb(requests.delete_queue)
    queue = _verb(requests.queue)

    async def queues(self, count: bool = True) -> AsyncIterator[Queue]:
        """Every queue, fetched page by page while it is read."""
        offset = 0
        while True:
            total, page = await self._ask(requests.queue_page(offset, count))
            for queue in page:
                yield queue
            offset += len(page)
            if not page or offset >= total:
                return

    # Messages

    send = _verb(requests.send)
    send_many = _verb(requests.send_many)
    claim = _verb(requests.claim)
    ack = _verb(requests.ack)
    renew = _verb(requests.renew)
    release = _verb(requests.release)
    peek = _verb(requests.peek)
    purge = _verb(requests.purge)

    # Moves

    move = _verb(requests.move)
    redrive = _verb(requests.redrive)
    find_move = _verb(requests.find_move)
    cancel_move = _verb(requests.cancel_move)
    moves = _verb(requests.moves)

    async def follow_move(self, move_id: str, every_s: float = 0.5) -> AsyncIterator[Move]:
        """How far a move is, again and again until it has ended."""
        while True:
            move = await self.find_move(move_id)
            yield move
            if move.has_ended:
                return
            await asyncio.sleep(every_s)

    # API keys

    keys = _verb(requests.keys)
    create_key = _verb(requests.create_key)
    revoke_key = _verb(requests.revoke_key)

    # Working

    async def work(
        self,
        queue: str,
        handle: Callable[[ClaimedMessage], Awaitable[object] | object],
        *,
        concurrency: int = 1,
        limit: int | None = None,
        hold_ms: int = 30_000,
        wait_ms: int = 1_000,
        backoff_ms: int | None = 1_000,
        longest_backoff_ms: int = 300_000,
        grace_s: float = 20,
        until_empty: bool = False,
        stop: asyncio.Event | None = None,
        signals: bool = True,
    ) -> Worked:
        """Claim messages and await `handle(message)` for each in `concurrency` tasks, until SIGTERM, SIGINT or `stop`.

        What `handle` returns from is acked; what it raises from is released, for `backoff_ms` after its first delivery
        and twice as long after each other one. Meanwhile the claims are renewed.
        """
        plan = Plan(queue, concurrency, concurrency if limit is None else limit, hold_ms, wait_ms, backoff_ms,
                    longest_backoff_ms, grace_s, until_empty)  # fmt: skip
        return await AsyncWorker(self, plan, handle, stop).run(signals=signals)

    async def _ask(self, request: Request[T] | Moot[T]) -> T:
        if isinstance(request, Moot):
            return request.value
        answer = await self._pool.ask(
            request.method, request.path, request.body, repeatable=request.repeatable, patience_s=request.patience_s
        )
        return request.result(answer, self._pool.address.url)
