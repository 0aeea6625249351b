"""A broker on an event loop, over a real store, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
import uvloop

from penstock.broker import LocalBroker
from penstock.limits import Limits
from penstock.model import Draft, Message, Receipt, Settings
from penstock.pending import Pending
from penstock.stores import MemoryStore, Store, open_store
from penstock.stores.protocol import Unit
from penstock.timings import Timings
from tests.broker.loops import JumpingLoop, ShiftedLoop
from tests.broker.stores import RecordedStore

T = TypeVar("T")

LEDGER_RETENTION_MS = 60_000
_EPOCH = 1_700_000_000_000

STORES: dict[str, Callable[[Path, Limits], Store]] = {
    "memory": lambda _folder, limits: MemoryStore(Random(7), limits),
    "sqlite": lambda folder, limits: open_store(f"sqlite:///{folder}/penstock.db", limits=limits),
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests about time choose the loop that jumps: `pytest.mark.asyncio(loop_factories=["jumping"])`."""
    return {"jumping": JumpingLoop, "shifted": ShiftedLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, limits: Limits) -> Iterator[RecordedStore]:
    recorded = RecordedStore(STORES[request.param](tmp_path, limits))
    yield recorded
    recorded.close()


@pytest.fixture
def timings() -> Timings:
    """A test that wants others is parametrized with them."""
    return Timings(ledger_retention_ms=LEDGER_RETENTION_MS)


@pytest.fixture
async def bench(store: RecordedStore, timings: Timings) -> Bench:
    return await Bench(store, timings).create("q")


def result(pending: Pending[T]) -> asyncio.Future[T]:
    """A future of what a caller is told."""
    future = asyncio.get_running_loop().create_future()
    pending.listen(future.set_result, future.set_exception)
    return future


async def results(*pendings: Pending[Any]) -> list[Any]:
    """What each caller is told; errors as values."""
    return await asyncio.gather(*map(result, pendings), return_exceptions=True)


def receipt(message: Message) -> Receipt:
    return Receipt(message.id, message.claim, message.queue)


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


class Call:
    """A function of a unit and the time, as a task."""

    def __init__(self, function: Callable[[Unit, int], Any], writes: bool) -> None:
        self._function = function
        self.writes = writes

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Any:
        return self._function(unit, now)


class Bench:
    """A broker, its store, and short words for what tests do all the time, on the queue "q"."""

    def __init__(self, store: RecordedStore, timings: Timings) -> None:
        self.store = store
        self.loop = asyncio.get_running_loop()
        self.broker = LocalBroker(store, self.now, self.loop, timings)

    def now(self) -> int:
        return _EPOCH + round(self.loop.time() * 1000)

    async def create(self, name: str, **settings: Any) -> Bench:
        await result(self.broker.create_queue(name, Settings(**settings)))
        self.forget()
        return self

    def in_unit(self, function: Callable[[Unit, int], T], writes: bool = True, patient: bool = False) -> Pending[T]:
        """Call a function inside a unit; it is told the time."""
        return self.broker._commit.work(Call(function, writes), patient)

    def forget(self) -> None:
        """Begin a new record of units."""
        self.store.units.clear()

    def send(self, *sent: bytes, to: str = "q", delay_ms: int | None = None) -> Pending[Any]:
        return self.broker.send(to, [Draft(body, delay_ms=delay_ms) for body in sent])

    async def fill(self, *sent: bytes, to: str = "q", delay_ms: int | None = None) -> None:
        await result(self.send(*sent, to=to, delay_ms=delay_ms))
        self.forget()

    def waiting(self, limit: int = 1, hold_ms: int | None = None, wait_ms: int = 20_000) -> asyncio.Future[Any]:
        return result(self.broker.claim("q", limit, hold_ms, wait_ms))

    async def turn(self) -> None:
        """Until everything that was asked for by now has been through the store."""
        await result(self.in_unit(lambda _unit, _now: None, writes=False))

    async def count(self, queue: str = "q") -> int:
        return (await result(self.broker.count(queue))).total

    async def seen(self, queue: str = "q") -> list[bytes]:
        return bodies(await result(self.broker.peek(queue, 10_000)))

    async def ledger(self) -> list[Any]:
        return await result(self.broker.ledger.rows(0, 100_000))
