"""Groups in the broker: claims that are not merged, what wakes those that wait, and one bad send among good ones.

The loop's clock jumps: a claim that is not woken ends empty-handed after its time.
"""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import InvalidRequest, QueueNotFound
from penstock.limits import Limits
from penstock.model import Draft, Groups, Message, Receipt, Sent
from penstock.timings import Timings
from tests.broker.conftest import Bench, bodies, receipt, result, results
from tests.broker.stores import RecordedStore

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


@pytest.fixture
async def bench(store: RecordedStore, timings: Timings) -> Bench:
    """The queue "q" has groups."""
    return await Bench(store, timings).create("q", groups=Groups.FIFO)


async def put(bench: Bench, *texts: str) -> None:
    """The first letter of a text names its group."""
    await result(bench.broker.send("q", [draft(text) for text in texts]))
    bench.forget()


def draft(text: str) -> Draft:
    return Draft(text.encode(), group=text[0])


async def claim(bench: Bench, limit: int = 1) -> list[Message]:
    messages: list[Message] = await result(bench.broker.claim("q", limit))
    return messages


class TestClaims:
    async def test_of_one_group_only_one_is_served(self, bench: Bench) -> None:
        await put(bench, "a1", "a2", "a3")
        dealt = await results(*(bench.broker.claim("q", 1) for _ in range(3)))
        assert [bodies(share) for share in dealt] == [[b"a1"], [], []]
        assert len(bench.store.units) == 1

    async def test_each_gets_a_line_of_its_own(self, bench: Bench) -> None:
        await put(bench, "a1", "b1", "a2", "b2", "c1")
        dealt = await results(*(bench.broker.claim("q", 2) for _ in range(3)))
        assert [bodies(share) for share in dealt] == [[b"a1", b"a2"], [b"b1", b"b2"], [b"c1"]]

    async def test_what_one_leaves_of_a_line_no_other_gets(self, bench: Bench) -> None:
        await put(bench, "a1", "a2", "b1")
        dealt = await results(bench.broker.claim("q", 1), bench.broker.claim("q", 5))
        assert [bodies(share) for share in dealt] == [[b"a1"], [b"b1"]]

    async def test_also_where_they_are_held_for_another_time(self, bench: Bench) -> None:
        await put(bench, "a1", "a2", "b1")
        dealt = await results(bench.broker.claim("q", 1, 5_000), bench.broker.claim("q", 5, 6_000))
        assert sorted(bodies(share) for share in dealt) == [[b"a1"], [b"b1"]]

    async def test_of_two_that_wait_one_is_served(self, bench: Bench) -> None:
        first, second = bench.waiting(wait_ms=5_000), bench.waiting(wait_ms=5_000)
        await bench.turn()
        await put(bench, "a1", "a2")
        assert bodies(await first) == [b"a1"]
        assert await second == []

    async def test_of_two_that_wait_both_are_served_by_two_groups(self, bench: Bench) -> None:
        first, second = bench.waiting(), bench.waiting()
        await bench.turn()
        await put(bench, "a1", "a2", "b1")
        assert [bodies(await first), bodies(await second)] == [[b"a1"], [b"b1"]]

    async def test_in_a_queue_without_lines_they_are_still_one(self, bench: Bench) -> None:
        await bench.create("plain")
        await result(bench.broker.send("plain", [draft("a1"), draft("a2")]))
        bench.forget()
        dealt = await results(bench.broker.claim("plain", 1), bench.broker.claim("plain", 1))
        assert [bodies(share) for share in dealt] == [[b"a1"], [b"a2"]]
        [unit] = bench.store.units
        assert len(unit.asked("claim")) == 1

    @pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
    async def test_more_than_one_unit_may_take(self, bench: Bench) -> None:
        await put(bench, "a1", "b1", "c1", "d1", "e1")
        dealt = await results(*(bench.broker.claim("q", 2) for _ in range(3)))
        assert [bodies(share) for share in dealt] == [[b"a1", b"b1"], [b"c1", b"d1"], [b"e1"]]


class TestWakingUp:
    async def test_an_ack_that_frees_the_next_wakes_a_claim(self, bench: Bench) -> None:
        await put(bench, "a1", "a2")
        [head] = await claim(bench)
        waiting = bench.waiting()
        await bench.turn()
        assert bench.broker.waiting_claims() == ["q"]
        begun = bench.loop.time()
        await result(bench.broker.ack([receipt(head)]))
        assert bodies(await waiting) == [b"a2"]
        assert bench.loop.time() == begun

    async def test_an_ack_of_several_wakes_as_many_claims_as_there_are_lines(self, bench: Bench) -> None:
        await put(bench, "a1", "b1", "a2", "b2")
        heads = [(await claim(bench))[0] for _ in range(2)]
        waiting = [bench.waiting(wait_ms=5_000) for _ in range(3)]
        await bench.turn()
        await result(bench.broker.ack([receipt(head) for head in heads]))
        got = [bodies(await one) for one in waiting]
        assert sorted(got) == [[], [b"a2"], [b"b2"]]

    async def test_an_ack_and_a_claim_in_one_unit(self, bench: Bench) -> None:
        await put(bench, "a1", "a2")
        [head] = await claim(bench)
        bench.forget()
        claimed, acked = await results(bench.broker.claim("q", 1), bench.broker.ack([receipt(head)]))
        assert (bodies(claimed), acked) == ([b"a2"], [True])
        assert len(bench.store.units) == 1

    async def test_an_ack_that_frees_nothing_serves_no_claim(self, bench: Bench) -> None:
        await put(bench, "a1", "a2", "a3")
        _, second = await claim(bench, 2)
        waiting = bench.waiting(wait_ms=5_000)
        await bench.turn()
        begun = bench.loop.time()
        await result(bench.broker.ack([receipt(second)]))
        assert await waiting == []
        assert round(bench.loop.time() - begun) == 5

    async def test_a_release_wakes_a_claim(self, bench: Bench) -> None:
        await put(bench, "a1", "a2")
        [head] = await claim(bench)
        waiting = bench.waiting(limit=5)
        await bench.turn()
        await result(bench.broker.release([receipt(head)], 0))
        assert bodies(await waiting) == [b"a1", b"a2"]

    async def test_a_purge_of_what_was_held_serves_what_was_sent_after_it(self, bench: Bench) -> None:
        await put(bench, "a1")
        await claim(bench)
        waiting = bench.waiting()
        await bench.turn()
        await results(bench.broker.purge("q"))
        await put(bench, "a2")
        assert bodies(await waiting) == [b"a2"]

    async def test_a_head_whose_claim_runs_out_wakes_a_claim_for_its_line(self, bench: Bench) -> None:
        await put(bench, "a1", "a2")
        await result(bench.broker.claim("q", 1, 4_000))
        begun = bench.loop.time()
        assert bodies(await bench.waiting(limit=5)) == [b"a1", b"a2"]
        assert round(bench.loop.time() - begun) == 4

    async def test_a_follower_whose_delay_is_longer_than_its_heads_life_wakes_a_claim(self, bench: Bench) -> None:
        await bench.create("slow", groups=Groups.FIFO, delay_ms=3_000)
        await result(bench.broker.send("slow", [draft("a1")]))
        await asyncio.sleep(2)
        await result(bench.broker.send("slow", [draft("a2")]))
        [head] = await result(bench.broker.claim("slow", 1, None, 20_000))
        waiting = result(bench.broker.claim("slow", 1, None, 20_000))
        await bench.turn()
        begun = bench.loop.time()
        await result(bench.broker.ack([receipt(head)]))
        assert bodies(await waiting) == [b"a2"]
        assert round(bench.loop.time() - begun) == 2

    async def test_a_message_sent_behind_a_held_one_serves_no_claim(self, bench: Bench) -> None:
        await put(bench, "a1")
        await claim(bench)
        waiting = bench.waiting(wait_ms=5_000)
        await bench.turn()
        await put(bench, "a2")
        assert bench.broker.waiting_claims() == ["q"]
        assert await waiting == []


class TestPurges:
    @pytest.mark.parametrize("limits", [Limits(), Limits(step_rows=1), Limits(step_rows=3)])
    async def test_by_age_nothing_is_left_behind_a_held_head(self, bench: Bench) -> None:
        await put(bench, "a1", "a2", "b1", "a3", "b2", "c1")
        await result(bench.broker.claim("q", 1, 1_000_000))
        await asyncio.sleep(10)
        await put(bench, "a4", "c2")
        assert await result(bench.broker.purge_older("q", 5_000)) == 6
        assert bodies(await claim(bench, 10)) == [b"a4", b"c2"]

    async def test_where_nothing_is_old_it_is_looked_through_once(self, bench: Bench) -> None:
        await put(bench, "a1", "a2")
        assert await result(bench.broker.purge_older("q", 5_000)) == 0
        assert len([unit for unit in bench.store.units if unit.asked("purge_older")]) == 1


class TestSends:
    async def test_one_that_is_refused_among_good_ones_fails_alone(self, bench: Bench) -> None:
        bad = Draft(b"a2", group="a", delay_ms=5)
        first, refused, mixed, last = await results(
            bench.broker.send("q", [draft("a1")]),
            bench.broker.send("q", [bad]),
            bench.broker.send("q", [draft("b1"), bad]),
            bench.broker.send("q", [draft("a3"), draft("b2")]),
        )
        assert [one.stored for one in first + last] == [True] * 3
        assert isinstance(refused, InvalidRequest)
        assert isinstance(mixed, InvalidRequest)
        assert len(bench.store.units) == 1
        assert bodies(await claim(bench, 10)) == [b"a1", b"a3", b"b2"]

    async def test_a_keyed_one_that_is_refused_is_not_remembered(self, bench: Bench) -> None:
        bad = Draft(b"a1", group="a", delay_ms=5)
        refused, good = await results(
            bench.broker.send_once("q", [bad], "k", b"d"), bench.broker.send("q", [draft("a1")])
        )
        assert isinstance(refused, InvalidRequest)
        assert isinstance(good[0], Sent)
        assert not (await result(bench.broker.send_once("q", [draft("a2")], "k", b"d"))).repeated
        assert bodies(await claim(bench, 10)) == [b"a1", b"a2"]


class TestLocate:
    async def test_where_messages_are(self, bench: Bench) -> None:
        await bench.create("other")
        [one] = await result(bench.broker.send("q", [draft("a1")]))
        [two] = await result(bench.broker.send("other", [draft("a1")]))
        asked = [
            Receipt(two.id),
            Receipt(one.id.upper()),
            Receipt("none"),
            Receipt(one.id, 7),
            Receipt(one.id, None, "p"),
        ]
        assert await result(bench.broker.locate(asked)) == ["other", "q", None, None, None]

    async def test_it_writes_nothing(self, bench: Bench) -> None:
        bench.forget()
        await result(bench.broker.locate([Receipt("none")]))
        assert [unit.write for unit in bench.store.units] == [False]

    async def test_also_after_the_claim_has_run_out(self, bench: Bench) -> None:
        await put(bench, "a1")
        [head] = await result(bench.broker.claim("q", 1, 1_000))
        await asyncio.sleep(2)
        assert await result(bench.broker.ack([receipt(head)])) == [False]
        assert await result(bench.broker.locate([receipt(head)])) == ["q"]


async def test_an_unknown_queue_does_not_disturb_the_others(bench: Bench) -> None:
    await put(bench, "a1")
    missing, found = await results(bench.broker.claim("nowhere", 1, None, 0, "t"), bench.broker.claim("q", 1))
    assert isinstance(missing, QueueNotFound)
    assert bodies(found) == [b"a1"]
