"""Whatever becomes of a request, it leaves nothing for the garbage collector.

The server lets the collector run rarely. A request that waits for it keeps its bodies in memory until then.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from penstock.errors import StoreBusy, StoreUnavailable
from penstock.model import Draft
from penstock.pending import Pending
from penstock.timings import Timings
from tests.broker.conftest import Bench, results
from tests.broker.stores import UnitRecord

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


class Drafts(list):
    """A list that can be watched while it dies."""


class Caller:
    """Holds its result until it is told, as a connection does."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending.map(len)
        self.pending.listen(self.told, self.told)

    def told(self, _result: object) -> None:
        self.pending = None


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def start(bench: Bench, queue: str) -> list[weakref.ref]:
    """The callers of several requests, and what they send, to be watched."""
    drafts = Drafts([Draft(b"x")])
    callers = [
        Caller(bench.broker.send(queue, drafts)),
        Caller(bench.broker.claim(queue, 1)),
        Caller(bench.in_unit(lambda unit, _now: unit.messages.peek(queue, 1))),
        Caller(bench.broker.ack([])),
    ]
    return [weakref.ref(thing) for thing in (drafts, *callers)]


async def end(bench: Bench, watched: list[weakref.ref]) -> None:
    await bench.turn()
    assert [ref() for ref in watched] == [None] * len(watched)


async def test_requests_that_are_served(bench: Bench) -> None:
    await end(bench, start(bench, "q"))


async def test_requests_for_a_queue_that_does_not_exist(bench: Bench) -> None:
    await end(bench, start(bench, "nowhere"))


@pytest.mark.parametrize("timings", [Timings(busy_patience_s=-1.0)])
@pytest.mark.parametrize("error", [StoreUnavailable, StoreBusy, ValueError])
async def test_requests_that_the_store_fails(
    bench: Bench, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(unit: UnitRecord) -> None:
        if unit.write:
            raise error("a new one each time")

    monkeypatch.setattr("penstock.broker.commit.log.disabled", True)  # pytest keeps what is logged
    bench.store.on_begin = fail
    watched = start(bench, "q")
    await results(bench.send(b"last"))
    await end(bench, watched)
