"""Claims with an attempt in the broker: told twice, taken once."""

from __future__ import annotations

import asyncio

import pytest

from penstock.limits import Limits
from tests.broker.conftest import Bench, bodies, receipt, result, results

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


async def test_again_it_is_the_same(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    first = await result(bench.broker.claim("q", 2, 5_000, 0, "t"))
    await asyncio.sleep(4)
    again = await result(bench.broker.claim("q", 2, 5_000, 0, "t"))
    assert [(one.id, one.claim) for one in again] == [(one.id, one.claim) for one in first]
    assert [one.ready_at for one in again] == [one.ready_at + 4_000 for one in first]
    assert await result(bench.broker.ack([receipt(one) for one in first])) == [True, True]


async def test_two_at_once_with_one_attempt_get_the_same(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    one, other, plain = await results(
        bench.broker.claim("q", 1, None, 0, "t"), bench.broker.claim("q", 1, None, 0, "t"), bench.broker.claim("q", 1)
    )
    assert one == other
    assert sorted(bodies(one + plain)) == [b"1", b"2"]
    assert await bench.count() == 3


async def test_several_attempts_at_once_share_a_unit_and_no_message(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    dealt = await results(*(bench.broker.claim("q", 1, None, 0, name) for name in ("t", "u", "v", "w")))
    assert [bodies(share) for share in dealt] == [[b"1"], [b"2"], [b"3"], []]
    assert len(bench.store.units) == 1


async def test_one_that_waits_is_woken_and_remembered(bench: Bench) -> None:
    waiting = result(bench.broker.claim("q", 1, None, 20_000, "t"))
    await bench.turn()
    await result(bench.send(b"new"))
    [message] = await waiting
    assert message.body == b"new"
    assert await result(bench.broker.claim("q", 1, None, 20_000, "t")) == [message]


async def test_one_that_waited_in_vain_is_not_remembered(bench: Bench) -> None:
    assert await result(bench.broker.claim("q", 1, None, 1_000, "t")) == []
    await bench.fill(b"new")
    assert bodies(await result(bench.broker.claim("q", 1, None, 0, "t"))) == [b"new"]


async def test_two_that_wait_with_one_attempt_get_the_same(bench: Bench) -> None:
    """A caller that has given up asks again while the broker still waits for it."""
    waiting = [result(bench.broker.claim("q", 1, None, 20_000, "t")) for _ in range(2)]
    await bench.turn()
    await result(bench.send(b"1", b"2"))
    one, other = [await claim for claim in waiting]
    assert (bodies(one), one) == ([b"1"], other)


async def test_after_its_time_it_is_a_new_claim(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    await result(bench.broker.claim("q", 1, 1_000_000, 0, "t"))
    await asyncio.sleep(300)
    assert bodies(await result(bench.broker.claim("q", 1, 1_000_000, 0, "t"))) == [b"2"]


@pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
async def test_more_than_one_unit_may_take(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4", b"5")
    dealt = await results(*(bench.broker.claim("q", 2, None, 0, name) for name in ("t", "u", "v")))
    assert [bodies(share) for share in dealt] == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
