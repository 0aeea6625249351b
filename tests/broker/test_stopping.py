"""A stop lets everything come to a defined end: callers are answered, chores end with their step, and then the store is
left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StoreUnavailable
from penstock.limits import Limits
from penstock.model import Draft, MoveStatus, ShipmentRef, ShipmentState
from penstock.timings import Timings
from tests.broker.conftest import STORES, Bench, result
from tests.broker.stores import RecordedStore

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])

REF = ShipmentRef("q", "c", 1)
MANY = 200


@pytest.fixture(params=["inline", "in threads"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordedStore]:
    limits = Limits(step_rows=2, claim_rows=2)
    recorded = RecordedStore(STORES["sqlite"](tmp_path, limits), inline=request.param == "inline")
    yield recorded
    recorded.close()


@pytest.fixture
def timings() -> Timings:
    return Timings(store_timeout_s=300.0)


async def fill(bench: Bench) -> None:
    await result(bench.broker.send("q", [Draft(b"x")] * MANY))
    bench.forget()


async def under_way(bench: Bench, steps: int = 3) -> None:
    while len(bench.store.units) < steps:
        await asyncio.sleep(0)


async def finished(bench: Bench, grace_s: float = 60) -> None:
    """A stop; afterwards the store is not touched any more."""
    bench.broker.stop(grace_s)
    assert await bench.broker.finish(grace_s) == 0
    units = len(bench.store.units)
    await asyncio.sleep(0.05)
    assert len(bench.store.units) == units


async def begun_again(bench: Bench) -> Bench:
    again = Bench(bench.store, Timings(store_timeout_s=300.0, moves_s=0.01, sweep_s=0.01))
    again.forget()
    return again


async def test_a_purge_of_many_steps_is_answered(bench: Bench) -> None:
    await fill(bench)
    purge = result(bench.broker.purge("q"))
    await under_way(bench)
    await finished(bench)
    assert await purge == MANY


async def test_a_purge_that_outlasts_the_grace_is_told_so(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await fill(bench)
    purge = result(bench.broker.purge("q"))
    await under_way(bench)
    await finished(bench, 0)
    with pytest.raises(StoreUnavailable, match="stopping"):
        await purge
    late = result(bench.broker.purge("q"))
    with pytest.raises(StoreUnavailable, match="stopping"):
        await late
    assert caplog.records == []
    again = await begun_again(bench)
    assert 0 < await again.count() < MANY


async def test_a_shipment_claim_of_many_steps_is_answered(bench: Bench) -> None:
    await fill(bench)
    claim = result(bench.broker.shipments.claim(REF, MANY, 60_000))
    await under_way(bench)
    await finished(bench)
    claimed = (await claim).shipment
    assert (claimed.state, claimed.messages) == (ShipmentState.OPEN, MANY)


async def test_a_shipment_claim_that_outlasts_the_grace_is_gone_on_with_by_the_next(bench: Bench) -> None:
    await fill(bench)
    claim = result(bench.broker.shipments.claim(REF, MANY, 60_000))
    await under_way(bench)
    await finished(bench, 0)
    with pytest.raises(StoreUnavailable):
        await claim
    again = await begun_again(bench)
    assert (await result(again.broker.shipments.find(REF))).state is ShipmentState.GATHERING
    claimed = (await result(again.broker.shipments.claim(REF, MANY, 60_000))).shipment
    assert (claimed.state, claimed.messages) == (ShipmentState.OPEN, MANY)
    settle = result(again.broker.shipments.settle(REF))
    await under_way(again, 30)
    await finished(again)
    assert (await settle).state is ShipmentState.SETTLED


async def test_a_move_ends_with_its_step_and_goes_on_at_the_next_start(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.create("to")
    await fill(bench)
    bench.broker.start()
    move = await result(bench.broker.moves.start("q", "to"))
    await under_way(bench, 6)
    await finished(bench)
    again = await begun_again(bench)
    found = await result(again.broker.moves.find(move.id))
    assert found is not None
    assert (found.status, 0 < found.moved < MANY) == (MoveStatus.IN_PROGRESS, True)
    assert await again.count("q") + await again.count("to") == MANY
    again.broker.start()
    while (await result(again.broker.moves.find(move.id))).status is MoveStatus.IN_PROGRESS:
        await asyncio.sleep(0.005)
    assert await again.count("to") == MANY
    await finished(again)
    assert caplog.records == []


@pytest.mark.parametrize("timings", [Timings(store_timeout_s=300.0, sweep_s=0.01)])
async def test_a_sweep_ends_with_its_step(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await fill(bench)
    await result(bench.broker.delete_queue("q"))
    bench.forget()
    bench.broker.start()
    await under_way(bench, 10)
    await finished(bench)
    again = await begun_again(bench)
    assert 0 < len(await again.ledger()) < MANY
    assert caplog.records == []


async def test_what_no_one_waits_for_is_served_too(bench: Bench) -> None:
    """A caller may have hung up: what it asked for was accepted."""
    await fill(bench)
    bench.broker.purge("q")
    bench.send(b"last")
    await finished(bench)
    again = await begun_again(bench)
    assert await again.count() == 1
