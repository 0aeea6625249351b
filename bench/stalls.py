"""How long a durable send may have to wait for something large that somebody else has asked for: a queue that is
purged or moved, a shipment that is settled, a ledger that is read from end to end.

One connection sends without a pause, each message after the answer to the one before; alone, and beside others that do
the same. Its longest wait, from the start of the large work to its end, is compared with the median under the same load
before that. Syncs and checkpoints have long waits of their own, so the longest of those is shown as well.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import apsw

from bench import servers
from bench.foundation import BODY, create_queue, folder
from bench.load import script_path
from bench.measure import Effort, Result, at_most
from bench.peers.penstock import is_whole, request
from penstock.clock import system_clock
from penstock.model import Dedup, Draft, Settings, ShipmentRef, ShipmentState
from penstock.stores import open_store
from penstock.stores.protocol import Store, needed

MESSAGES = 1_000_000
OTHERS = 32
LIMIT = 20
_LOADS = {0: "alone", OTHERS: f"beside {OTHERS} others"}
_HOUR_MS = 3_600_000
# Longer than any retention.
_LONG_AGO_MS = 1_000 * 24 * _HOUR_MS
# A server that has stopped would otherwise never let us go.
_PATIENCE_S = 300
_AT_ONCE = 5_000
_PAGE = 10_000
_ARROW = "application/vnd.apache.arrow.stream"
# So many messages for each queue that a server with many of them has.
_A_QUEUE = 100
FILE = "penstock.db"
TWINS = "dedupq/twins"
MANY = "many"


# The first sends find everything cold, and others that send are still connecting.
_COLD = 50


class Sender:
    """Sends without a pause, and notes when each send began and how long it took. In a process of its own: a thread
    would wait for whatever we do with the answers that we get."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("fork")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_send, args=(port, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.sends: list[tuple[float, float]] = []
        self._end.recv()

    def stop(self) -> None:
        self._end.send(None)
        self.sends = self._end.recv()
        self._process.join()

    def between(self, start: float, end: float) -> list[float]:
        """The times of all sends that were under way at some moment of it."""
        return [took for begun, took in self.sends if begun <= end and begun + took >= start]


def _send(port: int, end: Connection) -> None:
    """Until something comes by this end of a pipe. By it goes word when the first sends, which find everything cold,
    are over, and in the end all of them."""
    sends: list[tuple[float, float]] = []
    message = request("POST /messages/q", BODY, "Content-Type: application/octet-stream")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while not end.poll():
            begun = time.perf_counter()
            connection.sendall(message)
            data = connection.recv(10_000)
            while not is_whole(data):
                data += connection.recv(10_000)
            sends.append((begun, time.perf_counter() - begun))
            if len(sends) == _COLD:
                end.send(None)
    end.send(sends)


def ask(url: str, method: str, path: str, body: object = None) -> dict[str, object]:
    answer = _ask(url, method, path, body)
    found = json.loads(answer or b"{}")
    return found if isinstance(found, dict) else {}


def _ask(url: str, method: str, path: str, body: object = None, accept: str = "*/*") -> bytes:
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=_PATIENCE_S)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), {"Accept": accept})
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 300, answer
    return answer


def _until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.1)


def left(url: str, queue: str) -> int:
    count = ask(url, "GET", f"/v1/queues/{queue.replace('/', '%2F')}")["count"]
    assert isinstance(count, dict)
    return int(count["total"])


# What is done to a million messages. Each returns when it is done.


def purge(url: str, _store: Path, _count: int) -> None:
    ask(url, "POST", f"/v1/queues/{MANY}/purge")


def purge_older(url: str, _store: Path, _count: int) -> None:
    ask(url, "POST", f"/v1/queues/{MANY}/purge", {"older_than_ms": 0})


def delete(url: str, store: Path, count: int) -> None:
    """The queue is gone at once; its messages are freed afterwards. No API shows those, so we look at the file."""
    ask(url, "DELETE", f"/v1/queues/{MANY}")
    _wait_for(store, f"SELECT NOT EXISTS (SELECT 1 FROM message WHERE seq <= {count})")


def move(url: str, _store: Path, _count: int) -> None:
    ask(url, "PUT", "/v1/queues/target")
    _move(url, {"source": MANY, "target": "target"})


def redrive(url: str, _store: Path, _count: int) -> None:
    """Dead letters go home, as new messages."""
    _move(url, {"source": MANY})


def redrive_some(url: str, _store: Path, _count: int) -> None:
    """The same, and each body is looked into."""
    _move(url, {"source": MANY, "filter": {"text": BODY.decode()[:4]}})


def _move(url: str, wanted: dict[str, object]) -> None:
    started = ask(url, "POST", "/v1/moves", wanted)
    _until(lambda: ask(url, "GET", f"/v1/moves/{started['id']}")["status"] != "in-progress")


def collapse(url: str, _store: Path, _count: int) -> None:
    """All of them are the same message."""

    def is_done() -> bool:
        ask(url, "GET", "/dedupq/1/twins/poll?limit=10&ttl=600")
        return left(url, TWINS) <= 1

    _until(is_done)


def expire(url: str, _store: Path, _count: int) -> None:
    """They have been expired since the server started, and it looks after them by itself."""
    _until(lambda: left(url, MANY) == 0)


_SHIPMENT = f"/v1/queues/{MANY}/shipments/lake/1"


def ship(url: str, _store: Path, count: int) -> None:
    ask(url, "PUT", _SHIPMENT, {"limit": count})


def read_shipment(url: str, _store: Path, count: int) -> None:
    for start in range(0, count, _PAGE):
        _ask(url, "GET", f"{_SHIPMENT}/messages?start={start}&limit={_PAGE}", accept=_ARROW)


def load_arrow(url: str) -> None:
    """With the first request for it a server loads Arrow, which takes a while, once."""
    _ask(url, "GET", f"/v1/queues/{MANY}/messages?limit=1", accept=_ARROW)


def settle(url: str, _store: Path, _count: int) -> None:
    ask(url, "POST", f"{_SHIPMENT}/settle")


def give_back(url: str, _store: Path, _count: int) -> None:
    ask(url, "POST", f"{_SHIPMENT}/release")


def lose(_url: str, store: Path, _count: int) -> None:
    """Its time had passed before the server started."""
    _wait_for(store, "SELECT NOT EXISTS (SELECT 1 FROM shipment WHERE cleared < messages)")


EXPORT = "/v1/ledger/exports/lake/1"


def export(url: str, _store: Path, count: int) -> None:
    ask(url, "PUT", EXPORT, {"limit": count})
    for after in range(0, count, _PAGE):
        _ask(url, "GET", f"{EXPORT}/rows?after={after}&limit={_PAGE}", accept=_ARROW)
    ask(url, "POST", f"{EXPORT}/settle")


def report(url: str, _store: Path, count: int) -> None:
    """The ledger in JSON, in the largest pages there are."""
    for after in range(0, count, _PAGE):
        ask(url, "GET", f"/v1/ledger?after={after}&limit={_PAGE}")


def search_ledger(url: str, _store: Path, _count: int) -> None:
    """For an outcome that no message had."""
    below: object = ""
    while below is not None:
        page = ask(url, "GET", f"/v1/ledger?order=newest&outcome=failed{below and f'&below={below}'}")
        below = page["below"]


def search(url: str, _store: Path, _count: int) -> None:
    """For a text that no message has."""
    after: object = ""
    while after is not None:
        page = ask(url, "GET", f"/v1/queues/{MANY}/messages?text=nowhere{after and f'&after={after}'}")
        after = page["after"]


def peek(url: str, _store: Path, count: int) -> None:
    cursor: object = ""
    for _ in range(0, count, _PAGE):
        page = ask(url, "GET", f"/v1/queues/{MANY}/messages?limit={_PAGE}{cursor and f'&after={cursor}'}")
        cursor = page["after"]


def sweep_ledger(_url: str, store: Path, count: int) -> None:
    """Its rows have been older than any retention since the server started."""
    _wait_for(store, f"SELECT NOT EXISTS (SELECT 1 FROM ledger WHERE number <= {count})")


def overlook(url: str, _store: Path, _count: int) -> None:
    """What the console asks for, with many queues."""
    for sort in ("oldest", "name", "ready"):
        for _ in range(10):
            ask(url, "GET", f"/v1/overview?sort={sort}&limit=1000")
            ask(url, "GET", "/v1/queues?limit=1000")


def back_up(_url: str, store: Path, _count: int) -> None:
    command = [sys.executable, "-m", "penstock", "backup", f"sqlite:///{store}", f"{store}.copy"]
    subprocess.run(command, check=True, capture_output=True)


def checkpoint(_url: str, store: Path, count: int) -> None:
    """Somebody reads for a while, and the log grows meanwhile; then it goes into the file."""
    seconds = 10 * count / MESSAGES
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM queue").fetchall()
        time.sleep(seconds)
        reader.execute("COMMIT")
    time.sleep(seconds)


def _wait_for(store: Path, condition: str) -> None:
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(1_000)
        _until(lambda: bool(connection.execute(condition).get))


# What there is before.


def messages(store: Store, count: int) -> None:
    fill(store, MANY, Settings(), count)


def twins(store: Store, count: int) -> None:
    fill(store, TWINS, Settings(dedup=Dedup.CLAIM), count)


def expired_messages(store: Store, count: int) -> None:
    fill(store, MANY, Settings(retention_ms=_HOUR_MS), count, 2 * _HOUR_MS)


def dead_letters(store: Store, count: int) -> None:
    fill(store, "home", Settings(), 0)
    fill(store, MANY, Settings(), count)


def shipment(store: Store, count: int, hold_ms: int = 10 * _HOUR_MS) -> None:
    fill(store, MANY, Settings(), count)
    state = ShipmentState.GATHERING
    while state is ShipmentState.GATHERING:
        with store.unit() as unit:
            made = needed(unit.shipments, "shipments").claim(
                ShipmentRef(MANY, "lake", 1), count, system_clock(), hold_ms
            )
            assert made is not None
            state = made.state


def lost_shipment(store: Store, count: int) -> None:
    shipment(store, count, 1)


def ledger(store: Store, count: int, age_ms: int = 0) -> None:
    fill(store, MANY, Settings(), count, age_ms)
    purged, at = 1, system_clock() - age_ms
    while purged:
        with store.unit() as unit:
            purged = needed(unit.messages, "messages").purge(MANY, at, _AT_ONCE, count)


def old_ledger(store: Store, count: int) -> None:
    ledger(store, count, _LONG_AGO_MS)


def queues(store: Store, count: int) -> None:
    at = system_clock()
    drafts = [Draft(BODY)] * _A_QUEUE
    for start in range(0, count // _A_QUEUE, 100):
        with store.unit() as unit:
            for number in range(start, min(start + 100, count // _A_QUEUE)):
                unit.create_queue(f"queue-{number}", Settings(), at)
                unit.send(f"queue-{number}", drafts, at)


def fill(store: Store, queue: str, settings: Settings, count: int, age_ms: int = 0) -> None:
    sent_at = system_clock() - age_ms
    with store.unit() as unit:
        unit.create_queue(queue, settings, sent_at)
    key = b"k" * 16 if settings.dedup is not Dedup.OFF else None
    drafts = [Draft(b'"%s"' % BODY, "application/json", dedup_key=key)] * _AT_ONCE
    for start in range(0, count, _AT_ONCE):
        with store.unit() as unit:
            unit.send(queue, drafts[: count - start], sent_at)


@dataclass(frozen=True)
class Work:
    """Something large. One that a server does `unasked` begins as soon as there is a server. What it has to do once in
    its life is done before."""

    run: Callable[[str, Path, int], None]
    prepare: Callable[[Store, int], None]
    unasked: bool = False
    once: Callable[[str], None] | None = None


WORKS = {
    "messages are purged": Work(purge, messages),
    "messages are purged by age": Work(purge_older, messages),
    "messages are deleted with their queue": Work(delete, messages),
    "messages are moved": Work(move, messages),
    "messages are collapsed": Work(collapse, twins),
    "messages are expired": Work(expire, expired_messages, unasked=True),
    "dead letters are redriven": Work(redrive, dead_letters),
    "dead letters are redriven by a filter": Work(redrive_some, dead_letters),
    "messages are claimed as a shipment": Work(ship, messages),
    "messages of a shipment are read": Work(read_shipment, shipment, once=load_arrow),
    "messages of a shipment are settled": Work(settle, shipment),
    "messages of a shipment are given back": Work(give_back, shipment),
    "messages of a shipment are lost": Work(lose, lost_shipment, unasked=True),
    "rows of the ledger are exported": Work(export, ledger, once=load_arrow),
    "rows of the ledger are read": Work(report, ledger),
    "rows of the ledger are searched": Work(search_ledger, ledger),
    "rows of the ledger are swept": Work(sweep_ledger, old_ledger, unasked=True),
    "messages are searched": Work(search, messages),
    "messages are peeked at": Work(peek, messages),
    "messages are in queues that are listed": Work(overlook, queues),
    "messages are backed up": Work(back_up, messages),
    "messages lie still and a reader holds up the checkpoint": Work(checkpoint, messages),
}


def prepare(path: Path, work: Work, count: int) -> None:
    with closing(open_store(f"sqlite:///{path / FILE}")) as store:
        work.prepare(store, count)
    if work.prepare is dead_letters:
        with closing(apsw.Connection(str(path / FILE))) as connection:
            connection.execute("UPDATE message SET came_from = 'home'")


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


def stall(work: Work, count: int, others: int, seconds: float) -> tuple[float, float, float, float]:
    """The longest send meanwhile and the median before; the longest before; and how long the work took."""
    with folder() as path:
        if not work.unasked:
            prepare(path, work, count)
        with servers.penstock(path) as (url, _):
            create_queue(url, "q")
            if work.once is not None:
                work.once(url)
            quiet, _ = observe(url, others, lambda: time.sleep(seconds))
            if not work.unasked:
                longest, took = observe(url, others, lambda: work.run(url, path / FILE, count))
        if work.unasked:
            prepare(path, work, count)
            with servers.penstock(path) as (url, _):
                longest, took = observe(url, others, lambda: work.run(url, path / FILE, count))
    return max(longest), statistics.median(quiet), max(quiet), took


def observe(url: str, others: int, work: Callable[[], None]) -> tuple[list[float], float]:
    """The sends while the work goes on, and how long it takes."""
    with load(url, others):
        sender = Sender(servers.port_of(url))
        try:
            start = time.perf_counter()
            work()
            end = time.perf_counter()
        finally:
            sender.stop()
    return sender.between(start, end), end - start


def stalls(effort: Effort) -> Iterator[Result]:
    count = effort.messages(MESSAGES)
    for others, load_name in _LOADS.items():
        for name, work in WORKS.items():
            longest, median, longest_before, took = stall(work, count, others, effort.seconds)
            yield at_most(
                f"longest send, {load_name}, while {count:,} {name} ÷ the median before",
                LIMIT,
                longest / median,
                longest_ms=longest * 1e3,
                median_ms=median * 1e3,
                longest_before_ms=longest_before * 1e3,
                work_s=took,
            )


MEASURES = {"stalls": stalls}
