"""The client of asyncio programs: the same verbs, each called and awaited."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client import verbs
from penstock.client.address import Address
from penstock.client.async_transport import AsyncPool
from penstock.client.async_worker import AsyncWorker
from penstock.client.errors import ServerFailed, Unreachable
from penstock.client.methods import async_pages, async_verb
from penstock.client.patience import ONCE, Patience, Tries
from penstock.client.requests import Moot, Request
from penstock.client.values import ClaimedMessage, Move
from penstock.client.work import Plan, Worked

if TYPE_CHECKING:
    from penstock.client.arrow import AsyncArrow

T = TypeVar("T")


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
        patience: Patience = ONCE,
    ) -> None:
        self._pool = AsyncPool(Address(url, api_key, timeout_s, tls))
        self.patience = patience

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self._pool.address, "patience": self.patience}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._pool = AsyncPool(state["address"])
        self.patience = state["patience"]

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        return self._pool.address.url

    @property
    def arrow(self) -> AsyncArrow:
        """The verbs that carry much, in Arrow. Needs pyarrow: raises ImportError without it."""
        from penstock.client.arrow import AsyncArrow

        return AsyncArrow(self)

    def with_patience(self, patience: Patience) -> AsyncClient:
        """The same server over the same connections, tried for longer or less long."""
        other = AsyncClient.__new__(AsyncClient)
        other._pool, other.patience = self._pool, patience
        return other

    async def close(self) -> None:
        """Close the connections; those in use, when their answers are here. The next call opens a new one."""
        await self._pool.close()

    # The server

    health = async_verb(verbs.health)
    processes = async_verb(verbs.processes)
    server = async_verb(verbs.server)
    overview = async_verb(verbs.overview)

    # Queues

    create_queue = async_verb(verbs.create_queue)
    ensure_queue = async_verb(verbs.ensure_queue)
    update_queue = async_verb(verbs.update_queue)
    pause_queue = async_verb(verbs.pause_queue)
    resume_queue = async_verb(verbs.resume_queue)
    delete_queue = async_verb(verbs.delete_queue)
    queue = async_verb(verbs.queue)
    history = async_verb(verbs.history)
    workers_of = async_verb(verbs.workers_of)
    queues = async_pages(verbs.queues)

    # Messages

    send = async_verb(verbs.send)
    send_many = async_verb(verbs.send_many)
    send_once = async_verb(verbs.send_once)
    send_lines = async_verb(verbs.send_lines)
    claim = async_verb(verbs.claim)
    ack = async_verb(verbs.ack)
    renew = async_verb(verbs.renew)
    release = async_verb(verbs.release)
    peek = async_verb(verbs.peek)
    purge = async_verb(verbs.purge)
    find_message = async_verb(verbs.find_message)
    delete_messages = async_verb(verbs.delete_messages)
    release_messages = async_verb(verbs.release_messages)
    move_messages = async_verb(verbs.move_messages)
    resend = async_verb(verbs.resend)

    # Moves

    move = async_verb(verbs.move)
    redrive = async_verb(verbs.redrive)
    delete_matching = async_verb(verbs.delete_matching)
    release_matching = async_verb(verbs.release_matching)
    find_move = async_verb(verbs.find_move)
    cancel_move = async_verb(verbs.cancel_move)
    moves = async_verb(verbs.moves)

    async def follow_move(self, move_id: str, every_s: float = 0.5) -> AsyncIterator[Move]:
        """How far a move is, again and again until it has ended."""
        while True:
            move = await self.find_move(move_id)
            yield move
            if move.has_ended:
                return
            await asyncio.sleep(every_s)

    # Shipments

    claim_shipment = async_verb(verbs.claim_shipment)
    shipment = async_verb(verbs.shipment)
    shipments = async_pages(verbs.shipments)
    next_shipment = async_verb(verbs.next_shipment)
    read_shipment = async_pages(verbs.read_shipment)
    settle_shipment = async_verb(verbs.settle_shipment)
    release_shipment = async_verb(verbs.release_shipment)
    beat_shipment = async_verb(verbs.beat_shipment)

    # Leases

    take_lease = async_verb(verbs.take_lease)
    lease = async_verb(verbs.lease)
    drop_lease = async_verb(verbs.drop_lease)

    # The ledger

    ledger = async_pages(verbs.ledger)
    latest = async_verb(verbs.latest)
    claim_export = async_verb(verbs.claim_export)
    export = async_verb(verbs.export)
    exports = async_pages(verbs.exports)
    next_export = async_verb(verbs.next_export)
    read_export = async_pages(verbs.read_export)
    settle_export = async_verb(verbs.settle_export)

    # API keys

    keys = async_verb(verbs.keys)
    create_key = async_verb(verbs.create_key)
    update_key = async_verb(verbs.update_key)
    rotate_key = async_verb(verbs.rotate_key)
    retire_secret = async_verb(verbs.retire_secret)
    revoke_key = async_verb(verbs.revoke_key)
    shrink = async_verb(verbs.shrink)

    # Actions

    actions = async_pages(verbs.actions)

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
        in_order: bool = True,
        stop: asyncio.Event | None = None,
        signals: bool = True,
    ) -> Worked:
        """Claim messages and await `handle(message)` for each in `concurrency` tasks, until SIGTERM, SIGINT or `stop`.

        What `handle` returns from is acked; what it raises from is released, for `backoff_ms` after its first delivery
        and twice as long after each other one. Meanwhile the claims are renewed. Messages of one group are handled one
        after another, and none after one that was released, unless `in_order` is False.
        """
        plan = Plan(
            queue,
            concurrency,
            limit,
            hold_ms,
            wait_ms,
            backoff_ms,
            longest_backoff_ms,
            grace_s,
            until_empty,
            in_order,
        )
        return await AsyncWorker(self, plan, handle, stop).run(signals=signals)

    async def _ask(self, request: Request[T] | Moot[T]) -> T:
        if isinstance(request, Moot):
            return request.value
        pool = self._pool
        tries, fresh = Tries(self.patience, request.repeatable, time.monotonic()), False
        while True:
            try:
                return request.result(await pool.ask(request, fresh=fresh), pool.address)
            except (Unreachable, ServerFailed) as error:
                pause_s = tries.pause_after(error, time.monotonic())
                fresh = isinstance(error, Unreachable)
            await asyncio.sleep(pause_s)
