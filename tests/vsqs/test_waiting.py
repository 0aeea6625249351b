"""Callers that wait: for a message, for the end of a claim, for room. Real time, because real threads."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.inotify import Inotify
from penstock.vsqs import Queue, QueueClosed, QueueFull, disk, view, watch
from tests.lacking import lacking
from tests.waiting import wait_until

# Long enough for a machine that has other things to do.
SOON = 30
HOLD = 600


@pytest.fixture
def clock() -> Callable[[], int]:
    return time.time_ns


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def wait_for_sleepers(queue: Queue, count: int) -> None:
    """Until so many threads of an instance sleep at once."""
    wait_until(lambda: queue._waiting._sleepers == count, every_s=0.001)


def test_zero_looks_exactly_once(queue, listings):
    assert queue.receive(timeout=0) == (None, None)
    assert len(listings) == 1
    queue.publish(b"x")
    assert queue.receive(timeout=0)[1] == b"x"


def test_a_wait_ends_in_time(queue):
    started = time.monotonic()
    assert queue.receive(timeout=0.2) == (None, None)
    assert 0.2 <= time.monotonic() - started < SOON


def test_a_message_wakes_a_consumer_of_another_instance(opened, pool):
    consumer, publisher = opened(), opened()
    waiting = pool.submit(consumer.receive, HOLD)
    wait_for_sleepers(consumer, 1)
    id_ = publisher.publish(b"x")
    assert waiting.result(SOON) == (id_, b"x")


def test_sleep_is_sleep(path, pool, monkeypatch):
    """With a watch, no thread looks while nothing happens."""
    looks = []
    refresh = view.View.refresh
    monkeypatch.setattr(view.View, "refresh", lambda self, **how: (looks.append(1), refresh(self, **how))[1])
    with Queue(path) as queue:
        if queue.size() == 0 and queue._view.descriptor is None:
            lacking("there is no inotify")
        looks.clear()
        assert queue.receive(timeout=0.5) == (None, None)
        assert len(looks) <= 3


def test_polling_is_bounded(path, listings):
    with Queue(path, watch=False) as queue:
        queue.receive(timeout=0.5)
    assert len(listings) <= 13


def test_every_thread_gets_its_message(queue, opened, pool):
    waiting = [pool.submit(queue.receive, HOLD) for _ in range(6)]
    wait_for_sleepers(queue, 6)
    publisher = opened()
    ids = {publisher.publish(b"x") for _ in range(6)}
    assert {each.result(SOON)[0] for each in waiting} == ids


def test_events_read_by_one_thread_wake_the_others(queue, opened, pool):
    """A thread that only publishes reads the events of another process; those that sleep must hear of them."""
    other = opened()
    for _ in range(20):
        waiting = [pool.submit(queue.receive, HOLD), pool.submit(queue.receive, HOLD)]
        wait_for_sleepers(queue, 2)
        other.publish(b"theirs")
        queue.publish(b"ours")
        bodies = {each.result(SOON)[1] for each in waiting}
        assert bodies == {b"theirs", b"ours"}


def test_the_end_of_a_claim_wakes_a_consumer(opened, pool):
    first, second = opened(), opened()
    id_ = first.publish(b"x")
    assert second.size() == 1
    started = time.monotonic()
    assert first.receive(0.3)[0] == id_
    # As a call that waits already, and as one that comes while the claim lasts.
    waiting = pool.submit(second.receive, 0.3, SOON)
    assert waiting.result(SOON) == (id_, b"x")
    assert time.monotonic() - started >= 0.29
    assert first.receive(HOLD, timeout=SOON) == (id_, b"x")
    assert time.monotonic() - started >= 0.59


def test_close_wakes_and_ends_everybody(queue, pool):
    waiting = [pool.submit(queue.receive, HOLD) for _ in range(4)]
    wait_for_sleepers(queue, 4)
    queue.close()
    for each in waiting:
        with pytest.raises(QueueClosed):
            each.result(SOON)
    for call in (queue.receive, queue.size, lambda: queue.publish(b""), lambda: queue.delete("5")):
        with pytest.raises(QueueClosed):
            call()
    queue.close()


def test_descriptors_are_given_back(path, watch, pool):
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # what earlier tests have left must not be given back in between
    before = count()
    for _ in range(5):
        with Queue(path, watch=watch) as queue:
            queue.publish(b"x")
            assert queue.receive(timeout=0.01)[1] == b"x"
            assert queue.receive(timeout=0.01) == (None, None)
            assert queue.delete(queue.publish(b"y"))
    Queue(path, watch=watch).publish(b"never closed")
    assert count() == before


# Capacity


def test_a_full_queue_refuses_when_the_time_is_up(opened):
    queue = opened(2)
    ids = [queue.publish(b"x") for _ in range(2)]
    for timeout in (0, 0.1):
        with pytest.raises(QueueFull):
            queue.publish(b"x", timeout=timeout)
    # A claimed message still takes its place; a deleted one does not.
    assert queue.receive(timeout=0)[0] == ids[0]
    with pytest.raises(QueueFull):
        queue.publish(b"x", timeout=0)
    queue.delete(ids[0])
    assert queue.publish(b"x", timeout=0)
    assert queue.size() == 2


def test_room_wakes_a_publisher(opened, pool):
    full, other = opened(1), opened()
    id_ = full.publish(b"x")
    waiting = pool.submit(full.publish, b"y")
    wait_for_sleepers(full, 1)
    assert not waiting.done()
    other.delete(id_)
    id_ = waiting.result(SOON)
    assert other.receive(timeout=0) == (id_, b"y")


def test_threads_of_one_instance_never_exceed_the_capacity(opened, pool):
    queue = opened(5)
    results = [pool.submit(queue.publish, b"x", 0.3) for _ in range(16)]
    refused = [result for result in results if isinstance(result.exception(SOON), QueueFull)]
    assert len(refused) == 11
    assert queue.size() == 5


# Cost


def test_the_directory_is_listed_once_however_much_is_done(path, listings):
    with Queue(path, capacity=1000) as queue, Queue(path, precision="us") as other:
        if queue.size() == 0 and queue._view.descriptor is None:
            lacking("there is no inotify")
        for _ in range(50):
            queue.publish(b"x")
            other.publish(b"x")
        for each in (queue, other) * 50:
            id_, _ = each.receive(timeout=0)
            assert (queue if each is other else other).delete(id_)
        assert queue.size() == other.size() == 0
    assert len(listings) == 2


def test_lost_events_are_made_up_for_by_a_listing(path, listings):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        lacking("the kernel's queue of events is too long to fill", f"{limit} of them")
    with Queue(path) as queue, Queue(path) as other:
        assert queue.size() == other.size() == 0
        body = path / "5"
        for _ in range(limit // 4 + 100):
            # Three events each, at least.
            body.write_bytes(b"restless")
            body.rename(path / "5.99999999999999")
            (path / "5.99999999999999").unlink()
        (path / "6").write_bytes(b"after the flood")
        before = len(listings)
        assert queue.receive(timeout=0) == ("6", b"after the flood")
        assert len(listings) == before + 1
        assert queue.size() == 1


def test_without_a_watch_a_backlog_is_not_listed_for_every_message(path, listings):
    path.mkdir()
    for number in range(2_000):
        (path / str(number)).write_bytes(b"")
    with Queue(path, watch=False) as queue:
        assert [queue.receive(HOLD, timeout=0)[0] for _ in range(2_000)] == [str(number) for number in range(2_000)]
    assert len(listings) < 500


def test_no_inotify_left_falls_back_to_polling(path, pool, monkeypatch):
    def refuse() -> Inotify:
        raise OSError(24, "too many")

    monkeypatch.setattr(watch, "Inotify", refuse)
    with Queue(path) as queue:
        waiting = pool.submit(queue.receive, HOLD)
        wait_for_sleepers(queue, 1)
        id_ = queue.publish(b"x")
        assert waiting.result(SOON) == (id_, b"x")
        assert queue._view.descriptor is None


def test_a_child_of_a_fork_has_a_view_of_its_own(path):
    with Queue(path) as queue:
        ids = [queue.publish(b"%d" % number) for number in range(4)]
        assert queue.receive(HOLD, timeout=0)[0] == ids[0]
        child = os.fork()
        if not child:
            code = 1
            try:
                if queue.receive(HOLD, timeout=0)[0] == ids[1] and queue.delete(ids[1]):
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert queue.receive(timeout=0)[0] == ids[2]
        assert queue.size() == 3


def test_no_lock_is_held_over_a_sync(queue, monkeypatch):
    sync, states = disk.sync, []
    monkeypatch.setattr(disk, "sync", lambda descriptor: (states.append(queue._lock.locked()), sync(descriptor)))
    queue.delete(queue.publish(b"x"))
    assert states == [False] * 3
