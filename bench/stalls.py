"""How long a durable send may have to wait for something large: a queue that is purged, deleted, moved, expired or
collapsed while somebody else sends.

One connection sends without a pause, each message after the answer to the one before; alone, and beside others that do
the same. Its longest wait, from the start of the large work to its end, is compared with the median under the same load
before that. Syncs and checkpoints have long waits of their own, so the longest of those is shown as well.
"""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from bench import servers
from bench.foundation import BODY, create_queue, folder
from bench.load import script_path
from bench.measure import Effort, Result, at_most
from bench.peers.penstock import is_whole, request
from penstock.clock import system_clock
from penstock.model import Dedup, Draft, Settings
from penstock.stores import open_store

MESSAGES = 1_000_000
OTHERS = 32
LIMIT = 20
_LOADS = {0: "alone", OTHERS: f"beside {OTHERS} others"}
_HOUR_MS = 3_600_000
# A server that has stopped would otherwise never let us go.
_PATIENCE_S = 120
_AT_ONCE = 5_000
FILE = "penstock.db"
TWINS = "dedupq/twins"


class Sender:
    """Sends without a pause, in a thread, and notes when each send began and how long it took."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._request = request("POST /messages/q", BODY, "Content-Type: application/octet-stream")
        self._stopping = False
        self.sends: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._connection as connection:
            while not self._stopping:
                begun = time.perf_counter()
                connection.sendall(self._request)
                data = connection.recv(10_000)
                while not is_whole(data):
                    data += connection.recv(10_000)
                self.sends.append((begun, time.perf_counter() - begun))

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()

    def between(self, start: float, end: float) -> list[float]:
        """The times of all sends that were under way at some moment of it."""
        return [took for begun, took in self.sends if begun <= end and begun + took >= start]


def ask(url: str, method: str, path: str, body: object = None) -> dict[str, object]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=_PATIENCE_S)
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    answer = response.read()
    assert response.status < 300, answer
    connection.close()
    found = json.loads(answer or b"{}")
    return found if isinstance(found, dict) else {}


def _until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.1)


def left(url: str, queue: str) -> int:
    count = ask(url, "GET", f"/v1/queues/{queue.replace('/', '%2F')}")["count"]
    assert isinstance(count, dict)
    return int(count["total"])


def purge(url: str, _store: Path, _count: int) -> None:
    ask(url, "POST", "/v1/queues/purge/purge")


def delete(url: str, store: Path, count: int) -> None:
    """The queue is gone at once; its messages are freed afterwards. No API shows those, so we look at the file."""
    ask(url, "DELETE", "/v1/queues/delete")
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    freed = f"SELECT NOT EXISTS (SELECT 1 FROM message WHERE seq <= {count})"
    _until(lambda: bool(connection.execute(freed).get))
    connection.close()


def move(url: str, _store: Path, _count: int) -> None:
    ask(url, "PUT", "/v1/queues/target")
    started = ask(url, "POST", "/v1/moves", {"source": "move", "target": "target"})
    _until(lambda: ask(url, "GET", f"/v1/moves/{started['id']}")["status"] != "in-progress")


def collapse(url: str, _store: Path, _count: int) -> None:
    """All of them are the same message."""

    def is_done() -> bool:
        ask(url, "GET", "/dedupq/1/twins/poll?limit=10&ttl=600")
        return left(url, TWINS) <= 1

    _until(is_done)


def expire(url: str, _store: Path, _count: int) -> None:
    """They have been expired since the server started, and it looks after them by itself."""
    _until(lambda: left(url, "expire") == 0)


# Beside the settings of their queue, how old its messages are.
WORKS: dict[str, tuple[Callable[[str, Path, int], None], str, Settings, int]] = {
    "purged": (purge, "purge", Settings(), 0),
    "deleted": (delete, "delete", Settings(), 0),
    "moved": (move, "move", Settings(), 0),
    "collapsed": (collapse, TWINS, Settings(dedup=Dedup.CLAIM), 0),
    "expired": (expire, "expire", Settings(retention_ms=_HOUR_MS), 2 * _HOUR_MS),
}


def fill(path: Path, queue: str, settings: Settings, count: int, age_ms: int) -> None:
    store = open_store(f"sqlite:///{path / FILE}")
    sent_at = system_clock() - age_ms
    with store.unit() as unit:
        unit.create_queue(queue, settings, sent_at)
    key = b"k" * 16 if settings.dedup is not Dedup.OFF else None
    drafts = [Draft(b'"%s"' % BODY, "application/json", dedup_key=key)] * _AT_ONCE
    for _ in range(0, count, _AT_ONCE):
        with store.unit() as unit:
            unit.send(queue, drafts, sent_at)
    store.close()


@contextmanager
def load(url: str, others: int) -> Iterator[None]:
    if not others:
        yield
        return
    command = ["wrk", "-t1", f"-c{others}", "-d3600", "-s", script_path("send"), f"{url}/messages/q"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def stall(name: str, count: int, others: int, seconds: float) -> tuple[float, float, float, float]:
    """The longest send meanwhile and the median before; the longest before; and how long the work took."""
    work, queue, settings, age_ms = WORKS[name]
    with folder() as path:
        if name != "expired":
            fill(path, queue, settings, count, age_ms)
        with servers.penstock(path) as (url, _):
            create_queue(url, "q")
            quiet, _ = observe(url, others, lambda: time.sleep(seconds))
            if name != "expired":
                longest, took = observe(url, others, lambda: work(url, path / FILE, count))
        if name == "expired":
            fill(path, queue, settings, count, age_ms)
            with servers.penstock(path) as (url, _):
                longest, took = observe(url, others, lambda: work(url, path / FILE, count))
    return max(longest), statistics.median(quiet), max(quiet), took


def observe(url: str, others: int, work: Callable[[], None]) -> tuple[list[float], float]:
    """The sends while the work goes on, and how long it takes."""
    with load(url, others):
        sender = Sender(servers.port_of(url))
        try:
            # The first sends find everything cold, and the others are still connecting.
            while len(sender.sends) < 50:
                time.sleep(0.01)
            start = time.perf_counter()
            work()
            end = time.perf_counter()
        finally:
            sender.stop()
    return sender.between(start, end), end - start


def stalls(effort: Effort) -> Iterator[Result]:
    count = effort.messages(MESSAGES)
    for others, load_name in _LOADS.items():
        for name in WORKS:
            longest, median, longest_before, took = stall(name, count, others, effort.seconds)
            yield at_most(
                f"longest send, {load_name}, while {count:,} messages are {name} ÷ the median before",
                LIMIT,
                longest / median,
                longest_ms=longest * 1e3,
                median_ms=median * 1e3,
                longest_before_ms=longest_before * 1e3,
                work_s=took,
            )


MEASURES = {"stalls": stalls}
