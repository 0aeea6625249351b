"""Claims that wait: what wakes them, in which order, and what ends them.

The loop's clock jumps. A claim that is not woken ends empty-handed after its time, so each test fails without the
wake-up it is about.
"""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Draft, Redrive
from penstock.pending import Pending
from penstock.timings import Timings
from tests.broker.conftest import Bench, bodies, receipt, result, results
from tests.broker.stores import UnitRecord

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


async def elapsed(bench: Bench, waiting: asyncio.Future) -> tuple[float, list[bytes]]:
    """How long a claim has waited from now on, in seconds, and what it got."""
    begun = bench.loop.time()
    messages = await waiting
    return round(bench.loop.time() - begun, 2), bodies(messages)


# What wakes


async def test_a_send_wakes_a_claim_within_its_own_unit(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    assert bench.broker.waiting_claims() == ["q"]
    bench.forget()
    await result(bench.send(b"new"))
    assert bodies(await waiting) == [b"new"]
    [unit] = bench.store.units
    assert (len(unit.asked("send")), len(unit.asked("claim"))) == (1, 1)
    assert bench.broker.waiting_claims() == []


async def test_a_send_of_several_wakes_as_many_claims(bench: Bench) -> None:
    waiting = [bench.waiting() for _ in range(3)]
    await bench.turn()
    await result(bench.send(b"1", b"2"))
    assert [bodies(await claim) for claim in waiting] == [[b"1"], [b"2"], []]


async def test_a_send_to_another_queue_wakes_no_claim(bench: Bench) -> None:
    await bench.create("other")
    waiting = bench.waiting(wait_ms=5_000)
    await bench.turn()
    await result(bench.send(b"x", to="other"))
    assert bench.broker.waiting_claims() == ["q"]
    assert await elapsed(bench, waiting) == (5.0, [])


async def test_a_claim_with_a_message_does_not_wait(bench: Bench) -> None:
    await bench.fill(b"1")
    assert await elapsed(bench, bench.waiting(limit=10)) == (0.0, [b"1"])


async def test_a_delay_that_ends_wakes(bench: Bench) -> None:
    await bench.fill(b"later", delay_ms=3_000)
    assert await elapsed(bench, bench.waiting()) == (3.0, [b"later"])


async def test_a_delay_that_begins_while_a_claim_waits_wakes_when_it_ends(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    await bench.fill(b"later", delay_ms=3_000)
    assert await elapsed(bench, waiting) == (3.0, [b"later"])


async def test_the_earlier_of_two_delays_wakes_first(bench: Bench) -> None:
    waiting = [bench.waiting(), bench.waiting()]
    await bench.fill(b"late", delay_ms=9_000)
    await bench.fill(b"early", delay_ms=2_000)
    begun = bench.loop.time()
    ends = [((await claim)[0].body, round(bench.loop.time() - begun)) for claim in waiting]
    assert ends == [(b"early", 2), (b"late", 9)]


@pytest.mark.parametrize("timings", [Timings(watch_s=600.0)])
async def test_a_delay_of_more_than_the_longest_timer_still_wakes(bench: Bench) -> None:
    await bench.fill(b"tomorrow", delay_ms=86_400_000)
    assert await elapsed(bench, bench.waiting(wait_ms=90_000_000)) == (86_400.0, [b"tomorrow"])


async def test_a_claim_that_runs_out_wakes(bench: Bench) -> None:
    await bench.fill(b"again")
    await result(bench.broker.claim("q", 1, 4_000))
    assert await elapsed(bench, bench.waiting()) == (4.0, [b"again"])


async def test_a_claim_beside_it_that_does_not_wait_keeps_no_other_asleep(bench: Bench) -> None:
    await bench.fill(b"later", delay_ms=3_000)
    waiting, brief = bench.waiting(), result(bench.broker.claim("q", 1))
    assert await brief == []
    assert await elapsed(bench, waiting) == (3.0, [b"later"])


async def test_what_one_waiting_claim_took_wakes_another_when_it_runs_out(bench: Bench) -> None:
    first, second = bench.waiting(hold_ms=4_000), bench.waiting()
    await bench.turn()
    await result(bench.send(b"again"))
    assert bodies(await first) == [b"again"]
    assert await elapsed(bench, second) == (4.0, [b"again"])


async def test_what_a_claim_without_a_hold_leaves_ready_wakes_the_others(bench: Bench) -> None:
    claims = [bench.waiting(hold_ms=0) for _ in range(3)]
    await bench.turn()
    await result(bench.send(b"for all"))
    assert [await elapsed(bench, claim) for claim in claims] == [(0.0, [b"for all"])] * 3


async def test_a_renewed_claim_wakes_only_when_it_really_ends(bench: Bench) -> None:
    await bench.fill(b"long")
    [held] = await result(bench.broker.claim("q", 1, 2_000))
    waiting = bench.waiting()
    await result(bench.broker.renew([receipt(held)], 7_000))
    assert await elapsed(bench, waiting) == (7.0, [b"long"])


@pytest.mark.parametrize("hold_ms", [0, 2_000])
async def test_a_claim_that_is_shortened_wakes_when_it_ends(bench: Bench, hold_ms: int) -> None:
    await bench.fill(b"brief")
    [held] = await result(bench.broker.claim("q", 1, 10_000))
    waiting = bench.waiting()
    await bench.turn()
    shortened = bench.broker.renew([receipt(held)], hold_ms, shorten=True)
    await result(shortened)
    assert await elapsed(bench, waiting) == (hold_ms / 1000, [b"brief"])


async def test_a_release_wakes(bench: Bench) -> None:
    await bench.fill(b"back")
    [held] = await result(bench.broker.claim("q", 1))
    waiting = bench.waiting()
    await bench.turn()
    await result(bench.broker.release([receipt(held)]))
    assert await elapsed(bench, waiting) == (0.0, [b"back"])


async def test_release_all_wakes(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    await result(bench.broker.claim("q", 2))
    waiting = [bench.waiting(), bench.waiting()]
    await bench.turn()
    await result(bench.broker.release_all("q"))
    assert [bodies(await claim) for claim in waiting] == [[b"1"], [b"2"]]


async def test_a_move_wakes(bench: Bench) -> None:
    await bench.create("source")
    await bench.fill(b"moved", to="source")
    waiting = bench.waiting()
    await bench.turn()
    await result(bench.in_unit(lambda unit, now: unit.moves.move("source", "q", now, 10, unit.messages.last_seq())))
    assert await elapsed(bench, waiting) == (0.0, [b"moved"])


async def test_a_dead_letter_wakes(bench: Bench) -> None:
    await bench.create("source", visibility_ms=0, redrive=Redrive(1, "q"))
    await bench.fill(b"dead", to="source")
    await result(bench.broker.claim("source", 1))
    waiting = bench.waiting()
    await bench.turn()
    assert await result(bench.broker.claim("source", 1)) == []
    assert await elapsed(bench, waiting) == (0.0, [b"dead"])


async def test_the_deletion_of_the_queue_ends_waiting_with_an_error(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    await result(bench.broker.delete_queue("q"))
    with pytest.raises(QueueNotFound):
        await waiting
    assert bench.broker.waiting_claims() == []


async def test_a_change_by_another_process_wakes(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    with bench.store._store.unit() as unit:
        unit.send("q", [Draft(b"from elsewhere")], bench.now())
    bench.store.changed = True
    messages = await waiting
    assert bodies(messages) == [b"from elsewhere"]


def looks(bench: Bench) -> list[object]:
    """How many messages were asked for in the units on record, by each claim at the store."""
    return [limit for unit in bench.store.units for _queue, limit, *_ in unit.asked("claim")]


async def test_one_of_many_looks_where_another_process_has_changed_something_else(bench: Bench) -> None:
    waiting = [bench.waiting() for _ in range(100)]
    await bench.turn()
    for _ in range(3):
        bench.forget()
        bench.store.changed = True
        await asyncio.sleep(1)
        assert looks(bench) == [1]
    assert len(bench.broker.waiting_claims()) == 100
    bench.broker.stop()
    assert await asyncio.gather(*waiting) == [[]] * 100


async def test_more_look_where_the_first_have_found_something(bench: Bench) -> None:
    waiting = [bench.waiting() for _ in range(100)]
    await bench.turn()
    with bench.store._store.unit() as unit:
        unit.send("q", [Draft(b"%d" % number) for number in range(7)], bench.now())
    bench.forget()
    bench.store.changed = True
    served = await asyncio.gather(*waiting[:7])
    assert [bodies(messages) for messages in served] == [[b"%d" % number] for number in range(7)]
    await bench.turn()
    assert looks(bench) == [1, 4, 16]
    assert len(bench.broker.waiting_claims()) == 93
    await bench.fill(*[b"x"] * 93)
    assert all(await asyncio.gather(*waiting[7:]))


async def test_one_of_many_looks_for_what_was_released_or_has_come_due(bench: Bench) -> None:
    await bench.fill(b"back")
    [held] = await result(bench.broker.claim("q", 1))
    waiting = [bench.waiting(hold_ms=600_000) for _ in range(50)]
    await bench.turn()
    bench.forget()
    await result(bench.broker.release([receipt(held)]))
    assert bodies(await waiting[0]) == [b"back"]
    await bench.turn()
    assert looks(bench) == [1, 4]
    await bench.fill(b"later", delay_ms=3_000)
    assert await elapsed(bench, waiting[1]) == (3.0, [b"later"])
    await bench.turn()
    assert looks(bench) == [1, 4]
    assert len(bench.broker.waiting_claims()) == 48


async def test_all_of_many_are_told_that_another_process_has_deleted_the_queue(bench: Bench) -> None:
    waiting = [bench.waiting() for _ in range(50)]
    await bench.turn()
    with bench.store._store.unit() as unit:
        unit.delete_queue("q", bench.now())
    bench.store.changed = True
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in told] == [QueueNotFound] * 50


async def test_other_processes_are_not_asked_about_while_no_claim_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await elapsed(bench, bench.waiting(wait_ms=1_000)) == (1.0, [])
    asked = []
    monkeypatch.setattr(bench.store, "changed_elsewhere", lambda: asked.append(bench.loop.time()))
    await asyncio.sleep(60)
    assert asked == []


# Order


async def test_waiting_claims_are_served_in_the_order_of_arrival(bench: Bench) -> None:
    waiting = []
    for _ in range(4):
        waiting.append(bench.waiting())
        await bench.turn()
    for number in range(4):
        await result(bench.send(str(number).encode()))
    assert [bodies(await claim) for claim in waiting] == [[b"0"], [b"1"], [b"2"], [b"3"]]


async def test_who_has_waited_goes_before_who_comes_with_the_message(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    late, _ = await results(bench.broker.claim("q", 1), bench.send(b"one"))
    assert late == []
    assert await elapsed(bench, waiting) == (0.0, [b"one"])


async def test_who_was_woken_in_vain_keeps_its_place(bench: Bench) -> None:
    waiting = []
    for _ in range(4):
        waiting.append(bench.waiting())
        await bench.turn()
    await bench.fill(b"x", b"y", delay_ms=60_000)
    for number in range(4):
        await result(bench.send(str(number).encode()))
    assert [bodies(await claim) for claim in waiting] == [[b"0"], [b"1"], [b"2"], [b"3"]]


# What ends


async def test_a_claim_ends_empty_after_its_time(bench: Bench) -> None:
    assert await elapsed(bench, bench.waiting(wait_ms=7_000)) == (7.0, [])
    assert bench.broker.waiting_claims() == []


async def test_a_claim_that_is_woken_in_vain_still_ends_in_time(bench: Bench) -> None:
    waiting = bench.waiting(wait_ms=7_000)
    await bench.turn()
    await result(bench.send(b"late", delay_ms=30_000))
    assert await elapsed(bench, waiting) == (7.0, [])


async def test_a_claim_whose_time_ends_on_its_way_to_the_store_does_not_wait_again(bench: Bench) -> None:
    """The clock of a loop is coarse: a timer may fire a little early, in the very turn that wakes the claim."""
    bench.loop._clock_resolution = 0.002
    waiting = bench.waiting(wait_ms=3_000)
    await bench.turn()
    await result(bench.send(b"x", delay_ms=2_999))
    await result(bench.broker.purge("q"))
    done, _ = await asyncio.wait([waiting], timeout=60)
    assert done == {waiting}
    assert waiting.result() == []


def start_waiting(bench: Bench, told: list[object]) -> Pending:
    pending = bench.broker.claim("q", 1, None, 20_000)
    pending.listen(told.append, told.append)
    return pending


async def test_a_cancelled_claim_takes_no_message_and_is_never_told(bench: Bench) -> None:
    told: list[object] = []
    cancelled = start_waiting(bench, told)
    other = bench.waiting()
    await bench.turn()
    assert cancelled.cancel() is True
    assert bench.broker.waiting_claims() == ["q"]
    await result(bench.send(b"1"))
    assert bodies(await other) == [b"1"]
    await asyncio.sleep(60)
    assert told == []
    assert cancelled.cancel() is False


async def test_a_claim_can_be_cancelled_through_what_follows_from_it(bench: Bench) -> None:
    told: list[object] = []
    following = bench.broker.claim("q", 1, None, 20_000).map(len).map(str)
    following.listen(told.append, told.append)
    await bench.turn()
    assert following.cancel() is True
    assert bench.broker.waiting_claims() == []
    await bench.fill(b"kept")
    assert await bench.seen() == [b"kept"]
    assert told == []


async def test_a_claim_cancelled_on_its_way_to_the_store_does_not_wait_again(bench: Bench) -> None:
    told: list[object] = []
    cancelled = start_waiting(bench, told)
    await bench.turn()

    def cancel(_unit: UnitRecord) -> None:
        assert cancelled.cancel() is False, "too late: it is at the store"

    bench.store.on_begin = cancel
    await result(bench.send(b"later", delay_ms=10_000))
    assert told == [[]]
    assert bench.broker.waiting_claims() == []


async def test_a_served_claim_cannot_be_cancelled(bench: Bench) -> None:
    told: list[object] = []
    served = start_waiting(bench, told)
    await bench.turn()
    await result(bench.send(b"1"))
    assert served.cancel() is False
    assert len(told) == 1


@pytest.mark.parametrize("limits", [Limits(waiters=2)])
async def test_past_the_limit_of_waiting_claims_one_is_answered_empty_at_once(bench: Bench) -> None:
    first, second = bench.waiting(), bench.waiting()
    await bench.turn()
    assert await elapsed(bench, bench.waiting()) == (0.0, [])
    await result(bench.send(b"1"))
    assert bodies(await first) == [b"1"]
    third = bench.waiting()
    await bench.turn()
    assert bench.broker.waiting_claims() == ["q", "q"]
    assert [await second, await third] == [[], []]


async def test_stop_ends_waiting_claims_and_serves_the_rest(bench: Bench) -> None:
    waiting = [bench.waiting(), bench.waiting()]
    await bench.turn()
    sent = result(bench.send(b"last", to="q"))
    late = bench.waiting()
    bench.broker.stop()
    assert [await elapsed(bench, claim) for claim in waiting] == [(0.0, [])] * 2
    assert (await sent)[0].stored
    assert bodies(await late) == [b"last"]
    assert await elapsed(bench, bench.waiting()) == (0.0, []), "after stop nothing waits any more"
    assert bench.broker.waiting_claims() == []


async def test_a_full_device_sends_waiting_claims_back_to_wait(bench: Bench) -> None:
    waiting = bench.waiting()
    await bench.turn()
    bench.store.room = False
    await results(bench.send(b"refused"))
    assert bench.broker.waiting_claims() == ["q"]
    bench.store.room = True
    await result(bench.send(b"fits"))
    assert await elapsed(bench, waiting) == (0.0, [b"fits"])
