"""A paused queue keeps claims waiting, and wakes them when it is resumed.

The loop's clock jumps: a claim that is not woken ends empty-handed after its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.broker import LocalBroker
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Actor, Draft, QueueChange, Settings
from penstock.stores import Store, open_store
from penstock.timings import Timings
from tests.broker.conftest import Bench, bodies, receipt, result, results

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


async def elapsed(bench: Bench, waiting: asyncio.Future) -> tuple[float, list[bytes]]:
    """How long a claim has waited from now on, in seconds, and what it got."""
    begun = bench.loop.time()
    messages = await waiting
    return round(bench.loop.time() - begun, 2), bodies(messages)


@pytest.fixture
async def paused(bench: Bench) -> Bench:
    await result(bench.broker.pause_queue("q"))
    bench.forget()
    return bench


async def test_it_is_told_and_shown(bench: Bench) -> None:
    now = bench.now()
    assert (await result(bench.broker.pause_queue("q"))).paused_at == now
    assert (await result(bench.broker.describe_queue("q"))).queue.paused_at == now
    assert (await result(bench.broker.resume_queue("q"))).paused_at is None
    errors = await results(bench.broker.pause_queue("nowhere"), bench.broker.resume_queue("nowhere"))
    assert list(map(type, errors)) == [QueueNotFound] * 2


async def test_who_has_done_it_is_written_down_once(bench: Bench) -> None:
    broker, ann = bench.broker, Actor("ann", "native")
    for change in (broker.resume_queue, broker.pause_queue, broker.pause_queue, broker.resume_queue):
        await result(change("q", ann))
    await results(broker.pause_queue("nowhere", ann))
    entries = await result(broker.actions.list(None, 10))
    assert [(one.what.value, one.queue, one.key, one.via) for one in reversed(entries)] == [
        ("queue.pause", "q", "ann", "native"),
        ("queue.resume", "q", "ann", "native"),
    ]


async def test_settings_change_beside_it(paused: Bench) -> None:
    changed = await result(paused.broker.update_queue("q", QueueChange(visibility_ms=5)))
    assert (changed.settings.visibility_ms, changed.paused_at is None) == (5, False)
    await result(paused.broker.ensure_queue("q", Settings()))
    await result(paused.broker.send("q", [Draft(b"x")], Settings()))
    assert await result(paused.broker.claim("q", 1)) == []


async def test_a_claim_that_does_not_wait_finds_nothing(paused: Bench) -> None:
    await paused.fill(b"x")
    assert await elapsed(paused, result(paused.broker.claim("q", 1))) == (0.0, [])


async def test_a_claim_waits_for_the_end_of_its_time(paused: Bench) -> None:
    await paused.fill(b"x")
    assert await elapsed(paused, paused.waiting(wait_ms=5_000)) == (5.0, [])


async def test_a_claim_that_waits_is_woken_by_resume(paused: Bench) -> None:
    await paused.fill(b"x")
    waiting = paused.waiting()
    paused.loop.call_later(3, paused.broker.resume_queue, "q")
    assert await elapsed(paused, waiting) == (3.0, [b"x"])


async def test_all_that_wait_are_served_after_resume(paused: Bench) -> None:
    sent = [b"%d" % number for number in range(30)]
    waiting = [paused.waiting() for _ in sent]
    await paused.turn()
    await paused.fill(*sent)
    assert paused.broker.waiting_claims() == ["q"] * 30
    await result(paused.broker.resume_queue("q"))
    assert sorted([(await claim)[0].body for claim in waiting]) == sorted(sent)


async def test_a_send_wakes_none_that_wait(paused: Bench) -> None:
    waiting = paused.waiting()
    await paused.turn()
    await paused.fill(b"x")
    assert paused.broker.waiting_claims() == ["q"]
    await result(paused.broker.resume_queue("q"))
    assert await elapsed(paused, waiting) == (0.0, [b"x"])


async def test_a_pause_catches_claims_that_wait_already(bench: Bench) -> None:
    waiting = bench.waiting(wait_ms=9_000)
    await bench.turn()
    await result(bench.broker.pause_queue("q"))
    await bench.fill(b"x")
    assert await elapsed(bench, waiting) == (9.0, [])
    assert await bench.seen() == [b"x"]


async def test_in_the_unit_that_pauses_or_resumes(bench: Bench) -> None:
    await bench.fill(b"x")
    _, claimed = await results(bench.broker.pause_queue("q"), bench.broker.claim("q", 1))
    assert claimed == []
    _, claimed = await results(bench.broker.resume_queue("q"), bench.broker.claim("q", 1))
    assert bodies(claimed) == [b"x"]


async def test_acks_and_releases_go_on(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    one, two = await result(bench.broker.claim("q", 2))
    await result(bench.broker.pause_queue("q"))
    assert await result(bench.broker.ack([receipt(one)])) == [True]
    assert await result(bench.broker.release([receipt(two)])) == [True]
    assert await elapsed(bench, bench.waiting(wait_ms=2_000)) == (2.0, [])


async def test_a_delay_that_ends_meanwhile_is_found_by_resume(paused: Bench) -> None:
    await paused.fill(b"x", delay_ms=1_000)
    waiting = paused.waiting()
    paused.loop.call_later(5, paused.broker.resume_queue, "q")
    assert await elapsed(paused, waiting) == (5.0, [b"x"])


async def test_a_delay_that_ends_after_resume_still_wakes(paused: Bench) -> None:
    await paused.fill(b"x", delay_ms=7_000)
    waiting = paused.waiting()
    paused.loop.call_later(5, paused.broker.resume_queue, "q")
    assert await elapsed(paused, waiting) == (7.0, [b"x"])


async def test_those_who_wait_do_not_keep_the_store_busy(bench: Bench) -> None:
    """Neither what is ready, nor what becomes ready, makes them look again and again."""
    await bench.fill(b"ready")
    await bench.fill(*[b"later"] * 20, delay_ms=1_000)
    await result(bench.broker.claim("q", 1, 2_000))
    waiting = [bench.waiting(wait_ms=3_600_000) for _ in range(5)]
    await bench.turn()
    await result(bench.broker.pause_queue("q"))
    bench.forget()
    assert [await elapsed(bench, claim) for claim in waiting] == [(3600.0, []), *[(0.0, [])] * 4]
    # One alarm was set before the pause.
    assert sum(len(unit.asked("claim")) for unit in bench.store.units) <= 1


@pytest.fixture
def other_store(tmp_path: Path, limits: Limits) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/penstock.db", limits=limits)) as store:
        yield store


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_claim_at_another_server_is_woken(bench: Bench, other_store: Store, timings: Timings) -> None:
    other = LocalBroker(other_store, bench.now, bench.loop, timings)
    assert await result(other.claim("q", 1)) == []
    await result(bench.broker.pause_queue("q"))
    await bench.fill(b"x")
    assert await result(other.claim("q", 1)) == []
    waiting = result(other.claim("q", 1, None, 20_000))
    bench.loop.call_later(3, bench.broker.resume_queue, "q")
    waited, found = await elapsed(bench, waiting)
    assert found == [b"x"]
    assert 3.0 <= waited <= 3.0 + 2 * timings.watch_s
