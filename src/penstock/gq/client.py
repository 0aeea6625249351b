"""Where it begins: a client opens a store and makes producers and consumers on it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Literal

from penstock import ids, limits
from penstock.clock import Clock, system_clock
from penstock.errors import InvalidRequest, MessageNotFound
from penstock.gq import arguments
from penstock.gq.access import Access, consumers_of
from penstock.gq.consumer import Consumer
from penstock.gq.producer import Producer
from penstock.gq.timings import GqTimings
from penstock.model import Outcome

Status = Literal["queued", "consumed", "processed", "failed"]

_HEARTBEAT_S = 2.0
_DEAD_AFTER_S = 5.0


class Client:
    """A SQL store, by its URL: sqlite:///PATH, postgresql://HOST/DATABASE or mariadb://HOST/DATABASE.

    Safe to share between threads, and not to be used across a fork. `clock` returns milliseconds since the epoch.
    """

    def __init__(self, url: str, *, clock: Clock = system_clock, timings: GqTimings = GqTimings()) -> None:
        self._access = Access(url, clock, timings)
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()

    def producer(
        self, queue: str = "default", batch: int = 1, *, linger_s: float = 0.1, close_s: float = 10.0
    ) -> Producer:
        """`batch` messages are stored together, or as many as there are after `linger_s`. `close_s` is how long `close`
        tries to store them."""
        made = Producer(
            self._access,
            arguments.queue_name(queue),
            arguments.batch(batch, limits.SEND_LIMIT),
            arguments.seconds("linger_s", linger_s, zero=True),
            arguments.seconds("close_s", close_s, zero=True),
        )
        self._producers.add(made)
        return made

    def consumer(
        self,
        queue: str = "default",
        batch: int = 10,
        delivery: str = "at_least_once",
        *,
        heartbeat_s: float = _HEARTBEAT_S,
        dead_after_s: float = _DEAD_AFTER_S,
        on_lost: Callable[[str], object] | None = None,
    ) -> Consumer:
        """`batch` messages are claimed together. A consumer that gives no sign of life for `dead_after_s` has died:
        its messages go to others, or have failed where `delivery` is `at_most_once`."""
        heartbeat = arguments.seconds("heartbeat_s", heartbeat_s)
        dead_after = arguments.seconds("dead_after_s", dead_after_s)
        if dead_after < 2 * heartbeat:
            raise InvalidRequest("dead_after_s is at least twice heartbeat_s: one late heartbeat must not mean death")
        made = Consumer(
            self._access,
            arguments.queue_name(queue),
            arguments.batch(batch, limits.CLAIM_LIMIT),
            arguments.delivery(delivery),
            heartbeat,
            dead_after,
            on_lost,
        )
        self._consumers.add(made)
        return made

    def status(self, id: str) -> Status:  # noqa: A002
        """What has become of a message. Raises MessageNotFound for one that was never stored, or whose record the
        ledger no longer keeps."""
        try:
            message_id = ids.canonical(id)
        except (ValueError, TypeError, AttributeError):
            raise MessageNotFound(str(id)) from None
        if any(producer.holds(message_id) for producer in [*self._producers]):
            return "queued"
        with self._access.unit(write=False) as (unit, now):
            trace = consumers_of(unit).trace(message_id, now)
        if trace is None:
            raise MessageNotFound(id)
        if trace.outcome is None:
            return "consumed" if trace.claimed else "queued"
        return "processed" if trace.outcome is Outcome.PROCESSED else "failed"

    def close(self) -> None:
        """Stop the consumers, store what the producers still hold, and close the store. It stays open when a producer
        raises. In a child of a fork it does nothing: all of it belongs to the parent."""
        if self._access.is_inherited:
            return
        consumers = [*self._consumers]
        for consumer in consumers:
            consumer.stop()
        for consumer in consumers:
            consumer.wait(self._access.timings.close_s)
        for producer in [*self._producers]:
            producer.close()
        self._access.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
