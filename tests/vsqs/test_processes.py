"""Several real processes on one directory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.vsqs import Queue
from tests.vsqs.conftest import files

ROOT = Path(__file__).parents[2]


def start(path: Path, role: str, name: str, count: int, how: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.vsqs.worker", str(path), role, name, str(count), how]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def books(process: subprocess.Popen[str]) -> dict[str, list[list[str]]]:
    output, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.parametrize("how", ["watched", "polled"])
def test_nothing_is_lost_and_nothing_delivered_twice(path, how):
    count = 80
    publishers = [start(path, "publisher", name, count, how) for name in "ab"]
    consumers = [start(path, "consumer", name, 0, how) for name in "cde"]
    published = [entry for process in publishers for entry in books(process)["published"]]
    with Queue(path) as queue:
        for _ in consumers:
            queue.publish(b"end")
    received_by = [books(process)["received"] for process in consumers]
    received = [entry for one in received_by for entry in one]
    ids = [id_ for id_, _ in published]
    assert len(set(ids)) == len(ids) == 2 * count
    assert sorted(received) == sorted(published)
    assert files(path) == []
    for name in "ab":
        # The messages of one publisher have numbers in the order in which they were published.
        own = [int(id_) for id_, body in published if body.startswith(name)]
        assert all(earlier < later for earlier, later in pairwise(own))


def test_threads_and_instances_in_one_process(path):
    """The same race with everything shared that threads share."""
    count, received, lock = 60, [], threading.Lock()
    with Queue(path, precision="us") as shared, Queue(path) as other:
        published: list[str] = []
        all_is_published = threading.Event()

        def publish(queue: Queue) -> None:
            for _ in range(count):
                id_ = queue.publish(b"x")
                with lock:
                    published.append(id_)

        def consume(queue: Queue) -> None:
            while True:
                is_last = all_is_published.is_set()
                id_, _ = queue.receive(600, timeout=0.2)
                if id_ is not None:
                    with lock:
                        received.append(id_)
                    assert queue.delete(id_)
                elif is_last:
                    return

        publishers = [threading.Thread(target=publish, args=(queue,)) for queue in (shared, shared, other)]
        consumers = [threading.Thread(target=consume, args=(queue,)) for queue in (shared, shared, other, other)]
        for thread in publishers + consumers:
            thread.start()
        for thread in publishers:
            thread.join()
        all_is_published.set()
        for thread in consumers:
            thread.join()
        assert len(set(published)) == 3 * count
        assert sorted(received) == sorted(published)
        assert shared.size() == 0


def test_a_consumer_that_died_gives_its_message_back(path):
    with Queue(path) as queue:
        id_ = queue.publish(b"die")
        books(start(path, "consumer", "x", 0, "watched"))
        assert queue.receive(timeout=0) == (None, None)
        [claimed] = files(path)
        (path / claimed).rename(path / f"{id_}.1000")
        assert queue.receive(timeout=0) == (id_, b"die")
