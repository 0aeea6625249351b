"""Long reads beside the units: in a thread while it is calm, and as any other task otherwise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.broker import Form, LocalBroker
from penstock.clock import system_clock
from penstock.errors import FeatureMissing, ShipmentEnded, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Draft, Message, Settings, ShipmentRef
from penstock.pending import Pending, resolved
from penstock.stores import open_store
from penstock.stores.protocol import Unit
from penstock.stores.sql.engines.sqlite import SqliteStore
from tests.broker.conftest import bodies, result

SHIPMENT = ShipmentRef("q", "c", 1)
MESSAGES = 1_200
BODIES = [b"%d" % number for number in range(MESSAGES)]


class Watched:
    """A SQLite store that tells in which thread it is read."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.readers: list[str] = []
        self.failure: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def unit(self, write: bool = True) -> AbstractContextManager[Unit]:
        return self._store.unit(write)

    @contextmanager
    def unit_beside(self) -> Iterator[Unit]:
        self.readers.append(threading.current_thread().name)
        self.may_go_on.wait(30)
        if self.failure is not None:
            raise self.failure
        with self._store.unit_beside() as unit:
            yield unit


class Watch:
    """Long after the last request, unless it is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def store(tmp_path: Path, limits: Limits) -> Iterator[Watched]:
    opened = open_store(f"sqlite:///{tmp_path}/penstock.db", limits=limits)
    assert isinstance(opened, SqliteStore)
    yield Watched(opened)
    opened.close()


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def broker(store: Watched, watch: Watch) -> LocalBroker:
    """With a shipment that is open; the last request was long ago."""
    broker = LocalBroker(store, system_clock, asyncio.get_running_loop(), stopwatch=watch)
    await result(broker.create_queue("q", Settings()))
    await result(broker.send("q", [Draft(body) for body in BODIES]))
    await result(broker.shipments.claim(SHIPMENT, MESSAGES, 60_000))
    watch.now_s += 60
    return broker


async def test_while_it_is_calm_a_thread_reads(broker: LocalBroker, store: Watched) -> None:
    units = broker.units()
    assert bodies(await result(broker.shipments.read(SHIPMENT, 0, MESSAGES))) == BODIES
    assert bodies(await result(broker.shipments.read(SHIPMENT, 700, 100))) == BODIES[700:800]
    assert store.readers == ["penstock-aside"] * 2
    assert broker.units() == units


async def test_soon_after_a_request_it_is_a_task_as_all_others(broker: LocalBroker, store: Watched) -> None:
    await result(broker.send("q", [Draft(b"x")]))
    assert bodies(await result(broker.shipments.read(SHIPMENT, 0, MESSAGES))) == BODIES
    assert not store.readers


def in_thread(messages: Sequence[Message]) -> str:
    return threading.current_thread().name


def in_turns(messages: Sequence[Message]) -> Pending[str]:
    return resolved(f"{len(messages)} in turns")


async def test_the_thread_also_gives_it_its_form(broker: LocalBroker, store: Watched) -> None:
    form = Form(in_thread, in_turns)
    assert await result(broker.shipments.read_as(SHIPMENT, 0, 10, form)) == "penstock-aside"
    store.failure = StoreUnavailable("no more descriptors")
    assert await result(broker.shipments.read_as(SHIPMENT, 0, 10, form)) == threading.current_thread().name
    await result(broker.send("q", [Draft(b"x")]))
    assert await result(broker.shipments.read_as(SHIPMENT, 0, 10, form)) == "10 in turns"


async def test_once_somebody_asks_for_more_a_form_is_made_in_turns(broker: LocalBroker, store: Watched) -> None:
    store.may_go_on.clear()
    read = result(broker.shipments.read_as(SHIPMENT, 0, 10, Form(in_thread, in_turns)))
    await result(broker.send("q", [Draft(b"x")]))
    store.may_go_on.set()
    assert await read == "10 in turns"
    assert store.readers


async def test_a_form_that_fails_is_the_answer(broker: LocalBroker) -> None:
    def fail(messages: Sequence[Message]) -> str:
        raise FeatureMissing("no Arrow")

    with pytest.raises(FeatureMissing):
        await result(broker.shipments.read_as(SHIPMENT, 0, 10, Form(fail, in_turns)))


async def test_units_go_on_while_it_reads(broker: LocalBroker, store: Watched) -> None:
    store.may_go_on.clear()
    read = result(broker.shipments.read(SHIPMENT, 0, 10))
    await result(broker.send("q", [Draft(b"later")]))
    assert not read.done()
    store.may_go_on.set()
    assert bodies(await read) == BODIES[:10]


async def test_many_at_once_are_all_answered(broker: LocalBroker) -> None:
    reads = [result(broker.shipments.read(SHIPMENT, start, 10)) for start in range(0, 500, 10)]
    assert [body for read in await asyncio.gather(*reads) for body in bodies(read)] == BODIES[:500]


async def test_what_has_ended_is_refused(broker: LocalBroker, store: Watched, watch: Watch) -> None:
    await result(broker.shipments.settle(SHIPMENT))
    watch.now_s += 60
    with pytest.raises(ShipmentEnded):
        await result(broker.shipments.read(SHIPMENT, 0, 10))
    assert store.readers


async def test_where_the_thread_fails_a_unit_reads(broker: LocalBroker, store: Watched) -> None:
    store.failure = StoreUnavailable("no more descriptors")
    assert bodies(await result(broker.shipments.read(SHIPMENT, 0, 10))) == BODIES[:10]
    assert store.readers


async def test_one_who_hangs_up_is_not_read_for(broker: LocalBroker, store: Watched) -> None:
    store.may_go_on.clear()
    first = result(broker.shipments.read(SHIPMENT, 0, 10))
    broker.shipments.read(SHIPMENT, 10, 10).abandon()
    third = result(broker.shipments.read(SHIPMENT, 20, 10))
    store.may_go_on.set()
    assert bodies(await first) + bodies(await third) == BODIES[:10] + BODIES[20:30]
    assert len(store.readers) == 2


@pytest.mark.parametrize("limits", [Limits(calm_times=1)])
async def test_where_nothing_is_ever_calm_no_thread_reads(broker: LocalBroker, store: Watched) -> None:
    assert bodies(await result(broker.shipments.read(SHIPMENT, 0, MESSAGES))) == BODIES
    assert not store.readers
