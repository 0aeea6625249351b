"""Stores that are not inline work in a thread: the same results, and never two units at once.

`RecordedStore` itself refuses to be used by two threads at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from penstock.errors import StoreUnavailable
from penstock.limits import Limits
from penstock.timings import Timings
from tests.broker.conftest import STORES, Bench, bodies, receipt, result, results
from tests.broker.stores import RecordedStore, UnitRecord, failing, failing_on_body

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.fixture
def store(tmp_path) -> Iterator[RecordedStore]:
    """SQLite, because the driver itself refuses a second thread in the middle of a statement."""
    recorded = RecordedStore(STORES["sqlite"](tmp_path, Limits()), inline=False)
    yield recorded
    recorded.close()
    assert recorded.overlaps == 0


@pytest.fixture
def timings() -> Timings:
    """So long that no machine is too slow for it."""
    return Timings(store_timeout_s=300.0)


async def test_units_run_outside_the_loops_thread(bench: Bench) -> None:
    thread = await result(bench.in_unit(lambda _unit, _now: threading.get_ident()))
    assert thread != threading.get_ident()


async def test_results_are_the_same(bench: Bench) -> None:
    told = []
    sent, claimed, missing = await results(
        bench.send(b"1", b"2"), bench.broker.claim("q", 1), bench.send(b"x", to="nowhere")
    )
    assert [one.stored for one in sent] == [True, True]
    assert bodies(claimed) == [b"1"]
    assert isinstance(missing, Exception)
    acking = bench.broker.ack([receipt(claimed[0])])
    acking.listen(lambda acked: told.append((acked, threading.get_ident())), pytest.fail)
    await bench.turn()
    assert told == [([True], threading.get_ident())], "callers are told on the loop's thread"
    assert await result(bench.broker.purge("q")) == 1


async def test_what_arrives_while_the_store_is_at_work_shares_the_next_unit(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hold(unit: UnitRecord) -> None:
        if unit.number == 1:
            entered.set()
            assert go_on.wait(60)

    bench.store.on_begin = hold
    first = result(bench.send(b"first"))
    await bench.loop.run_in_executor(None, entered.wait)
    rest = []
    for number in range(20):
        rest.append(result(bench.send(str(number).encode())))
        await asyncio.sleep(0)
    assert not first.done()
    go_on.set()
    await asyncio.gather(first, *rest)
    assert [len(unit.asked("send")[0][1]) for unit in bench.store.units] == [1, 20]


@pytest.mark.parametrize("timings", [Timings(watch_s=0.0, store_timeout_s=300.0)])
async def test_many_callers_never_make_two_units_at_once(bench: Bench) -> None:
    """While claims wait, the loop also asks the store whether others have changed it, here without pause."""
    await bench.create("empty")
    waiting = result(bench.broker.claim("empty", 1, None, 60_000))

    async def cycle(number: int) -> None:
        for _ in range(10):
            await result(bench.send(str(number).encode()))
            [message] = await result(bench.broker.claim("q", 1))
            assert await result(bench.broker.ack([receipt(message)])) == [True]

    await asyncio.gather(*(cycle(number) for number in range(20)))
    assert await bench.count() == 0
    bench.broker.stop()
    assert await waiting == []


async def test_failures_are_the_same(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.store.on_verb = failing_on_body(ValueError("boom"), b"bad")
    good, bad = await results(bench.send(b"good"), bench.send(b"bad"))
    assert good[0].stored
    assert isinstance(bad, ValueError)
    bench.forget()
    bench.store.on_end = failing(StoreUnavailable("gone"), 1)
    told = await results(bench.send(b"a"), bench.send(b"b"))
    assert [type(error) for error in told] == [StoreUnavailable, StoreUnavailable]
    assert await bench.seen() == [b"good"]


async def test_waiting_claims_are_woken(bench: Bench) -> None:
    waiting = bench.waiting(wait_ms=60_000)
    await bench.turn()
    await result(bench.send(b"new"))
    assert bodies(await waiting) == [b"new"]


async def test_a_claim_cancelled_while_it_is_at_the_store_is_told_and_stops_waiting(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()
    told: list[object] = []
    pending = bench.broker.claim("q", 1, None, 60_000)
    pending.listen(told.append, told.append)
    await bench.turn()

    def hold(_unit: UnitRecord) -> None:
        entered.set()
        assert go_on.wait(60)

    bench.store.on_begin = hold
    sent = result(bench.send(b"later", delay_ms=60_000))
    await bench.loop.run_in_executor(None, entered.wait)
    assert pending.cancel() is False
    go_on.set()
    await sent
    assert told == [[]]
    assert bench.broker.waiting_claims() == []


async def test_what_was_claimed_for_a_caller_that_has_hung_up_is_given_back(bench: Bench) -> None:
    """While its claim was at the store. One that has an attempt may be asked for again, and keeps what it holds."""
    await bench.fill(b"1", b"2")
    entered, go_on = threading.Event(), threading.Event()

    def hold(unit: UnitRecord) -> None:
        if unit.number == 1:
            entered.set()
            assert go_on.wait(60)

    bench.store.on_begin = hold
    gone, asks_again = bench.broker.claim("q", 1, 60_000), bench.broker.claim("q", 1, 60_000, attempt="a")
    await bench.loop.run_in_executor(None, entered.wait)
    gone.abandon()
    asks_again.abandon()
    go_on.set()
    await bench.turn()
    await bench.turn()
    assert bodies(await result(bench.broker.claim("q", 2))) == [b"1"]
    assert bodies(await result(bench.broker.claim("q", 1, 60_000, attempt="a"))) == [b"2"]
