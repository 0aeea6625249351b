"""A claim that waits on one server is answered by what happens on another.

A server with a waiting claim also looks by itself every few seconds. Here it does not, unless the test is about that:
an answer before the wait is over is a wake-up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.stores.protocol import EVERYWHERE
from penstock.timings import Timings
from tests.faults.crowd import Cluster
from tests.faults.sessions import cut_off, listening
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

WAIT_MS = 60_000


class Pair:
    """Two servers in this process; one acts, and claims wait at the other."""

    def __init__(self, store: str) -> None:
        self.store = store
        timings = Timings(look_anyway_s=3600)
        self.acting, self.waiting = ThreadServer(store, timings=timings), ThreadServer(store, timings=timings)
        self.talk = self.acting.talk()
        self._pool = ThreadPoolExecutor(4)
        # A server that begins to listen looks everywhere once: until then, anything would wake it.
        wait_until(lambda: self.waiting.changed_elsewhere() is EVERYWHERE)
        assert self.talk("PUT", "/v1/queues/mark").status == 201

    def wait_for(self, queue: str) -> Future[list[str]]:
        """The bodies that a claim at the other server gets; it waits already."""
        others = len(self.waiting.waiting_claims())
        if not others:
            self._forget_the_past()
        future = self._pool.submit(self._claim, queue)
        wait_until(lambda: future.done() or len(self.waiting.waiting_claims()) > others)
        assert not future.done(), future.result()
        return future

    def _forget_the_past(self) -> None:
        """Take away the word of what was done so far, which would wake a claim as well."""
        self.send("mark", "-")
        wait_until(lambda: "mark" in self.waiting.changed_elsewhere())
        if self.store.startswith("mariadb"):
            # What was told may be from a look just before the mark; a counter does not say. The next look is not far.
            threading.Event().wait(0.2)
            self.waiting.changed_elsewhere()

    def _claim(self, queue: str) -> list[str]:
        with Talk(self.waiting.url, timeout=100) as talk:
            reply = talk("POST", f"/v1/queues/{queue}/claim", {"wait_ms": WAIT_MS, "hold_ms": 600_000})
            return (
                [message["body"] for message in reply.json["messages"]] if reply.status == 200 else [str(reply.status)]
            )

    def send(self, queue: str, body: str, **options: object) -> None:
        reply = self.talk("POST", f"/v1/queues/{queue}/messages", {"messages": [{"body": body, **options}]})
        assert reply.status == 201

    def claim(self, queue: str, **options: object) -> list[str]:
        reply = self.talk("POST", f"/v1/queues/{queue}/claim", options)
        return [message["receipt"] for message in reply.json["messages"]]

    def close(self) -> None:
        self.talk.close()
        self.acting.stop()
        self.waiting.stop()
        self._pool.shutdown()


@pytest.fixture(params=["postgres", "mariadb"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    url = request.getfixturevalue(f"{request.param}_url")
    pair = Pair(url)
    pair.talk("PUT", "/v1/queues/dead")
    assert pair.talk("PUT", "/v1/queues/q").status == 201
    yield pair
    pair.close()


def by_a_send(pair: Pair) -> Future[list[str]]:
    waiting = pair.wait_for("q")
    pair.send("q", "m")
    return waiting


def by_the_end_of_a_delay(pair: Pair) -> Future[list[str]]:
    waiting = pair.wait_for("q")
    pair.send("q", "m", delay_ms=700)
    return waiting


def by_a_release(pair: Pair) -> Future[list[str]]:
    pair.send("q", "m")
    receipts = pair.claim("q", hold_ms=600_000)
    waiting = pair.wait_for("q")
    assert pair.talk("POST", "/v1/queues/q/release", {"receipts": receipts}).json == {"done": [True]}
    return waiting


def by_the_end_of_a_claim(pair: Pair) -> Future[list[str]]:
    pair.send("q", "m")
    assert pair.claim("q", hold_ms=15_000)  # by then the other has to wait
    return pair.wait_for("q")


def by_a_shortened_claim(pair: Pair) -> Future[list[str]]:
    pair.send("q", "m")
    receipts = pair.claim("q", hold_ms=600_000)
    waiting = pair.wait_for("q")
    pair.talk("POST", "/v1/queues/q/renew", {"receipts": receipts, "hold_ms": 300})
    return waiting


def by_a_dead_letter(pair: Pair) -> Future[list[str]]:
    pair.talk("PUT", "/v1/queues/short", {"redrive": {"max_receives": 1, "dead_letter_queue": "dead"}})
    pair.send("short", "m")
    assert pair.claim("short", hold_ms=0)
    waiting = pair.wait_for("dead")
    assert pair.claim("short") == []
    return waiting


def by_a_move(pair: Pair) -> Future[list[str]]:
    pair.talk("PUT", "/v1/queues/source")
    pair.send("source", "m")
    waiting = pair.wait_for("q")
    assert pair.talk("POST", "/queue/1/_move?from=source&to=q").status == 200
    return waiting


def by_the_end_of_a_pause(pair: Pair) -> Future[list[str]]:
    assert pair.talk("POST", "/v1/queues/q/pause").status == 200
    pair.send("q", "m")
    waiting = pair.wait_for("q")
    assert pair.talk("POST", "/v1/queues/q/resume").status == 200
    return waiting


def by_the_end_of_the_queue(pair: Pair) -> Future[list[str]]:
    waiting = pair.wait_for("q")
    assert pair.talk("DELETE", "/v1/queues/q").status == 200
    return waiting


CAUSES: list[Callable[[Pair], Future[list[str]]]] = [
    by_a_send,
    by_the_end_of_a_delay,
    by_a_release,
    by_the_end_of_a_claim,
    by_a_shortened_claim,
    by_a_dead_letter,
    by_a_move,
    by_the_end_of_a_pause,
    by_the_end_of_the_queue,
]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_a_claim_is_woken(pair: Pair, cause: Callable[[Pair], Future[list[str]]]) -> None:
    assert cause(pair).result() == (["404"] if cause is by_the_end_of_the_queue else ["m"])


def test_a_message_wakes_one_of_many_and_the_others_wait_on(pair: Pair) -> None:
    waiting = [pair.wait_for("q") for _ in range(3)]
    for number in range(3):
        pair.send("q", str(number))
        wait_until(lambda number=number: sum(future.done() for future in waiting) == number + 1)
    assert sorted(future.result() for future in waiting) == [["0"], ["1"], ["2"]]


@pytest.mark.parametrize("pair", ["postgres"], indirect=True)
def test_a_claim_is_woken_after_the_notices_were_cut_off(pair: Pair) -> None:
    pair.send("q", "first")
    assert pair.claim("q", hold_ms=600_000)
    waiting = pair.wait_for("q")
    for _ in range(3):
        wait_until(lambda: listening(pair.store))
        cut_off(pair.store)
        wait_until(lambda: len(listening(pair.store)) == 2)
    assert not waiting.done()
    pair.send("q", "m")
    assert waiting.result() == ["m"]


def test_a_notice_between_processes_is_quicker_than_looking(cluster: Cluster, talks: list[Talk]) -> None:
    """One of ten times will do: a machine may be slow, but not so slow."""
    assert talks[0]("PUT", "/v1/queues/quick").status == 201
    took: list[float] = []
    for number in range(10):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(talks[1], "POST", "/v1/queues/quick/claim", {"wait_ms": 25_000, "hold_ms": 600_000})
            threading.Event().wait(0.5)  # else there would be nothing to wake
            sent_at = time.monotonic()
            talks[0]("POST", "/v1/queues/quick/messages", {"messages": [{"body": str(number)}]})
            assert [message["body"] for message in waiting.result().json["messages"]] == [str(number)]
            took.append(time.monotonic() - sent_at)
        if took[-1] < 2:
            return
    pytest.fail(f"it took {took}")
