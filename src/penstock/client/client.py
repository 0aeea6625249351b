"""The client of synchronous programs: the verbs, each called and waited for."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client import verbs
from penstock.client.address import Address
from penstock.client.errors import ClientError, ServerFailed, Unreachable
from penstock.client.methods import pages, verb
from penstock.client.patience import ONCE, Patience, Tries
from penstock.client.requests import Moot, Request
from penstock.client.transport import Pool
from penstock.client.values import ClaimedMessage, Move
from penstock.client.work import Plan, Worked
from penstock.client.worker import Worker

if TYPE_CHECKING:
    from penstock.client.arrow import Arrow

T = TypeVar("T")
Waiting = Callable[[ClientError, float], None]


class Client:
    """A server, for any number of threads, and after a fork in the child as well. Every method may raise a
    `ClientError`. It can be pickled, and then opens connections of its own.

    A request that may already have been carried out is never repeated, unless repeating it does nothing twice: after
    `Unreachable` with `sent`, a send without a key may have stored its message, and a claim without an attempt may hold
    messages until it runs out.
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
        self._pool = Pool(Address(url, api_key, timeout_s, tls))
        self.patience = patience
        # Called when a call begins to wait for a server that is away, with what keeps it and for how many seconds it
        # will go on trying. A pickled client has none.
        self.waiting: Waiting | None = None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self._pool.address, "patience": self.patience}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._pool = Pool(state["address"])
        self.patience = state["patience"]
        self.waiting = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self._pool.address.url

    @property
    def arrow(self) -> Arrow:
        """The verbs that carry much, in Arrow. Needs pyarrow: raises ImportError without it."""
        from penstock.client.arrow import Arrow

        return Arrow(self)

    def with_patience(self, patience: Patience) -> Client:
        """The same server over the same connections, tried for longer or less long."""
        other = Client.__new__(Client)
        other._pool, other.patience, other.waiting = self._pool, patience, self.waiting
        return other

    def close(self) -> None:
        """Close the connections; those in use, when their answers are here. The next call opens a new one."""
        self._pool.close()

    # The server

    health = verb(verbs.health)
    processes = verb(verbs.processes)
    server = verb(verbs.server)
    overview = verb(verbs.overview)

    # Queues

    create_queue = verb(verbs.create_queue)
    ensure_queue = verb(verbs.ensure_queue)
    update_queue = verb(verbs.update_queue)
    pause_queue = verb(verbs.pause_queue)
    resume_queue = verb(verbs.resume_queue)
    delete_queue = verb(verbs.delete_queue)
    queue = verb(verbs.queue)
    history = verb(verbs.history)
    workers_of = verb(verbs.workers_of)
    queues = pages(verbs.queues)

    # Messages

    send = verb(verbs.send)
    send_many = verb(verbs.send_many)
    send_once = verb(verbs.send_once)
    send_lines = verb(verbs.send_lines)
    claim = verb(verbs.claim)
    ack = verb(verbs.ack)
    renew = verb(verbs.renew)
    release = verb(verbs.release)
    peek = verb(verbs.peek)
    purge = verb(verbs.purge)
    find_message = verb(verbs.find_message)
    delete_messages = verb(verbs.delete_messages)
    release_messages = verb(verbs.release_messages)
    move_messages = verb(verbs.move_messages)
    resend = verb(verbs.resend)

    # Moves

    move = verb(verbs.move)
    redrive = verb(verbs.redrive)
    delete_matching = verb(verbs.delete_matching)
    release_matching = verb(verbs.release_matching)
    find_move = verb(verbs.find_move)
    cancel_move = verb(verbs.cancel_move)
    moves = verb(verbs.moves)

    def follow_move(self, move_id: str, every_s: float = 0.5) -> Iterator[Move]:
        """How far a move is, again and again until it has ended."""
        while True:
            move = self.find_move(move_id)
            yield move
            if move.has_ended:
                return
            time.sleep(every_s)

    # Shipments

    claim_shipment = verb(verbs.claim_shipment)
    shipment = verb(verbs.shipment)
    shipments = pages(verbs.shipments)
    next_shipment = verb(verbs.next_shipment)
    read_shipment = pages(verbs.read_shipment)
    settle_shipment = verb(verbs.settle_shipment)
    release_shipment = verb(verbs.release_shipment)
    beat_shipment = verb(verbs.beat_shipment)

    # Leases

    take_lease = verb(verbs.take_lease)
    lease = verb(verbs.lease)
    drop_lease = verb(verbs.drop_lease)

    # The ledger

    ledger = pages(verbs.ledger)
    latest = verb(verbs.latest)
    claim_export = verb(verbs.claim_export)
    export = verb(verbs.export)
    exports = pages(verbs.exports)
    next_export = verb(verbs.next_export)
    read_export = pages(verbs.read_export)
    settle_export = verb(verbs.settle_export)

    # API keys

    keys = verb(verbs.keys)
    create_key = verb(verbs.create_key)
    update_key = verb(verbs.update_key)
    rotate_key = verb(verbs.rotate_key)
    retire_secret = verb(verbs.retire_secret)
    revoke_key = verb(verbs.revoke_key)
    shrink = verb(verbs.shrink)

    # Actions

    actions = pages(verbs.actions)

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
        in_order: bool = True,
        stop: threading.Event | None = None,
        signals: bool = True,
    ) -> Worked:
        """Claim messages and call `handle(message)` for each in `concurrency` threads, until SIGTERM, SIGINT or `stop`.

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
        return Worker(self, plan, handle, stop).run(signals=signals)

    def _ask(self, request: Request[T] | Moot[T]) -> T:
        if isinstance(request, Moot):
            return request.value
        pool = self._pool
        tries, fresh, told = Tries(self.patience, request.repeatable, time.monotonic()), False, False
        while True:
            try:
                return request.result(pool.ask(request, fresh=fresh), pool.address)
            except (Unreachable, ServerFailed) as error:
                pause_s = tries.pause_after(error, time.monotonic())
                fresh = isinstance(error, Unreachable)
                if pause_s and not told and self.waiting is not None:
                    told = True
                    self.waiting(error, self.patience.total_s)
            time.sleep(pause_s)
