"""Figures of queues: a broker counts, keeps what it has counted, and shows all queues at a glance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from penstock.broker import LocalBroker, figures, keeping
from penstock.broker.counting import Counting
from penstock.broker.figures import KeepFigures, Seen
from penstock.broker.overview import KnownQueues
from penstock.errors import QueueNotFound, StoreUnavailable
from penstock.limits import Limits
from penstock.model import (
    Draft,
    History,
    LedgerMode,
    Overview,
    OverviewQuery,
    OverviewRow,
    OverviewSort,
    Redrive,
    Settings,
    ShipmentRef,
    Span,
    Totals,
)
from penstock.stores import MemoryStore
from penstock.timings import Timings
from tests.broker.conftest import Bench, receipt, result, results
from tests.broker.stores import RecordedStore, UnitRecord

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])

ROUND_S = Timings().figures_s
MINUTE_S = 60.0


@contextmanager
def failing(store: RecordedStore, error: Exception) -> Iterator[None]:
    """Every unit that begins meanwhile."""

    def fail(_unit: UnitRecord) -> None:
        raise error

    before, store.on_begin = store.on_begin, fail
    yield
    store.on_begin = before


async def overview(bench: Bench, rules: list[str] | None = None, **query: Any) -> Overview:
    return await result(bench.broker.overview(OverviewQuery(**query), rules))


async def row(bench: Bench, name: str = "q") -> OverviewRow:
    [found] = [one for one in (await overview(bench)).rows if one.name == name]
    return found


async def history(bench: Bench, span: Span = Span.HOUR, queue: str = "q") -> History:
    return await result(bench.broker.history(queue, span))


def names(overview: Overview) -> list[str]:
    return [one.name for one in overview.rows]


async def work(bench: Bench) -> None:
    """Three messages are sent, two of them are claimed, and one of those is acked."""
    await bench.fill(b"1", b"2", b"3")
    [first, _] = await result(bench.broker.claim("q", 2))
    await result(bench.broker.ack([receipt(first)]))


async def test_what_has_happened_is_shown_at_once(bench: Bench) -> None:
    await work(bench)
    found = await row(bench)
    assert (found.ready, found.delayed, found.claimed, found.total) == (1, 0, 1, 2)
    assert found.totals == Totals(sent=3, claimed=2, acked=1)
    await bench.fill(b"4")
    await asyncio.sleep(1.5)
    found = await row(bench)
    assert (found.ready, found.totals.sent) == (2, 4)
    assert found.oldest_ready_ms == bench.now() - found.oldest_ready_sent_at


async def test_totals_outlive_the_process_and_those_of_several_add_up(bench: Bench, timings: Timings) -> None:
    await work(bench)
    bench.broker.start()
    bench.broker.stop()
    await bench.broker.finish(5)
    others = [LocalBroker(bench.store, bench.now, bench.loop, timings) for _ in range(2)]
    for broker in others:
        broker.start()
        await result(broker.send("q", [Draft(b"x")]))
    await asyncio.sleep(ROUND_S * 2 + 1)
    for broker in others:
        [found] = (await result(broker.overview(OverviewQuery()))).rows
        assert found.totals == Totals(sent=5, claimed=2, acked=1)
        assert sum(found.sent_by_minute) == 5
        assert sum((await result(broker.history("q", Span.DAY))).sent) == 5
        broker.stop()


async def test_kept_totals_are_not_taken_back_by_a_process_that_is_killed(bench: Bench, timings: Timings) -> None:
    bench.broker.start()
    await bench.turn()
    await bench.fill(b"1", b"2")
    await asyncio.sleep(ROUND_S + 1)
    await bench.fill(b"3")
    assert (await row(bench)).totals.sent == 3
    [before] = (await overview(bench, kept=True)).rows
    successor = LocalBroker(bench.store, bench.now, bench.loop, timings)
    [after] = (await result(successor.overview(OverviewQuery(kept=True)))).rows
    assert (before.totals.sent, after.totals.sent) == (2, 2)
    await asyncio.sleep(ROUND_S + 1)
    [later] = (await overview(bench, kept=True)).rows
    assert later.totals.sent == 3
    bench.broker.stop()


async def test_a_look_that_overtakes_the_keeping_counts_nothing_twice(bench: Bench) -> None:
    """On a database, another connection may see what was kept before it is told here."""
    await bench.fill(b"1", b"2", b"3")
    with bench.store.unit(write=False) as unit:
        [queue] = unit.list_queues(0, 10).queues
    known = KnownQueues(Counting())
    known.take_in([Seen("q", queue)], 0.0)
    known.take_in([Seen("q", queue, totals=Totals(sent=3))], 1.0)
    with bench.store.unit(write=True) as unit:
        kept = KeepFigures({queue.number: [3] + [0] * 9}).apply(unit, bench.now(), Limits())
    known.note_kept(kept, 1.0)
    [found] = known.overview(OverviewQuery(), None, bench.now()).rows
    assert found.totals == Totals(sent=3)


async def test_what_could_not_be_kept_is_kept_later(bench: Bench) -> None:
    bench.broker.start()
    await bench.turn()
    await bench.fill(b"1")
    with failing(bench.store, StoreUnavailable("away")):
        await asyncio.sleep(ROUND_S * 3)
    await bench.fill(b"2")
    await asyncio.sleep(ROUND_S + 1)
    with bench.store.unit(write=False) as unit:
        [queue] = unit.list_queues(0, 10).queues
        assert unit.figures.totals([queue.number])[queue.number].sent == 2
    assert (await row(bench)).totals.sent == 2
    bench.broker.stop()


async def test_an_idle_broker_writes_nothing(bench: Bench) -> None:
    bench.broker.start()
    await bench.fill(b"1")
    await asyncio.sleep(2 * MINUTE_S)

    def written() -> int:
        with bench.store.unit(write=False) as unit:
            [queue] = unit.list_queues(0, 10).queues
            return len(unit.figures.history(queue.number, Span.HOUR, 0))

    before = written()
    await asyncio.sleep(5 * MINUTE_S)
    assert written() == before
    await asyncio.sleep(10 * MINUTE_S)
    assert written() == before + 1
    bench.broker.stop()


async def test_rates_rise_and_fall(bench: Bench) -> None:
    bench.broker.start()
    await bench.turn()
    for _ in range(30):
        await bench.fill(b"1", b"2")
        await asyncio.sleep(1)
    found = await row(bench)
    assert 1.5 < found.sends_per_second < 2.5
    assert found.acks_per_second == 0
    assert (await overview(bench)).sums.sends_per_second == found.sends_per_second
    await asyncio.sleep(MINUTE_S)
    assert (await row(bench)).sends_per_second == 0
    bench.broker.stop()


async def test_the_spark_line_has_sixty_minutes(bench: Bench) -> None:
    bench.broker.start()
    await bench.fill(b"1", b"2")
    await asyncio.sleep(2 * MINUTE_S)
    await bench.fill(b"3")
    await asyncio.sleep(ROUND_S + 1)
    found = await row(bench)
    assert len(found.sent_by_minute) == len(found.acked_by_minute) == 60
    assert [count for count in found.sent_by_minute if count] == [2, 1]
    assert (found.sent_by_minute[-1], found.sent_by_minute[-3]) == (1, 2)
    await asyncio.sleep(58 * MINUTE_S)
    assert [count for count in (await row(bench)).sent_by_minute if count] == [1]
    await asyncio.sleep(2 * MINUTE_S)
    assert not any((await row(bench)).sent_by_minute)
    assert (await overview(bench, sparks=False)).rows[0].sent_by_minute == []
    bench.broker.stop()


async def test_the_history_has_a_number_for_every_bucket(bench: Bench) -> None:
    bench.broker.start()
    await work(bench)
    await asyncio.sleep(3 * MINUTE_S)
    for span, width in ((Span.HOUR, 60_000), (Span.DAY, 600_000)):
        found = await history(bench, span)
        buckets = len(found.since)
        assert buckets == {Span.HOUR: 60, Span.DAY: 144}[span]
        assert found.since == [found.since[-1] - width * back for back in reversed(range(buckets))]
        assert bench.now() - width < found.since[-1] <= bench.now()
        columns = [getattr(found, name) for name in History.__struct_fields__[3:]]
        assert {len(column) for column in columns} == {buckets}
        assert (sum(found.sent), sum(found.claims), sum(found.acked)) == (3, 2, 1)
        assert (found.ready[0], found.ready[-1]) == (0, 2)
    bench.broker.stop()


async def test_depths_hold_on_until_they_change(bench: Bench) -> None:
    bench.broker.start()
    await bench.fill(b"1", b"2")
    await asyncio.sleep(30 * MINUTE_S)
    found = await history(bench)
    assert set(found.ready[-29:]) == {2}
    assert found.ready[0] == 0
    ages = [age for age in found.oldest_ready_ms[-28:] if age is not None]
    assert len(ages) == 28
    assert ages == sorted(ages)
    await result(bench.broker.purge("q"))
    await asyncio.sleep(5 * MINUTE_S)
    found = await history(bench)
    assert (found.ready[-1], found.ready[-3], found.ready[-20]) == (0, 0, 2)
    assert found.oldest_ready_ms[-1] is None
    bench.broker.stop()


async def test_where_no_server_looked_nothing_is_known(bench: Bench, timings: Timings) -> None:
    bench.broker.start()
    await bench.fill(b"1")
    await asyncio.sleep(2 * MINUTE_S)
    bench.broker.stop()
    await bench.broker.finish(1)
    await asyncio.sleep(30 * MINUTE_S)
    other = LocalBroker(bench.store, bench.now, bench.loop, timings)
    found = await result(other.history("q", Span.HOUR))
    assert (found.ready[-1], found.ready[-3], found.ready[-30]) == (1, None, 1)


async def test_a_queue_that_does_not_exist_has_no_history_and_no_workers(bench: Bench) -> None:
    with pytest.raises(QueueNotFound):
        await history(bench, queue="nowhere")
    with pytest.raises(QueueNotFound):
        await result(bench.broker.workers_of("nowhere"))


async def test_depths_of_more_queues_than_one_minute_takes_are_kept_in_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_SAMPLED", 1)
    bench.broker.start()
    for name in "abc":
        await bench.create(name)
    for minute in range(4):
        for name in "abc":
            await bench.fill(b"%d" % minute, to=name)
        await asyncio.sleep(MINUTE_S)
    with bench.store.unit(write=False) as unit:
        for name in "abc":
            queue = unit.find_queue(name)
            assert queue is not None
            buckets = unit.figures.history(queue.number, Span.HOUR, 0)
            assert any(bucket.depths is not None for bucket in buckets), name
    bench.broker.stop()


async def test_figures_are_read_in_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_READ_TOGETHER", 2)
    bench.broker.start()
    await bench.turn()
    for name in ("a", "b", "c"):
        await bench.create(name)
        await bench.fill(b"1", to=name)
    await asyncio.sleep(ROUND_S * 3)
    other = LocalBroker(bench.store, bench.now, bench.loop)
    found = await result(other.overview(OverviewQuery(sort=OverviewSort.NAME)))
    assert [sum(one.sent_by_minute) for one in found.rows] == [1, 1, 1, 0]
    bench.broker.stop()


async def test_queues_that_come_and_go_leave_nothing_in_memory(bench: Bench) -> None:
    bench.broker.start()
    await bench.turn()
    kept = bench.broker._keeping
    for number in range(10):
        await bench.create(f"short-{number}", ledger=LedgerMode.OFF)
        await bench.fill(b"1", to=f"short-{number}")
        await result(bench.broker.delete_queue(f"short-{number}"))
    await asyncio.sleep(5 * MINUTE_S)
    assert (kept._changed, kept._due, kept._gone, kept._unknown, kept._moving) == ({}, {}, set(), set(), set())
    assert bench.broker._counting.unkept() == {}
    bench.broker.stop()


async def test_a_queue_that_changes_while_it_is_looked_at_is_looked_at_again(bench: Bench) -> None:
    await overview(bench)
    pausing = bench.broker.pause_queue("q")
    shown = bench.broker.overview()
    resumed = bench.broker.resume_queue("q")
    await results(pausing, shown, resumed)
    assert (await row(bench)).paused_at is None


# Pages


async def three(bench: Bench) -> None:
    """The queues a, b and q: of every column, each has more or less than the others."""
    await bench.create("a")
    await bench.create("B", redrive=Redrive(1, "a"))
    await bench.fill(b"1", to="B")
    await asyncio.sleep(1)
    await bench.fill(b"1", b"2", to="a")
    await asyncio.sleep(1)
    await bench.fill(b"1", b"2", b"3", b"4", to="q")
    await result(bench.broker.claim("q", 3))
    await bench.fill(b"d", to="a", delay_ms=60_000)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (OverviewSort.NAME, ["B", "a", "q"]),
        (OverviewSort.READY, ["a", "B", "q"]),
        (OverviewSort.DELAYED, ["a", "B", "q"]),
        (OverviewSort.CLAIMED, ["q", "B", "a"]),
        (OverviewSort.TOTAL, ["q", "a", "B"]),
        (OverviewSort.OLDEST, ["B", "a", "q"]),
        (OverviewSort.PAUSED, ["q", "B", "a"]),
    ],
)
async def test_queues_stand_by_any_column(bench: Bench, sort: OverviewSort, expected: list[str]) -> None:
    await three(bench)
    await result(bench.broker.pause_queue("q"))
    found = await overview(bench, sort=sort)
    assert names(found) == expected
    turned = await overview(bench, sort=sort, descending=sort is OverviewSort.NAME)
    if sort in (OverviewSort.NAME, OverviewSort.READY, OverviewSort.TOTAL, OverviewSort.OLDEST):
        ties = sort is OverviewSort.READY
        assert names(turned) == (["B", "q", "a"] if ties else expected[::-1])
    assert (await row(bench, "q")).paused_at is not None
    assert found.sums.paused == 1


async def test_queues_stand_by_rates_and_dead_letters(bench: Bench) -> None:
    await three(bench)
    bench.broker.start()
    await bench.turn()
    [message] = await result(bench.broker.claim("B", 1, 1_000))
    for _ in range(3):
        await asyncio.sleep(ROUND_S)
        await bench.fill(b"x", to="a")
        [claimed] = await result(bench.broker.claim("q", 1))
        await result(bench.broker.ack([receipt(claimed)]))
        await bench.fill(b"x")
    await asyncio.sleep(ROUND_S)
    await result(bench.broker.claim("B", 1))
    assert names(await overview(bench, sort=OverviewSort.ACKS))[0] == "q"
    assert names(await overview(bench, sort=OverviewSort.SENDS, descending=False))[0] == "B"
    dead = await overview(bench, sort=OverviewSort.DEAD_LETTERS)
    assert (names(dead)[0], dead.rows[0].totals.dead_lettered, dead.sums.dead_lettered) == ("B", 1, 1)
    assert message.queue == "B"
    bench.broker.stop()


async def test_pages_and_parts_of_names(bench: Bench) -> None:
    await three(bench)
    assert names(await overview(bench, sort=OverviewSort.NAME, offset=1, limit=1)) == ["a"]
    found = await overview(bench, contains="b")
    assert (names(found), found.total, found.sums.total) == (["B"], 1, 1)
    assert (await overview(bench, contains="zzz")).rows == []
    takers = await overview(bench, dead_letter_queues=True)
    assert [(one.name, one.takes_dead_letters) for one in takers.rows] == [("a", True)]
    past = await overview(bench, offset=10)
    assert (past.rows, past.total) == ([], 3)


async def test_only_queues_that_the_key_may_see_are_shown_and_counted(bench: Bench) -> None:
    await three(bench)
    found = await overview(bench, rules=["queue|get_status|q", "queue|poll|a"])
    assert (names(found), found.total, found.sums.total) == (["q"], 1, 4)
    assert (await overview(bench, rules=[])).total == 0


async def test_queues_come_and_go(bench: Bench) -> None:
    assert names(await overview(bench)) == ["q"]
    await bench.create("new")
    assert set(names(await overview(bench))) == {"new", "q"}
    await result(bench.broker.delete_queue("q"))
    assert names(await overview(bench)) == ["new"]
    await bench.create("q")
    await bench.fill(b"1")
    assert (await row(bench)).totals == Totals(sent=1)


async def test_queues_that_others_make_and_delete_are_found(bench: Bench) -> None:
    bench.broker.start()
    await bench.turn()
    with bench.store.unit() as unit:
        unit.create_queue("idle", Settings(), bench.now())
        unit.delete_queue("q", bench.now())
    await result(bench.broker.send("sent", [Draft(b"1")], Settings()))
    await asyncio.sleep(ROUND_S * 4)
    assert set(names(await overview(bench, limit=1_000))) == {"idle", "sent"}
    bench.broker.stop()


async def test_a_store_that_is_away_is_told_and_looked_at_again(bench: Bench) -> None:
    with failing(bench.store, StoreUnavailable("away")), pytest.raises(StoreUnavailable):
        await overview(bench)
    assert names(await overview(bench)) == ["q"]


async def test_ten_thousand_queues_are_one_page(timings: Timings) -> None:
    store = RecordedStore(MemoryStore(Random(7)))
    bench = Bench(store, timings)
    with store.unit() as unit:
        for number in range(10_000):
            unit.create_queue(f"q{number:05}", Settings(), bench.now())
    found = await overview(bench, sort=OverviewSort.NAME, offset=5_000, limit=2)
    assert (names(found), found.total) == (["q05000", "q05001"], 10_000)
    assert len((await overview(bench, limit=10_000, sparks=False)).rows) == 10_000


# Who works on a queue, and how the store does


async def test_who_works_on_a_queue(bench: Bench) -> None:
    waiting = [bench.waiting(wait_ms=10_000) for _ in range(2)]
    await bench.turn()
    found = await result(bench.broker.workers_of("q"))
    assert (found.waiting_claims, found.consumers, found.shipments) == (2, [], [])
    await asyncio.sleep(11)
    await asyncio.gather(*waiting)
    await bench.fill(b"1")
    await result(bench.broker.shipments.claim(ShipmentRef("q", "c", 1), 1, 60_000))
    found = await result(bench.broker.workers_of("q"))
    assert (found.waiting_claims, [one.consumer for one in found.shipments]) == (0, ["c"])
    assert (await result(bench.broker.figures())).open_shipments == 1


async def test_how_the_store_does(bench: Bench) -> None:
    await work(bench)
    for error in (StoreUnavailable("away"), RuntimeError("odd")):
        with failing(bench.store, error):
            [told] = await results(bench.send(b"4"))
        assert told is error
    found = await result(bench.broker.figures())
    assert found.errors == {"StoreUnavailable": 1, "other": 1}
    assert found.units_written >= 4
    assert found.unit_seconds >= found.commit_seconds >= found.sync_seconds
    assert found.commit_seconds > 0
    assert found.commit_p99_ms >= found.commit_median_ms > 0
    assert (found.units, found.operations) == (bench.broker.units(), bench.broker.operations())
    assert found.waiting_claims == 0
