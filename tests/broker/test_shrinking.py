"""A store gives back what it does not use: unasked, once it is worth it, and at once when it is asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker import shrinking
from penstock.limits import Limits
from penstock.model import ActionKind, Actor, Draft
from penstock.stores import open_store
from penstock.timings import Timings
from tests.broker.conftest import Bench, result
from tests.broker.stores import RecordedStore

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])
MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path: Path, limits: Limits) -> Iterator[RecordedStore]:
    recorded = RecordedStore(open_store(f"sqlite:///{tmp_path}/penstock.db", limits=limits))
    yield recorded
    recorded.close()


@pytest.fixture
def timings() -> Timings:
    return Timings(shrink_s=5)


async def fill_and_empty(bench: Bench, mib: int) -> None:
    for _ in range(mib):
        await result(bench.broker.send("q", [Draft(os.urandom(4_000)) for _ in range(256)]))
    await result(bench.broker.purge("q"))


async def unused(bench: Bench) -> int:
    return (await result(bench.broker.figures())).unused_bytes or 0


async def test_unasked_where_it_is_worth_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "_LEAST_BYTES", 2 * MIB)
    await fill_and_empty(bench, 4)
    before = await unused(bench)
    assert before > 3 * MIB
    bench.broker.start()
    await asyncio.sleep(4)
    assert await unused(bench) == before
    await asyncio.sleep(60)
    figures = await result(bench.broker.figures())
    assert (figures.unused_bytes or 0) < MIB
    assert figures.returned_bytes == before - (figures.unused_bytes or 0)
    bench.broker.stop()


async def test_a_little_is_left_alone(bench: Bench) -> None:
    await fill_and_empty(bench, 2)
    before = await unused(bench)
    bench.broker.start()
    await asyncio.sleep(60)
    assert await unused(bench) == before
    bench.broker.stop()


@pytest.mark.parametrize("limits", [Limits(shrink_request_bytes=2 * MIB)])
async def test_on_request_at_once_and_by_the_request(bench: Bench) -> None:
    await fill_and_empty(bench, 5)
    before = await unused(bench)
    by = Actor("boss", "native")
    first = await result(bench.broker.shrink(by))
    assert 2 * MIB <= first.returned_bytes < 3 * MIB
    assert first.unused_bytes == before - first.returned_bytes
    while (await result(bench.broker.shrink(by))).returned_bytes:
        pass
    assert await unused(bench) == 0
    actions = await result(bench.broker.actions.list(None, 100))
    assert {(one.what, one.key) for one in actions} == {(ActionKind.STORE_SHRINK, "boss")}
    assert actions[-1].detail == f'{{"bytes":{first.returned_bytes}}}'


@pytest.mark.parametrize("timings", [Timings(ledger_bytes=1_000)])
async def test_the_ledger_is_kept_within_its_size(bench: Bench) -> None:
    await result(bench.broker.send("q", [Draft(b"x")] * 20))
    await result(bench.broker.purge("q"))
    bench.broker.start()
    await asyncio.sleep(5)
    figures = await result(bench.broker.figures())
    assert (figures.ledger_rows, figures.ledger_bytes) == (6, 900)
    assert figures.ledger_oldest_ms is not None
    assert len(await bench.ledger()) == 6
    bench.broker.stop()
