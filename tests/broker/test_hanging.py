"""A store that does not answer: callers are told in time, and nothing comes of it twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from penstock.broker.operations import Again
from penstock.errors import StoreSilent, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Backoff
from penstock.pending import Pending
from penstock.stores import Unit
from penstock.timings import Timings
from tests.broker.conftest import STORES, Bench, bodies, receipt, result, results
from tests.broker.stores import RecordedStore, UnitRecord

pytestmark = pytest.mark.asyncio(loop_factories=["shifted"])

# So long that no machine is too slow for it; the loop's clock is set forward.
TIMEOUT_S = 300.0
LONG_MS = 100 * 300_000


class Hanging:
    """A store whose units hang in their beginning, from `hang` until `go_on`."""

    def __init__(self, store: RecordedStore) -> None:
        self.store = store
        self.entered = threading.Event()
        self._may_go_on = threading.Event()
        self._is_lost = False

    def hang(self) -> None:
        self._is_lost = False
        self.entered.clear()
        self._may_go_on.clear()
        self.store.on_begin = self._wait

    def _wait(self, _unit: UnitRecord) -> None:
        self.entered.set()
        assert self._may_go_on.wait(60)
        if self._is_lost:
            raise StoreUnavailable("the connection was lost")

    def lose(self) -> None:
        """What hangs fails, because its connection is given up, and so does what follows."""
        self._is_lost = True
        self._may_go_on.set()

    def go_on(self) -> None:
        self.store.on_begin = lambda _unit: None
        self._may_go_on.set()


@pytest.fixture
def store(tmp_path) -> Iterator[RecordedStore]:
    recorded = RecordedStore(STORES["sqlite"](tmp_path, Limits()), inline=False)
    yield recorded
    recorded.close()
    assert recorded.overlaps == 0


@pytest.fixture
def timings() -> Timings:
    return Timings(store_timeout_s=TIMEOUT_S)


@pytest.fixture
def hanging(store: RecordedStore) -> Iterator[Hanging]:
    hanging = Hanging(store)
    yield hanging
    hanging.go_on()


async def entered(bench: Bench, hanging: Hanging) -> None:
    await bench.loop.run_in_executor(None, hanging.entered.wait, 60)


async def time_passes(bench: Bench, hanging: Hanging) -> None:
    """Until a caller is refused at once."""
    await bench.loop.run_in_executor(None, hanging.entered.wait, 60)
    while not told(bench.in_unit(lambda _unit, _now: None)):
        bench.loop.ahead_s += TIMEOUT_S / 2
        await asyncio.sleep(0.01)


async def everything_due_is_done(bench: Bench) -> None:
    """What has a timer within the store's time: ours is the last of them to ring."""
    rung = asyncio.Event()
    bench.loop.call_later(TIMEOUT_S, rung.set)
    bench.loop.ahead_s += TIMEOUT_S
    await rung.wait()


async def back(bench: Bench) -> None:
    """Until the store serves again."""
    while isinstance((await results(bench.in_unit(lambda _unit, _now: None)))[0], StoreUnavailable):
        await asyncio.sleep(0.01)


def told(pending: Pending) -> list[object]:
    """What a caller is told, each time it is."""
    words: list[object] = []
    pending.listen(words.append, words.append)
    return words


async def test_callers_are_told_in_time_and_once(bench: Bench, hanging: Hanging) -> None:
    hanging.hang()
    sent = told(bench.send(b"at the store"))
    await entered(bench, hanging)
    queued = told(bench.send(b"waits for a lane"))
    looking = told(bench.broker.list_queues(0, 1))
    await time_passes(bench, hanging)
    hanging.go_on()
    await back(bench)
    for words in (sent, queued, looking):
        assert [type(error) for error in words] == [StoreSilent]
    # What was on its way has happened; what was not, has not.
    assert await bench.seen() == [b"at the store"]


async def test_while_it_hangs_nothing_is_gathered(
    bench: Bench, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    hanging.hang()
    first = told(bench.send(b"1"))
    await time_passes(bench, hanging)
    bench.forget()
    refused = [told(bench.send(b"%d" % number)) for number in range(100)]
    assert all(refused)
    assert bench.store.units == []
    hanging.go_on()
    await back(bench)
    assert b"99" not in await bench.seen()
    assert first
    said = [record.getMessage() for record in caplog.records if record.name.startswith("penstock.broker")]
    assert [word.partition(" for ")[0] for word in said] == ["the store has not answered", "the store answers again"]


async def test_a_connection_that_is_lost_is_not_an_answer(bench: Bench, hanging: Hanging) -> None:
    """One caller at a time tries whether the store answers; the others are refused at once."""
    hanging.hang()
    bench.send(b"lost")
    await time_passes(bench, hanging)
    hanging.lose()
    commit = bench.broker._commit
    while commit._arrived or not commit._lanes.is_free():
        await asyncio.sleep(0.01)
    hanging.hang()
    tries = told(bench.send(b"tries"))
    refused = told(bench.send(b"refused"))
    assert (tries, [type(error) for error in refused]) == ([], [StoreSilent])
    hanging.go_on()
    await back(bench)
    assert (len(tries), isinstance(tries[0], StoreUnavailable)) == (1, False)
    assert await bench.seen() == [b"tries"]


@pytest.mark.parametrize("backoff", [None, Backoff(3_600_000, 3_600_000)])
async def test_what_was_claimed_too_late_is_released(bench: Bench, hanging: Hanging, backoff: Backoff | None) -> None:
    """At once, whatever the queue's backoff says: no worker has tried it."""
    await bench.create("late", backoff=backoff)
    await bench.fill(b"1", b"2", to="late")
    hanging.hang()
    late = told(bench.broker.claim("late", 2, 600_000))
    await time_passes(bench, hanging)
    assert [type(error) for error in late] == [StoreSilent]
    hanging.go_on()
    await back(bench)
    assert bodies(await result(bench.broker.claim("late", 2, wait_ms=60_000))) == [b"1", b"2"]


async def test_what_was_claimed_too_late_with_an_attempt_waits_for_the_one_who_asks_again(
    bench: Bench, hanging: Hanging
) -> None:
    await bench.fill(b"1", b"2")
    hanging.hang()
    late = told(bench.broker.claim("q", 1, 600_000, 0, "t"))
    await time_passes(bench, hanging)
    assert [type(error) for error in late] == [StoreSilent]
    hanging.go_on()
    await back(bench)
    [again] = await result(bench.broker.claim("q", 1, 600_000, 0, "t"))
    assert (again.body, again.claim) == (b"1", 1)
    await bench.turn()
    assert await result(bench.broker.ack([receipt(again)])) == [True]
    assert (await result(bench.broker.count("q"))).claimed == 0


async def test_a_claim_that_waits_already_goes_on_waiting(bench: Bench, hanging: Hanging) -> None:
    waiting = bench.waiting(wait_ms=LONG_MS)
    await bench.turn()
    hanging.hang()
    late = told(bench.send(b"late"))
    await time_passes(bench, hanging)
    assert late
    assert not waiting.done()
    hanging.go_on()
    assert bodies(await waiting) == [b"late"]


async def test_a_claim_whose_time_is_over_while_the_store_hangs_is_told(bench: Bench, hanging: Hanging) -> None:
    """The store could not say that there is no message."""
    waiting = bench.waiting(wait_ms=LONG_MS)
    await bench.turn()
    hanging.hang()
    bench.in_unit(lambda _unit, _now: None)
    await time_passes(bench, hanging)
    assert not waiting.done()
    bench.loop.ahead_s += LONG_MS / 1000
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_a_claim_whose_time_is_over_while_it_is_at_the_store_is_told(bench: Bench, hanging: Hanging) -> None:
    waiting = bench.waiting(wait_ms=60_000)
    await bench.turn()
    hanging.hang()
    bench.send(b"late")
    await time_passes(bench, hanging)
    await time_passes(bench, hanging)
    with pytest.raises(StoreUnavailable):
        await waiting
    hanging.go_on()
    await back(bench)
    assert bodies(await result(bench.broker.claim("q", 1, wait_ms=60_000))) == [b"late"]


async def test_housekeeping_waits_and_is_not_begun_again(bench: Bench, hanging: Hanging) -> None:
    hanging.hang()
    patient = told(bench.in_unit(lambda _unit, _now: "done", patient=True))
    await time_passes(bench, hanging)
    also = told(bench.in_unit(lambda _unit, _now: "done too", patient=True))
    await everything_due_is_done(bench)
    assert (patient, also) == ([], [])
    hanging.go_on()
    await back(bench)
    assert (patient, also) == (["done"], ["done too"])


async def test_long_work_may_take_longer_in_all(bench: Bench) -> None:
    """Each of its steps has its own time."""

    class Countdown:
        writes = True

        def __init__(self, left: int, total: int = 0) -> None:
            self.left, self.total = left, total

        def apply(self, _unit: Unit, _now: int, _limits: Limits) -> int | Again:
            bench.loop.ahead_s += TIMEOUT_S / 2
            return Again(Countdown(self.left - 1, self.total + self.left)) if self.left else self.total

    assert await result(bench.broker._commit.work(Countdown(10))) == 55


async def test_an_end_does_not_wait_for_it(bench: Bench, hanging: Hanging) -> None:
    hanging.hang()
    bench.send(b"x")
    await entered(bench, hanging)
    bench.broker.stop()
    assert await bench.broker.finish(0.1) == 1
    hanging.go_on()
    while await bench.broker.finish(0.1):
        pass


async def test_an_end_waits_for_what_is_under_way_and_for_what_was_accepted(bench: Bench, hanging: Hanging) -> None:
    hanging.hang()
    under_way = told(bench.send(b"under way"))
    await entered(bench, hanging)
    not_begun = told(bench.send(b"not begun"))
    bench.broker.stop()
    bench.loop.call_later(0.01, hanging.go_on)
    assert await bench.broker.finish(60) == 0
    assert under_way
    assert not_begun
