"""The client of synchronous programs: the verbs, each called and waited for."""

from __future__ import annotations

import functools
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from penstock.client import requests
from penstock.client.address import Address, native_headers
from penstock.client.pool import Pool
from penstock.client.requests import Moot, Request
from penstock.client.signatures import as_method
from penstock.client.values import ClaimedMessage, Move, Queue
from penstock.client.work import Plan, Worked
from penstock.client.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")


def _verb(describe: Callable[P, Request[T] | Moot[T]]) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(describe)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._ask(describe(*args, **kwargs))

    return as_method(method, describe)


class Client:
    """A server, for any number of threads, and after a fork in the child as well. Every method may raise a
    `ClientError`.

    A request that may already have been carried out is never repeated: after `Unreachable` with `sent`,
    a send may have stored its message and a claim may hold messages until it runs out.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        api_key: str | None = None,
        timeout_s: float = 30,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pool = Pool(Address(url, native_headers(api_key), timeout_s, tls))

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; those in use, when their answers are here. The next call opens a new one."""
        self._pool.close()

    # Queues

    create_queue = _verb(requests.create_queue)
    update_queue = _verb(requests.update_queue)
    delete_queue = _verb(requests.delete_queue)
    queue = _verb(requests.queue)

    def queues(self, count: bool = True) -> Iterator[Queue]:
        """Every queue, fetched page by page while it is read; each with its `count`, unless that is not wanted."""
        offset = 0
        while True:
            total, page = self._ask(requests.queue_page(offset, count))
            yield from page
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

    def follow_move(self, move_id: str, every_s: float = 0.5) -> Iterator[Move]:
        """How far a move is, again and again until it has ended."""
        while True:
            move = self.find_move(move_id)
            yield move
            if move.has_ended:
                return
            time.sleep(every_s)

    # API keys

    keys = _verb(requests.keys)
    create_key = _verb(requests.create_key)
    revoke_key = _verb(requests.revoke_key)

    # Working

    def work(
        self,
        queue: str,
        handle: Callable[[ClaimedMessage], object],
        *,
        concurrency: int = 1,
        limit: int | None = None,
        hold_ms: int = 30_000,
        wait_ms: int = 1_000,
        backoff_ms: int | None = 1_000,
        longest_backoff_ms: int = 300_000,
        grace_s: float = 20,
        until_empty: bool = False,
        stop: threading.Event | None = None,
        signals: bool = True,
    ) -> Worked:
        """Claim messages and call `handle(message)` for each in `concurrency` threads, until SIGTERM, SIGINT or `stop`.

        What `handle` returns from is acked; what it raises from is released, for `backoff_ms` after its first delivery
        and twice as long after each other one. Meanwhile the claims are renewed.
        """
        plan = Plan(queue, concurrency, concurrency if limit is None else limit, hold_ms, wait_ms, backoff_ms,
                    longest_backoff_ms, grace_s, until_empty)  # fmt: skip
        return Worker(self, plan, handle, stop).run(signals=signals)

    def _ask(self, request: Request[T] | Moot[T]) -> T:
        if isinstance(request, Moot):
            return request.value
        answer = self._pool.ask(
            request.method, request.path, request.body, repeatable=request.repeatable, patience_s=request.patience_s
        )
        return request.result(answer, self._pool.address.url)
