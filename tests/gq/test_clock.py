"""A clock that jumps while consumers are at work."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.gq.timings import GqTimings
from tests.gq.conftest import PATIENCE_S, at_work, consumers, dead_consumer, until
from tests.gq.workers import Worker
from tests.lacking import not_installed

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
HOUR_S = 3600


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_no_consumer_is_declared_dead_and_nothing_comes_twice(opened, clock, caplog, jump_s, delivery):
    """Two consumers with a message each at hand, while the clock that they share jumps."""
    # A unit that is slow to begin must not look like a jump.
    timings = GqTimings(jump_ms=600_000)
    client, other = opened(timings=timings), opened(timings=timings)
    began, may_end, seen = threading.Semaphore(0), threading.Event(), []

    def slow(payload):
        seen.append(payload)
        began.release()
        may_end.wait(PATIENCE_S)

    times = {"batch": 1, "delivery": delivery, "heartbeat_s": 0.1, "dead_after_s": 60}
    with at_work(client.consumer(**times), slow) as first, at_work(other.consumer(**times), slow) as second:
        pushed = [client.producer().push(str(number)) for number in range(2)]
        for _ in range(2):
            assert began.acquire(timeout=PATIENCE_S)
        clock.advance(jump_s)
        until(lambda: caplog.text.count("the clock has jumped") == 2)
        may_end.set()
        until(lambda: [client.status(one) for one in pushed] == ["processed"] * 2)
        assert sorted(consumers(client)) == sorted([first.id, second.id])
    assert sorted(seen) == [b"0", b"1"]
    assert first.lost == second.lost == 0


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
def test_the_dead_are_still_found_after_a_jump(client, clock, jump_s):
    pushed = client.producer().push(b"x")
    seen = []
    dead_consumer(client, dead_after_s=5)
    with at_work(client.consumer(heartbeat_s=0.05, dead_after_s=0.5), seen.append) as consumer:
        until(lambda: consumer.id in consumers(client))
        clock.advance(jump_s)
        until(lambda: client.status(pushed) == "processed")
    assert seen == [b"x"]


def test_a_jump_ends_deadlines_and_no_other_claims(client, clock):
    with client.producer() as producer:
        producer.push(b"hour", clock() / 1000 + 1800)
        producer.push(b"never")
    [first, _] = dead_consumer(client)
    clock.advance(HOUR_S)
    [again] = dead_consumer(client)
    assert (again.id, again.receives) == (first.id, 2)


@pytest.mark.parametrize("jump", ["+3600", "-3600"])
def test_a_real_process_whose_clock_jumps(client, url, tmp_path, jump):
    """It goes on with its batch, whatever others think of it; with a database's clock it does not even notice."""
    if not FAKETIME.exists():
        not_installed("libfaketime")
    shift = tmp_path / "shift"
    shift.write_text("+0\n")
    environ = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with client.producer(batch=2) as producer:
        pushed = [producer.push(b"nap 1"), producer.push(b"2")]
    with Worker(url, environ, heartbeat_s=0.1, dead_after_s=2) as worker:
        assert worker.line() == "begin nap 1"
        jumped = tmp_path / "jumped"
        jumped.write_text(f"{jump}\n")
        jumped.rename(shift)  # it is read all the time, and must never be half written
        assert [worker.line() for _ in range(3)] == ["end nap 1", "begin 2", "end 2"]
        until(lambda: [client.status(one) for one in pushed] == ["processed"] * 2)
