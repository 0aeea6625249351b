"""Clients on every SQL store, consumers at work in threads, and consumers that died without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from penstock.errors import TryAgain
from penstock.gq import Client, Consumer
from penstock.model import Delivery, Message, Registration
from tests.servers import ShiftedClock

PATIENCE_S = 60.0
# After so long without a sign of life a `dead_consumer` is found to be dead.
DEAD_AFTER_S = 600


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/penstock.db"
    return request.getfixturevalue({"postgresql": "postgres_url", "mariadb": "mariadb_url"}[request.param])


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/penstock.db"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def opened(url: str, clock: ShiftedClock) -> Iterator[Callable[..., Client]]:
    """Opens clients on one store: each stands for a process."""
    clients: list[Client] = []

    def opened(**options: Any) -> Client:
        clients.append(Client(url, **{"clock": clock} | options))
        return clients[-1]

    yield opened
    for client in clients:
        client.close()


@pytest.fixture
def client(opened: Callable[..., Client]) -> Client:
    return opened()


def until(condition: Callable[[], object], what: str = "it") -> None:
    """A store that is away is waited for too."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(TryAgain):
            if condition():
                return
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@contextmanager
def at_work(consumer: Consumer, callback: Callable[[bytes], object]) -> Iterator[Consumer]:
    """The consumer processes in a thread while the block runs; what it raises comes out at the end."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            consumer.process(callback)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def process(client: Client, callback: Callable[[bytes], object], count: int, **options: Any) -> Consumer:
    """Until the callback has been called so many times."""
    consumer = client.consumer(**options)
    calls = 0

    def counted(payload: bytes) -> object:
        nonlocal calls
        calls += 1
        if calls == count:
            consumer.stop()
        return callback(payload)

    with at_work(consumer, counted):
        until(lambda: calls >= count, f"{count} calls, not {calls}")
    return consumer


def bodies(client: Client, count: int, **options: Any) -> list[bytes]:
    """The payloads of so many messages, processed."""
    seen: list[bytes] = []
    process(client, seen.append, count, **options)
    return seen


def dead_consumer(
    client: Client,
    count: int = 10,
    delivery: str = "at_least_once",
    queue: str = "default",
    dead_after_s: int = DEAD_AFTER_S,
) -> list[Message]:
    """Claims messages and is never heard of again."""
    gone = Registration(str(uuid4()), queue, Delivery(delivery), dead_after_s * 1000)
    with client._access.unit() as (unit, now):
        unit.consumers.register(gone, now)
        messages = unit.consumers.claim(gone, count, now).messages
        unit.consumers.hold(gone.id, [(message.seq, message.claim) for message in messages], now)
    return messages


def consumers(client: Client) -> list[str]:
    """The ids of those that are registered, in their order of birth."""
    with client._access.unit(write=False) as (unit, _now):
        return [row[0] for row in unit.session.engine.rows("SELECT id FROM consumer ORDER BY number")]
