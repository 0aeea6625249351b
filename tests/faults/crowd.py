"""Servers on one database, and a crowd of clients who speak to all of them and keep the books of what was promised."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from penstock.model import PeekAfter
from penstock.stores import Store, Unit, open_store
from tests.faults.load import Lost
from tests.servers import ServerProcess
from tests.stores.conftest import check_conservation
from tests.talk import Reply, Talk
from tests.waiting import wait_until

HOLD_MS = 600_000


class Cluster:
    """Servers on one database."""

    def __init__(self, store: str, servers: list[ServerProcess]) -> None:
        self.store = store
        self.servers = servers
        self.urls = [server.url for server in servers]


@contextmanager
def running(folder: Path, *stores: str) -> Iterator[list[ServerProcess]]:
    """A server process for each of these stores, all started at the same instant."""
    with ThreadPoolExecutor(len(stores)) as pool:
        servers = list(pool.map(lambda store: ServerProcess(folder, "--store", store), stores))
    yield servers
    for server in servers:
        server.stop()


@contextmanager
def opened(url: str, lanes: int = 2) -> Iterator[Store]:
    """A store, opened as a library."""
    store = open_store(url, lanes=lanes)
    try:
        yield store
    finally:
        store.close()


def together(*calls: tuple[Callable[..., Reply], *tuple[object, ...]]) -> list[Reply]:
    """What is answered to calls, each a function and its arguments, that are made at the same instant."""
    barrier = threading.Barrier(len(calls))

    def call(function: Callable[..., Reply], *args: object) -> Reply:
        barrier.wait()
        return function(*args)

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call, *made) for made in calls]]


def peek_all(unit: Unit, queue: str) -> list[bytes]:
    bodies: list[bytes] = []
    after = None
    while page := unit.messages.peek(queue, 1_000, after):
        bodies += [message.body for message in page]
        after = PeekAfter(page[-1].ready_at, page[-1].seq)
    return bodies


class Crowd:
    """Senders and claimers on one queue, each at one of the servers and at another when that one is gone.

    A promise is a 2xx. What was answered 503, or not at all, may have happened or not: that is what the books call
    `perhaps`. Any other answer, and any message in the hands of two, is `trouble`.
    """

    def __init__(self, urls: Sequence[str], queue: str = "crowd") -> None:
        self.urls = urls
        self.path = f"/v1/queues/{queue}"
        self.queue = queue
        self.sent: set[bytes] = set()
        self.perhaps_sent: set[bytes] = set()
        self.acked: Counter[bytes] = Counter()
        self.perhaps_acked: set[bytes] = set()
        self.trouble: list[object] = []
        self.refusals = 0
        self._held: set[str] = set()
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._senders: list[threading.Thread] = []
        self._claimers: list[threading.Thread] = []

    def create(self) -> None:
        with Talk(self.urls[0]) as talk:
            assert talk("PUT", self.path).status == 201

    def start(self, senders: int, claimers: int, each: int | None = None) -> None:
        """`each` is how many batches each sender sends; without, they send until `stop`."""
        self._senders = [threading.Thread(target=self._send, args=(number, each)) for number in range(senders)]
        self._claimers = [threading.Thread(target=self._claim, args=(number,)) for number in range(claimers)]
        for thread in self._senders + self._claimers:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._senders + self._claimers:
            thread.join()

    @contextmanager
    def at_work(self, senders: int, claimers: int) -> Iterator[None]:
        self.start(senders, claimers)
        try:
            yield
        finally:
            self.stop()

    def finish(self) -> None:
        """Wait until all that the senders had to send is processed."""
        for thread in self._senders:
            thread.join()
        try:
            wait_until(lambda: self.trouble or len(self.acked) >= len(self.sent))
        finally:
            self.stop()

    def _send(self, number: int, each: int | None) -> None:
        with Connected(self.urls, number) as connected:
            for turn in range(each) if each else itertools.count():
                if self._stopping.is_set():
                    return
                texts = [f"{number} {next(self._numbers)}" for _ in range(turn % 5 + 1)]
                bodies = {text.encode() for text in texts}
                reply = connected("POST", f"{self.path}/messages", {"messages": [{"body": text} for text in texts]})
                if self._note("send", reply, 201):
                    self.sent |= bodies
                else:
                    self.perhaps_sent |= bodies

    def _claim(self, number: int) -> None:
        with Connected(self.urls, number) as connected:
            while not self._stopping.is_set():
                wanted = {"limit": 7, "hold_ms": HOLD_MS, "wait_ms": 500}
                reply = connected("POST", f"{self.path}/claim", wanted)
                if reply is not None and self._note("claim", reply, 200):
                    self._process(connected, reply.json["messages"])

    def _process(self, connected: Connected, messages: list[dict]) -> None:
        twice = self._held & {message["id"] for message in messages}
        if twice:
            self.trouble.append(("in the hands of two", twice))
        self._held |= {message["id"] for message in messages}
        # Every seventh goes back once, for anybody to take.
        back = [
            message for message in messages if message["receives"] == 1 and int(message["body"].split()[1]) % 7 == 0
        ]
        done = [message for message in messages if message not in back]
        # Before the call: as soon as it is served, the next may hold them.
        self._held -= {message["id"] for message in messages}
        if back:
            self._note("release", self._return(connected, "release", back), 200)
        if done:
            bodies = {message["body"].encode() for message in done}
            self.perhaps_acked |= bodies
            reply = self._return(connected, "ack", done)
            if self._note("ack", reply, 200):
                if not all(reply.json["done"]):
                    self.trouble.append(("an ack that came too late", reply.body))
                self.acked.update(bodies)
                self.perhaps_acked -= bodies

    def _return(self, connected: Connected, verb: str, messages: list[dict]) -> Reply | None:
        return connected("POST", f"{self.path}/{verb}", {"receipts": [message["receipt"] for message in messages]})

    def _note(self, verb: str, reply: Reply | None, status: int) -> bool:
        """Write down how a request was answered, with a pause where it was refused. True if it was done."""
        if reply is None or reply.status == 503:
            self.refusals += 1
            threading.Event().wait(0.02)
        elif reply.status != status:
            self.trouble.append((verb, reply.status, reply.body))
        return reply is not None and reply.status == status

    def check(self, store_url: str) -> None:
        """Nothing promised is lost, nothing acked comes back, nothing is there that was never sent, all is counted."""
        assert self.trouble == []
        assert max(self.acked.values()) == 1
        with opened(store_url) as store, store.unit(write=False) as unit:
            left = peek_all(unit, self.queue)
            check_conservation(unit)
        assert len(left) == len(set(left))
        assert self.sent - self.acked.keys() - self.perhaps_acked - set(left) == set()
        assert self.acked.keys() & set(left) == set()
        assert set(left) <= self.sent | self.perhaps_sent
        assert self.acked.keys() <= self.sent | self.perhaps_sent


class Connected:
    """A client that goes to the next server when its own is gone."""

    def __init__(self, urls: Sequence[str], first: int) -> None:
        self._urls = itertools.cycle([*urls[first % len(urls) :], *urls[: first % len(urls)]])
        self._talk = Talk(next(self._urls), timeout=100)

    def __call__(self, method: str, path: str, body: dict) -> Reply | None:
        try:
            return self._talk(method, path, body)
        except Lost:
            self._talk.close()
            self._talk = Talk(next(self._urls), timeout=100)
            return None

    def __enter__(self) -> Connected:
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.close()
