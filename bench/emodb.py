"""EmoDB's queues: batches against what SQLite alone can do, counts at a million messages, and what collapsing costs.

"Plain apsw" is one process that does nothing else: the store's own table and indexes, the same pragmas, the same rows,
one transaction and one sync for a thousand of them. It speaks no HTTP, parses nothing, hashes nothing, and keeps
neither the tallies nor the ledger that the server writes in the same transactions.
"""

from __future__ import annotations

import re
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import apsw

from bench import servers
from bench.foundation import SHALLOW, fill, folder
from bench.load import wrk
from bench.measure import Effort, Result, at_least, at_most, spread
from penstock.clock import system_clock
from penstock.faces.emodb.bodies import drafts
from penstock.ids import body_hash
from penstock.model import Dedup, Draft, Settings
from penstock.stores import open_store
from penstock.stores.sql import schema

BATCH = 1_000
MESSAGE = b'{"pad":"%s"}' % (b"x" * 190)
DRAINED = 100_000
DEEP = 1_000_000
CLAIMED = 500
ROUNDS = 5
_ID = re.compile(rb'"id":"([0-9a-f-]{36})"')


# Plain apsw


def plain_database(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path / "plain.db"))
    for pragma in ("page_size = 4096", "journal_mode = WAL", "synchronous = FULL", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000")
    connection.execute(schema.scripts("sqlite")[0])
    return connection


_INSERT = """INSERT INTO message (seq, queue, ready_at, sent_at, receives, claim, content_type, body_hash, body)
             VALUES (?, 1, 0, ?, 0, 0, 'application/json', ?, ?)"""


def plain_inserts(path: Path, seconds: float) -> float:
    """Rows a second."""
    connection = plain_database(path)
    hashed, now, seqs, done = body_hash(MESSAGE), system_clock(), count(1), 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, [(next(seqs), now, hashed, MESSAGE) for _ in range(BATCH)])
        connection.execute("COMMIT")
        done += BATCH
    rate = done / (time.perf_counter() - start)
    connection.close()
    return rate


def plain_cycles(path: Path, count: int) -> float:
    """Rows claimed and deleted a second: a transaction for each thousand claimed, and one for each thousand deleted."""
    connection = plain_database(path)
    hashed, now = body_hash(MESSAGE), system_clock()
    connection.execute("BEGIN")
    connection.executemany(_INSERT, [(seq, now, hashed, MESSAGE) for seq in range(1, count + 1)])
    connection.execute("COMMIT")
    done = 0
    start = time.perf_counter()
    while done < count:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(
            """UPDATE message SET ready_at = ?, receives = receives + 1, claim = claim + 1
               WHERE seq IN (SELECT seq FROM message WHERE queue = 1 AND ready_at = 0 ORDER BY seq LIMIT ?)
               RETURNING seq, body""",
            (now + 600_000, BATCH),
        ).fetchall()
        connection.execute("COMMIT")
        listed = f"[{','.join(str(seq) for seq, _ in rows)}]"
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM message WHERE seq IN (SELECT value FROM json_each(?))", (listed,))
        connection.execute("COMMIT")
        done += len(rows)
    rate = done / (time.perf_counter() - start)
    connection.close()
    return rate


# The server, and a client that costs it little


class Client:
    """One connection. `own_s` is what the client itself has computed, to show that it is not what is measured."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.own_s = 0.0

    def ask(self, head: str, body: bytes = b"") -> bytes:
        lines = f"{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        lines += "Content-Type: application/json\r\n\r\n"
        self._socket.sendall(lines.encode() + body)
        data = bytearray(self._socket.recv(1 << 20))
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._socket.recv(1 << 20)
        assert data.startswith(b"HTTP/1.1 200"), bytes(data[:200])
        total = end + 4 + int(re.search(rb"(?i)content-length: (\d+)", data[:end])[1])
        while len(data) < total:
            data += self._socket.recv(1 << 20)
        return bytes(data[end + 4 :])

    def poll(self, base: str = "/queue/1") -> list[bytes]:
        answer = self.ask(f"GET {base}/q/poll?limit={BATCH}&ttl=600")
        start = time.thread_time()
        ids = _ID.findall(answer)
        self.own_s += time.thread_time() - start
        return ids

    def ack(self, ids: list[bytes]) -> None:
        start = time.thread_time()
        body = b'["' + b'","'.join(ids) + b'"]'
        self.own_s += time.thread_time() - start
        self.ask("POST /queue/1/q/ack", body)

    def close(self) -> None:
        self._socket.close()


def sendbatches(path: Path, seconds: float) -> float:
    """Messages a second over four connections."""
    with servers.penstock(path) as (url, _):
        load = wrk(f"{url}/queue/1/_sendbatch", 4, seconds, "sendbatch")
    assert load.errors == 0, load.output
    return load.per_second * BATCH


def fill_json(path: Path, queue: str, settings: Settings, bodies: list[bytes]) -> None:
    store = open_store(f"sqlite:///{path}/penstock.db")
    with store.unit() as unit:
        unit.create_queue(queue, settings, system_clock())
    for start in range(0, len(bodies), 5_000):
        made: list[Draft] = drafts(bodies[start : start + 5_000], keyed=settings.dedup is not Dedup.OFF)
        with store.unit() as unit:
            unit.send(queue, made, system_clock())
    store.close()


def poll_ack_cycles(path: Path, count: int, connections: int = 4) -> tuple[float, float]:
    """Messages polled and acked a second, and the share of the time that the client itself took."""
    fill_json(path, "q", Settings(), [MESSAGE] * count)
    clients: list[Client] = []
    drained: list[int] = []

    def drain(client: Client) -> None:
        done = 0
        while ids := client.poll():
            client.ack(ids)
            done += len(ids)
        drained.append(done)

    with servers.penstock(path) as (url, _):
        clients = [Client(url) for _ in range(connections)]
        threads = [threading.Thread(target=drain, args=(client,)) for client in clients]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - start
        for client in clients:
            client.close()
    assert sum(drained) == count, drained
    return count / took, sum(client.own_s for client in clients) / took


def batches(effort: Effort) -> Iterator[Result]:
    sends, plain, ratios = [], [], []
    for _ in range(effort.rounds(ROUNDS)):
        with folder() as one, folder() as other:
            sends.append(sendbatches(one, effort.seconds))
            plain.append(plain_inserts(other, effort.seconds))
            ratios.append(sends[-1] / plain[-1])
    yield at_least(
        "`_sendbatch` of 1,000, 4 connections ÷ plain apsw inserts",
        0.5,
        statistics.median(ratios),
        messages_a_second=statistics.median(sends),
        plain_apsw=statistics.median(plain),
    )
    cycles, plain, ratios, shares = [], [], [], []
    count = effort.messages(DRAINED)
    for _ in range(effort.rounds(ROUNDS)):
        with folder() as one, folder() as other:
            rate, share = poll_ack_cycles(one, count)
            cycles.append(rate)
            shares.append(share)
            plain.append(plain_cycles(other, count))
            ratios.append(rate / plain[-1])
    yield at_least(
        "poll 1,000 + ack 1,000 ÷ plain apsw claim + delete",
        0.5,
        statistics.median(ratios),
        f"the client took {statistics.median(shares):.0%} of one core",
        messages_a_second=statistics.median(cycles),
        plain_apsw=statistics.median(plain),
    )


def counts(effort: Effort) -> Iterator[Result]:
    """Single requests on one connection: the median of many."""
    depth = effort.messages(DEEP)
    with folder() as shallow, folder() as deep:
        for path, size in ((shallow, SHALLOW), (deep, depth)):
            fill(path, size)
            store = open_store(f"sqlite:///{path}/penstock.db")
            with store.unit() as unit:
                unit.claim("q", CLAIMED, system_clock(), 3_600_000)
            store.close()
        measured: dict[str, list[tuple[float, float]]] = {"size?limit=1000": [], "claimcount": []}
        with servers.penstock(shallow) as (few, _), servers.penstock(deep) as (many, _):
            for _ in range(effort.rounds(ROUNDS)):
                for asked, times in measured.items():
                    medians = [wrk(f"{url}/queue/1/q/{asked}", 1, effort.seconds / 2).median_s for url in (many, few)]
                    times.append((medians[0], medians[1]))
        for asked, times in measured.items():
            yield at_most(
                f"`{asked}` at {depth:,} ÷ {SHALLOW:,}",
                1.5,
                statistics.median(many / few for many, few in times),
                f"{CLAIMED} of them claimed",
                deep_us=statistics.median(many for many, _ in times) * 1e6,
                shallow_us=statistics.median(few for _, few in times) * 1e6,
            )


def timed_polls(path: Path, base: str, polls: int) -> float:
    """Messages a second out of polls of a thousand."""
    with servers.penstock(path) as (url, _):
        client = Client(url)
        start = time.perf_counter()
        received = sum(len(client.poll(base)) for _ in range(polls))
        took = time.perf_counter() - start
        client.close()
    assert received == polls * BATCH, received
    return received / took


def collapsing(effort: Effort) -> Iterator[Result]:
    """Half of the messages, then all of that half again, in the same order or in any. Plain: all of them different."""
    count = effort.messages(DRAINED)
    half = [b'{"n":%d,"pad":"%s"}' % (number, b"x" * 180) for number in range(count // 2)]
    shuffled = half * 2
    Random(1).shuffle(shuffled)
    distinct = half + [body.replace(b'"n"', b'"m"') for body in half]
    rates: dict[str, list[float]] = {"again": [], "shuffled": [], "plain": []}
    for _ in range(effort.rounds(ROUNDS)):
        for name, bodies in (("again", half * 2), ("shuffled", shuffled), ("plain", distinct)):
            settings = Settings() if name == "plain" else Settings(dedup=Dedup.CLAIM)
            queue, base = ("q", "/queue/1") if name == "plain" else ("dedupq/q", "/dedupq/1")
            with folder() as path:
                fill_json(path, queue, settings, bodies)
                rates[name].append(timed_polls(path, base, count // 2 // BATCH))
    figures = {name: statistics.median(measured) for name, measured in rates.items()}
    for name, target, order in (("again", 0.6, "in the same order"), ("shuffled", 0.4, "all over the file")):
        ratios = [dedup / plain for dedup, plain in zip(rates[name], rates["plain"], strict=True)]
        yield at_least(
            f"dedup poll of 1,000 with {count:,} queued, half duplicates, {order} ÷ plain poll",
            target,
            statistics.median(ratios),
            "; ".join(filter(None, ["each dedup poll finishes a thousand twins as well", spread(ratios)])),
            dedup=figures[name],
            plain=figures["plain"],
        )


_PARTS: tuple[Callable[[Effort], Iterator[Result]], ...] = (batches, counts, collapsing)


def emodb(effort: Effort) -> Iterator[Result]:
    for part in _PARTS:
        yield from part(effort)


MEASURES = {"emodb": emodb}
