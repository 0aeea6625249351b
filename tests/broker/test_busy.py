"""Another process holds the store: callers do not notice, unless it takes too long."""

from __future__ import annotations

import pytest

from penstock.errors import StoreBusy
from penstock.limits import Limits
from penstock.model import Outcome
from penstock.timings import Timings
from tests.broker.conftest import Bench, bodies, receipt, result, results
from tests.broker.stores import UnitRecord, failing

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


def busy_writing(unit: UnitRecord) -> None:
    if unit.write:
        raise StoreBusy("another process is writing")


@pytest.mark.parametrize("hook", ["on_begin", "on_end"])
async def test_a_busy_store_is_tried_again_unnoticed(bench: Bench, hook: str) -> None:
    await bench.fill(b"1", b"2", b"3")
    [first] = await result(bench.broker.claim("q", 1))
    bench.forget()
    setattr(bench.store, hook, failing(StoreBusy("held"), 1, 2, 3))
    sent, acked, claimed, seen = await results(
        bench.send(b"new"),
        bench.broker.ack([receipt(first)]),
        bench.broker.claim("q", 1),
        bench.in_unit(lambda unit, now: unit.count("q", now, 10)),
    )
    assert [unit.kept for unit in bench.store.units] == [False, False, False, True]
    assert (sent[0].stored, acked, bodies(claimed), seen.total) == (True, [True], [b"2"], 3)


async def test_what_was_tried_again_has_happened_once(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    [first] = await result(bench.broker.claim("q", 1))
    bench.forget()
    bench.store.on_end = failing(StoreBusy("held"), 1, 2)
    sent, acked, claimed = await results(
        bench.send(b"3"), bench.broker.ack([receipt(first)]), bench.broker.claim("q", 1)
    )
    assert (len(sent), acked) == (1, [True])
    assert [(message.body, message.receives) for message in claimed] == [(b"2", 1)]
    assert sorted(await bench.seen()) == [b"2", b"3"]
    assert [row.outcome for row in await bench.ledger()] == [Outcome.PROCESSED]


@pytest.mark.parametrize("limits", [Limits(step_rows=3)])
async def test_a_purge_between_busy_units_counts_each_message_once(bench: Bench) -> None:
    await bench.fill(*(str(number).encode() for number in range(10)))
    bench.store.on_end = failing(StoreBusy("held"), 2, 3, 5)
    assert await result(bench.broker.purge("q")) == 10
    assert len(await bench.ledger()) == 10


@pytest.mark.parametrize("room", [True, False])
async def test_who_only_looks_is_served_meanwhile(bench: Bench, room: bool) -> None:
    await bench.fill(b"there")
    bench.store.room = room
    bench.store.on_begin = busy_writing
    claimed = result(bench.broker.claim("q", 1))
    seen = await result(bench.broker.peek("q", 1))
    assert bodies(seen) == [b"there"]
    assert not claimed.done()
    later = await result(bench.broker.peek("q", 1))
    assert bodies(later) == [b"there"]
    assert not claimed.done()
    bench.store.on_begin = lambda _unit: None
    assert bodies(await claimed) == [b"there"]


@pytest.mark.parametrize("timings", [Timings(busy_patience_s=0.05)])
async def test_patience_ends(bench: Bench) -> None:
    bench.store.on_begin = busy_writing
    begun = bench.loop.time()
    told = await results(bench.send(b"a"), bench.broker.claim("q", 1))
    assert [type(error) for error in told] == [StoreBusy, StoreBusy]
    assert len(bench.store.units) > 10
    assert bench.loop.time() - begun > 0.05
    bench.store.on_begin = lambda _unit: None
    assert await bench.seen() == []


@pytest.mark.parametrize("timings", [Timings(busy_patience_s=0.05)])
async def test_patience_begins_again_with_the_next_request(bench: Bench) -> None:
    bench.store.on_begin = busy_writing
    await results(bench.send(b"lost"))
    bench.forget()
    bench.store.on_begin = failing(StoreBusy("held"), 1)
    assert (await result(bench.send(b"kept")))[0].stored


async def test_a_waiting_claim_survives_a_busy_store(bench: Bench) -> None:
    waiting = [bench.waiting(), bench.waiting()]
    await bench.turn()
    bench.forget()
    bench.store.on_begin = failing(StoreBusy("held"), 1, 2, 3)
    await result(bench.send(b"1"))
    assert bodies(await waiting[0]) == [b"1"]
    assert bench.broker.waiting_claims() == ["q"]
    await result(bench.send(b"2"))
    assert bodies(await waiting[1]) == [b"2"]
