"""Two hundred consumers that come and go, in threads and in processes that are killed: nothing is lost, and at most
once nothing comes twice."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from penstock.gq import Client
from tests.gq.conftest import PATIENCE_S, consumers, until
from tests.gq.workers import Worker

CONSUMERS = 200
AT_ONCE = 8
MESSAGES = 1_200
PROCESSES = 3
# Where messages are delivered at most once, long enough that no consumer is declared dead because this machine is busy.
TIMES = {
    "at_least_once": {"heartbeat_s": 1.0, "dead_after_s": 6.0},
    "at_most_once": {"heartbeat_s": 1.0, "dead_after_s": 20.0},
}


class Crowd:
    """Threads, each of which makes one consumer after the other; each of these stops after a few messages."""

    def __init__(self, clients: list[Client], delivery: str) -> None:
        self.seen: Counter[bytes] = Counter()
        self.made = 0
        self._clients = clients
        self._delivery = delivery
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(AT_ONCE)]

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        try:
            while not self._ended.is_set() or self.made < CONSUMERS:
                self._consume(chance, self._clients[number % len(self._clients)])
        except BaseException as error:
            self.errors.append(error)

    def _consume(self, chance: random.Random, client: Client) -> None:
        with self._lock:
            self.made += 1
        consumer = client.consumer(batch=chance.choice((1, 3, 10)), delivery=self._delivery, **TIMES[self._delivery])
        left = chance.randint(1, 12)

        def callback(payload: bytes) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                consumer.stop()
            if chance.random() < 0.1:
                raise ValueError("one in ten")
            with self._lock:
                self.seen[payload] += 1

        timer = threading.Timer(chance.uniform(0.05, 0.5), consumer.stop)
        timer.start()
        consumer.process(callback)
        timer.cancel()
        timer.join()

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_two_hundred_consumers(opened, url, delivery):
    clients = [opened() for _ in range(2)]
    watcher = opened()
    with ExitStack() as stack:
        crowd = stack.enter_context(Crowd(clients, delivery))
        workers = [stack.enter_context(Worker(url, delivery=delivery, **TIMES[delivery])) for _ in range(PROCESSES)]
        until(lambda: len(consumers(watcher)) >= PROCESSES)
        processed = lambda: sum(crowd.seen.values()) + sum(worker.told() for worker in workers) // 2  # noqa: E731
        with watcher.producer(batch=40) as producer:
            pushed = [producer.push(str(number)) for number in range(MESSAGES)]
        for number, worker in enumerate(workers[:-1], 1):
            # In the middle of the work, one after the other.
            until(lambda so_far=number * MESSAGES // 6: processed() >= so_far, "a part of the work")
            worker.send(signal.SIGKILL)
        until(lambda: crowd.made >= CONSUMERS, "two hundred consumers")
        statuses = lambda: Counter(watcher.status(one) for one in pushed)  # noqa: E731
        until(lambda: sum(crowd.seen.values()) and not ({"queued", "consumed"} & statuses().keys()), "the end")
        workers[-1].send(signal.SIGTERM)
        told = [line for worker in workers for line in worker.lines()]
    assert crowd.errors == []
    ends = Counter(line.removeprefix("end ").encode() for line in told if line.startswith("end "))
    begins = {line.removeprefix("begin ").encode() for line in told if line.startswith("begin ")}
    done = crowd.seen + ends
    result = statuses()
    if delivery == "at_least_once":
        assert result == {"processed": MESSAGES}
        assert set(done) >= {str(number).encode() for number in range(MESSAGES)} - begins
    else:
        assert max(done.values()) == 1
        assert result["processed"] + result["failed"] == MESSAGES
        # Only what a killed process held can have failed: two batches.
        assert result["failed"] <= 10 * (PROCESSES - 1)
