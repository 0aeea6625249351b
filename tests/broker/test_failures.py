"""What fails, fails alone; nothing is applied twice; no caller is told of success before the unit has ended."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import QueueNotFound, StoreFull, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Outcome
from tests.broker.conftest import Bench, bodies, receipt, result, results
from tests.broker.stores import UnitRecord, failing, failing_on_body


class Unexpected(Exception):
    pass


async def test_an_unexpected_error_fails_only_its_own_operation(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.fill(b"there")
    bench.store.on_verb = failing_on_body(Unexpected("boom"), b"bad")
    good, bad, claimed, missing, later = await results(
        bench.send(b"good"),
        bench.send(b"fine", b"bad"),
        bench.broker.claim("q", 1),
        bench.send(b"lost", to="nowhere"),
        bench.send(b"later"),
    )
    assert isinstance(bad, Unexpected)
    assert isinstance(missing, QueueNotFound)
    assert [one.stored for one in good + later] == [True, True]
    assert bodies(claimed) == [b"there"]
    assert sorted(await bench.seen()) == [b"good", b"later", b"there"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_failing_function_fails_only_its_own_caller(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_unit: object, _now: int) -> None:
        raise Unexpected("boom")

    failed, sent = await results(bench.in_unit(fail), bench.send(b"good"))
    assert isinstance(failed, Unexpected)
    assert sent[0].stored
    assert await bench.seen() == [b"good"]


async def test_after_a_lost_unit_nothing_is_applied_twice(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    one, two = await result(bench.broker.claim("q", 2))
    bench.forget()
    bench.store.on_end = failing(Unexpected("at the end"), 1)
    sent, acked, again, claimed = await results(
        bench.send(b"new"),
        bench.broker.ack([receipt(one)]),
        bench.broker.ack([receipt(one), receipt(two)]),
        bench.broker.claim("q", 1),
    )
    assert (len(sent), acked, again) == (1, [True], [False, True])
    assert [(message.body, message.receives) for message in claimed] == [(b"3", 1)]
    assert sorted(await bench.seen()) == [b"3", b"new"]
    assert [row.outcome for row in await bench.ledger()] == [Outcome.PROCESSED, Outcome.PROCESSED]


@pytest.mark.parametrize("hook", ["on_begin", "on_end"])
async def test_an_unavailable_store_fails_everything_and_nothing_has_happened(bench: Bench, hook: str) -> None:
    await bench.fill(b"there")
    setattr(bench.store, hook, failing(StoreUnavailable("gone"), 1))
    told = await results(
        bench.send(b"new"),
        bench.broker.claim("q", 1),
        bench.broker.peek("q", 10),
        bench.broker.purge("q"),
    )
    assert [type(error) for error in told] == [StoreUnavailable] * 4
    assert len(bench.store.units) == 1, "nothing is tried again"
    assert await bench.seen() == [b"there"]
    assert [message.receives for message in await result(bench.broker.claim("q", 1))] == [1]


async def test_no_caller_is_told_of_success_before_the_unit_has_ended(bench: Bench) -> None:
    """Every listener looks at whether the unit it was served by has been kept."""
    await bench.fill(b"1", b"2")
    seen = []

    def told(_value: object) -> None:
        seen.append(bench.store.units[-1].kept)

    for pending in (
        bench.send(b"new"),
        bench.broker.claim("q", 1),
        bench.in_unit(lambda unit, now: unit.count("q", now, 10)),
    ):
        pending.listen(told, pytest.fail)
    await bench.turn()
    assert seen == [True, True, True]


async def test_a_unit_that_fails_at_its_end_tells_no_caller_of_success(bench: Bench) -> None:
    def fail(_unit: UnitRecord) -> None:
        raise Unexpected("the sync failed")

    bench.store.on_end = fail
    told = await results(bench.send(b"a"), bench.send(b"b"), bench.broker.claim("q", 1))
    assert [type(error) for error in told] == [Unexpected] * 3
    bench.store.on_end = lambda _unit: None
    assert await bench.seen() == []


async def test_a_full_device_fails_only_what_does_not_fit(bench: Bench) -> None:
    await bench.fill(b"there")
    bench.store.on_verb = failing_on_body(StoreFull("full"), b"large")
    small, large, claimed = await results(bench.send(b"small"), bench.send(b"large"), bench.broker.claim("q", 1))
    assert small[0].stored
    assert isinstance(large, StoreFull)
    assert bodies(claimed) == [b"there"]
    assert await bench.seen() == [b"small", b"there"]


async def test_without_room_sends_are_refused_and_everything_else_goes_on(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    [first] = await result(bench.broker.claim("q", 1))
    bench.store.room = False
    bench.forget()
    refused, acked, claimed, seen = await results(
        bench.send(b"new"),
        bench.broker.ack([receipt(first)]),
        bench.broker.claim("q", 1),
        bench.broker.peek("q", 10),
    )
    assert isinstance(refused, StoreFull)
    assert (acked, bodies(claimed), len(seen)) == ([True], [b"2"], 2)
    assert len(bench.store.units) == 1
    bench.store.room = True
    assert (await result(bench.send(b"new")))[0].stored


async def test_without_room_a_send_alone_takes_no_unit_that_writes(bench: Bench) -> None:
    bench.store.room = False
    [refused] = await results(bench.send(b"new"))
    assert isinstance(refused, StoreFull)
    assert not any(unit.write for unit in bench.store.units)


@pytest.mark.parametrize("limits", [Limits(step_rows=3)])
async def test_a_purge_is_cut_into_steps_and_counts_each_once(bench: Bench) -> None:
    await bench.fill(*(str(number).encode() for number in range(10)))
    assert await result(bench.broker.purge("q")) == 10
    assert [len(unit.asked("purge")) for unit in bench.store.units] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("limits", [Limits(step_rows=3)])
@pytest.mark.parametrize("failing_unit", [1, 2, 3, 5])
async def test_a_purge_that_shares_a_lost_unit_counts_each_message_once(bench: Bench, failing_unit: int) -> None:
    await bench.fill(*(str(number).encode() for number in range(10)))
    kept = []

    def keep_company(unit: UnitRecord) -> None:
        # So that there is always more than one operation, and the lost unit is served again one by one.
        if unit.number < 8:
            kept.extend(bench.in_unit(lambda _unit, _now: None) for _ in range(2))
        if unit.number == failing_unit:
            raise Unexpected("lost")

    bench.store.on_end = keep_company
    purged, _ = await results(bench.broker.purge("q"), bench.in_unit(lambda _unit, _now: None))
    assert purged == 10
    assert await bench.count() == 0
    assert [row.outcome for row in await bench.ledger()] == [Outcome.PURGED] * 10
    assert await results(*kept) == [None] * len(kept)


async def test_a_purge_of_more_than_a_step_of_messages(bench: Bench, limits: Limits) -> None:
    count = limits.step_rows + 1_000
    await bench.fill(*([b"x"] * count))
    bench.store.on_end = failing(Unexpected("lost"), 2)
    purged, sent = await results(bench.broker.purge("q"), bench.send(b"later"))
    assert isinstance(purged, Unexpected), "alone in its unit, it fails"
    assert sent[0].stored
    assert await bench.count() == count + 1 - limits.step_rows, "what the first step did stays done"


@pytest.mark.parametrize("limits", [Limits(step_rows=2)])
async def test_a_purge_leaves_what_is_sent_after_it_began(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4", b"5")
    purged, _ = await results(bench.broker.purge("q"), bench.send(b"later"))
    assert purged == 5
    assert await bench.seen() == [b"later"]


async def test_release_all_leaves_those_alone_who_claim_meanwhile(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    await result(bench.broker.claim("q", 2))
    released, taken = await results(bench.broker.release_all("q"), bench.broker.claim("q", 1))
    assert (released, bodies(taken)) == (2, [b"1"])
    assert (await result(bench.broker.count("q"))).claimed == 1


@pytest.mark.parametrize("limits", [Limits(step_rows=2)])
async def test_release_all_goes_in_steps(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4", b"5")
    await result(bench.broker.claim("q", 5))
    assert await result(bench.broker.release_all("q")) == 5
    assert len(await result(bench.broker.claim("q", 5))) == 5


@pytest.mark.parametrize("limits", [Limits(step_rows=2)])
async def test_a_queue_deleted_between_two_steps_ends_the_purge(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4", b"5")

    def delete(unit: UnitRecord) -> None:
        if unit.number == 2:
            bench.broker.delete_queue("q")

    bench.store.on_begin = delete
    [purged] = await results(bench.broker.purge("q"))
    assert isinstance(purged, QueueNotFound)


async def test_a_listener_that_raises_does_not_keep_others_from_being_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_value: object) -> None:
        raise Unexpected("in a listener")

    bench.send(b"1").listen(fail, fail)
    sent, claimed = await results(bench.send(b"2"), bench.broker.claim("q", 2))
    assert sent[0].stored
    assert bodies(claimed) == [b"1", b"2"]
    assert "in a listener" in caplog.text
