"""The sweep frees what can no longer be seen, again and again, whatever happens to one of its units."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker import chores
from penstock.errors import StoreBusy, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Outcome
from penstock.timings import Timings
from tests.broker.conftest import LEDGER_RETENTION_MS, Bench, receipt, result
from tests.broker.stores import failing

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


async def test_the_sweep_frees_expired_messages(bench: Bench) -> None:
    await bench.create("brief", retention_ms=5_000)
    await bench.fill(b"1", b"2", to="brief")
    await bench.fill(b"stays")
    bench.broker.start()
    await asyncio.sleep(3)
    assert await bench.count("brief") == 2
    await asyncio.sleep(3)
    assert (await bench.count("brief"), await bench.count("q")) == (0, 1)
    assert [row.outcome for row in await bench.ledger()] == [Outcome.EXPIRED, Outcome.EXPIRED]
    bench.broker.stop()


async def test_the_sweep_frees_the_messages_of_deleted_queues(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    await result(bench.broker.delete_queue("q"))
    bench.broker.start()
    await asyncio.sleep(2)
    assert [row.outcome for row in await bench.ledger()] == [Outcome.PURGED, Outcome.PURGED]
    bench.broker.stop()


async def test_the_sweep_frees_old_rows_of_the_ledger(bench: Bench) -> None:
    await bench.fill(b"1")
    [message] = await result(bench.broker.claim("q", 1))
    await result(bench.broker.ack([receipt(message)]))
    bench.broker.start()
    await asyncio.sleep(LEDGER_RETENTION_MS / 1000 - 2)
    assert len(await bench.ledger()) == 1
    await asyncio.sleep(4)
    assert await bench.ledger() == []
    bench.broker.stop()


@pytest.mark.parametrize("limits", [Limits(step_rows=3)])
async def test_a_sweep_goes_on_until_nothing_is_left(bench: Bench, timings: Timings) -> None:
    await bench.create("brief", retention_ms=100)
    await bench.fill(*([b"x"] * 10), to="brief")
    bench.broker.start()
    await asyncio.sleep(timings.sweep_s * 1.5)
    assert await bench.count("brief") == 0
    bench.broker.stop()


@pytest.mark.parametrize("timings", [Timings(busy_patience_s=0.0)])
@pytest.mark.parametrize("error", [StoreBusy("held"), StoreUnavailable("gone"), ValueError("a bug")])
async def test_a_sweep_that_fails_is_followed_by_another(
    bench: Bench, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    await bench.create("brief", retention_ms=100)
    await bench.fill(b"x", to="brief")
    bench.store.on_begin = failing(error, *range(1, 7))
    bench.broker.start()
    await asyncio.sleep(10)
    assert await bench.count("brief") == 0
    logged = [record for record in caplog.records if record.name == chores.__name__ and "sweep" in record.getMessage()]
    assert bool(logged) == isinstance(error, ValueError)
    bench.broker.stop()


async def test_after_stop_there_is_no_sweep(bench: Bench) -> None:
    bench.broker.start()
    await asyncio.sleep(2.5)
    assert bench.store.units
    bench.broker.stop()
    bench.forget()
    await asyncio.sleep(10)
    assert bench.store.units == []
