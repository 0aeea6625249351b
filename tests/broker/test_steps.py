"""Long work is done in steps: each is bounded by rows and by time, and gives way to requests.

The time is that of a stopwatch that goes on with every row a verb may touch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.broker import LocalBroker
from penstock.broker.chores import Sweep
from penstock.limits import Limits
from penstock.model import Draft, ExportRef, LedgerFilter, Outcome, Selection, ShipmentRef
from penstock.timings import Timings
from tests.broker.conftest import Bench, result
from tests.broker.stores import RecordedStore, UnitRecord

MESSAGES = 600
SHIPMENT = ShipmentRef("q", "c", 1)
EXPORT = ExportRef("c", 1)
STEP_MS = 2.0
LIMITS = Limits(
    step_rows=64, shipment_step_rows=64, page_step_rows=64, export_count_rows=64, step_ms=STEP_MS, calm_times=1
)


@dataclass
class Stopwatch:
    """A row of this verb, which has its rows at this place of its arguments, takes so long."""

    verb: str
    place: int
    row_ms: float
    at: float = 0.0
    steps: list[int] = field(default_factory=list)

    def __call__(self) -> float:
        return self.at

    def note(self, _unit: UnitRecord, verb: str, args: tuple[Any, ...]) -> None:
        if verb == self.verb:
            self.steps.append(args[self.place])
            self.at += args[self.place] * self.row_ms / 1_000


@dataclass(frozen=True)
class Work:
    verb: str
    place: int
    run: Callable[[Bench], Awaitable[object]]
    expected: object
    before: Callable[[Bench], Awaitable[object]] | None = None


async def ship(bench: Bench) -> int:
    claimed = await result(bench.broker.shipments.claim(SHIPMENT, MESSAGES, 60_000))
    return claimed.shipment.messages


async def settle(bench: Bench) -> int:
    await result(bench.broker.shipments.settle(SHIPMENT))
    return await bench.count()


async def give_back(bench: Bench) -> int:
    await result(bench.broker.shipments.release(SHIPMENT))
    return (await result(bench.broker.count("q"))).ready


async def purge(bench: Bench) -> int:
    return await result(bench.broker.purge("q"))


async def grow_old(_bench: Bench) -> None:
    await asyncio.sleep(1)


async def purge_older(bench: Bench) -> int:
    return await result(bench.broker.purge_older("q", 1))


async def claim_all(bench: Bench) -> None:
    await result(bench.broker.claim("q", MESSAGES))


async def release_all(bench: Bench) -> int:
    return await result(bench.broker.release_all("q"))


async def move(bench: Bench) -> int:
    move = await result(bench.broker.moves.start("q", "other"))
    while (await result(bench.broker.moves.find(move.id))).finished_at is None:
        await bench.turn()
    return await bench.count("other")


async def delete(bench: Bench) -> int:
    await result(bench.broker.delete_queue("q"))
    await result(bench.broker._commit.work(Sweep(60_000, 60_000), patient=True))
    return [row.outcome for row in await bench.ledger()].count(Outcome.PURGED)


async def claim_export(bench: Bench) -> int:
    claimed = await result(bench.broker.exports.claim(EXPORT, MESSAGES))
    return claimed.export.rows


async def purge_and_export(bench: Bench) -> None:
    await purge(bench)
    await claim_export(bench)


async def read_export(bench: Bench) -> int:
    return len(await result(bench.broker.exports.read(EXPORT, 0, 10_000)))


async def read_shipment(bench: Bench) -> int:
    return len(await result(bench.broker.shipments.read(SHIPMENT, 0, 10_000)))


async def read_ledger(bench: Bench) -> int:
    return len(await bench.ledger())


async def search_ledger(bench: Bench) -> int:
    return (await result(bench.broker.ledger.latest(10, LedgerFilter(), [Outcome.FAILED]))).examined


async def peek(bench: Bench) -> int:
    return len(await bench.seen())


async def scan(bench: Bench) -> int:
    return (await result(bench.broker.scan("q", Selection(text="nowhere"), 10))).examined


WORKS = {
    "purge": Work("purge", 2, purge, MESSAGES),
    "purge by age": Work("purge_older", 2, purge_older, MESSAGES, grow_old),
    "deletion": Work("sweep", 1, delete, MESSAGES),
    "release of all claims": Work("release_all", 2, release_all, MESSAGES, claim_all),
    "move": Work("step", 2, move, MESSAGES),
    "claim of a shipment": Work("claim", 4, ship, MESSAGES),
    "read of a shipment": Work("read", 2, read_shipment, MESSAGES, ship),
    "settle of a shipment": Work("settle", 2, settle, 0, ship),
    "release of a shipment": Work("release", 2, give_back, MESSAGES, ship),
    "claim of an export": Work("claim", 4, claim_export, MESSAGES, purge),
    "read of an export": Work("read", 2, read_export, MESSAGES, purge_and_export),
    "page of the ledger": Work("rows", 1, read_ledger, MESSAGES, purge),
    "search in the ledger": Work("latest", 2, search_ledger, MESSAGES, purge),
    "peek": Work("peek", 1, peek, MESSAGES),
    "scan": Work("scan", 4, scan, MESSAGES),
}


async def prepared(store: RecordedStore, timings: Timings, work: Work, row_ms: float) -> tuple[Bench, Stopwatch]:
    bench = Bench(store, timings)
    stopwatch = Stopwatch(work.verb, work.place, row_ms)
    bench.broker = LocalBroker(store, bench.now, bench.loop, timings, stopwatch)
    await bench.create("q")
    await bench.create("other")
    await bench.fill(*(b"%d" % number for number in range(MESSAGES)))
    if work.before is not None:
        await work.before(bench)
    bench.forget()
    store.on_verb = stopwatch.note
    return bench, stopwatch


pytestmark = [
    pytest.mark.asyncio(loop_factories=["jumping"]),
    pytest.mark.parametrize("name", WORKS),
]


@pytest.mark.parametrize("limits", [LIMITS])
async def test_is_bounded_by_rows(store: RecordedStore, timings: Timings, name: str) -> None:
    work = WORKS[name]
    bench, stopwatch = await prepared(store, timings, work, 0.0)
    assert await work.run(bench) == work.expected
    assert len(stopwatch.steps) >= MESSAGES // LIMITS.step_rows
    assert max(stopwatch.steps) == LIMITS.step_rows


@pytest.mark.parametrize("limits", [LIMITS])
async def test_is_bounded_by_time(store: RecordedStore, timings: Timings, name: str) -> None:
    work, row_ms = WORKS[name], 0.5
    bench, stopwatch = await prepared(store, timings, work, row_ms)
    assert await work.run(bench) == work.expected
    full = stopwatch.steps.index(LIMITS.step_rows // 2)
    assert full == 2, "the first two have taken far too long"
    assert min(stopwatch.steps) * row_ms <= STEP_MS
    small = next(index for index, rows in enumerate(stopwatch.steps) if rows * row_ms <= STEP_MS)
    assert max(stopwatch.steps[small:]) * row_ms <= 2 * STEP_MS, "it may try a larger one now and then"


@pytest.mark.parametrize("limits", [LIMITS])
async def test_gives_way_to_requests(store: RecordedStore, timings: Timings, name: str) -> None:
    """There is always a send that waits: every other unit is for sends alone."""
    work = WORKS[name]
    bench, _ = await prepared(store, timings, work, 0.0)
    is_done = False

    def go_on(_sent: object) -> None:
        if not is_done:
            bench.broker.send("other", [Draft(b"x")]).listen(go_on, pytest.fail)

    go_on(None)
    await work.run(bench)
    is_done = True
    units = [[verb for verb, _ in unit.verbs] for unit in store.units]
    steps = [work.verb in verbs for verbs in units]
    assert sum(steps) >= MESSAGES // LIMITS.step_rows
    first = steps.index(True)
    for before, after in zip(steps[first + 1 :], steps[first + 2 :], strict=False):
        assert not (before and after), "two steps in a row"
    for unit in units:
        assert unit.count(work.verb) <= 1, "several steps in one unit"
