"""A queue by hand on PostgreSQL: a table, and `FOR UPDATE SKIP LOCKED`; every commit waits for the disk.

Single sends and cycles come from `pgbench`, with prepared statements. A claim is a row that is locked in an open
transaction, an ack its deletion and the commit: one sync less than a claim that outlives its connection. Batches come
from psycopg: COPY in, and the same transaction for a thousand rows.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg

from bench import servers
from bench.peers.peer import BATCH, BATCHING, BODY, WORKERS, Peer, Running
from bench.wire import Rate
from devtools.databases import NotInstalled, PostgresServer, binary

_TABLE = """CREATE TABLE q (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)
            WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
                  autovacuum_vacuum_cost_delay = 0)"""
_SEND = f"INSERT INTO q (body) VALUES ('{BODY.decode()}');\n"
_CYCLE = f"""{_SEND}BEGIN;
SELECT id, body FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED \\gset
DELETE FROM q WHERE id = :id;
COMMIT;
"""
_FILL = f"INSERT INTO q (body) SELECT '{BODY.decode()}' FROM generate_series(1, %s)"
_CLAIM = f"SELECT id, body FROM q ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"
_ACK = "DELETE FROM q WHERE id = ANY(%s)"
_FILLED_AT_ONCE = 500_000
# pgbench connects within its time, and leaves that out of its rate.
_CONNECTING_S = 2


class Roomy(PostgresServer):
    """With the memory that one would give it."""

    def _command(self) -> list[str]:
        return [*super()._command(), "--shared_buffers=2GB", "--max_wal_size=8GB", "--checkpoint_timeout=30min"]


def tps(output: str) -> float:
    """What pgbench says at its end."""
    found = re.search(r"tps = ([\d.]+)", output)
    assert found, output
    return float(found[1])


def logged(text: str) -> list[float]:
    """The latencies in pgbench's log, in seconds, sorted: the third column, in microseconds."""
    return sorted(int(line.split()[2]) / 1e6 for line in text.splitlines())


class _Table:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._url = server.new_url()
        with psycopg.connect(self._url) as connection:
            connection.execute(_TABLE)

    def running(self) -> Running:
        return Running(
            sends=lambda seconds: self._pgbench(_SEND, seconds),
            cycles=lambda seconds: self._pgbench(_CYCLE, seconds),
            batch_sends=lambda seconds: self._threads(self._copy, seconds),
            batch_claims=lambda seconds: self._threads(self._claim, seconds),
            latencies=self._latencies,
            fill=self._fill,
        )

    def _command(self, script: Path, clients: int, seconds: float) -> list[str]:
        at = urlsplit(self._url)
        who = ["-h", str(at.hostname), "-p", str(at.port), "-U", str(at.username)]
        lasting = max(1, round(seconds)) + _CONNECTING_S
        how = ["-n", "-M", "prepared", "-c", str(clients), "-T", str(lasting), "-f", str(script)]
        return [binary("pgbench", "postgresql"), *who, *how, at.path[1:]]

    def _run(self, command: list[str], folder: str) -> str:
        password = {"PGPASSWORD": unquote(urlsplit(self._url).password or "")}
        return subprocess.run(
            command, cwd=folder, env=os.environ | password, capture_output=True, text=True, check=True
        ).stdout

    def _pgbench(self, script: str, seconds: float) -> Rate:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "script.sql")
            path.write_text(script)
            before, asked, started = _children_s(), servers.cpu_seconds(self._server.pid), time.perf_counter()
            rate = tps(self._run(self._command(path, WORKERS, seconds), folder))
            spent = time.perf_counter() - started
            busy, served = _children_s() - before, servers.cpu_seconds(self._server.pid) - asked
        return Rate(rate, round(rate * spent), busy / spent, served / spent)

    def _latencies(self, seconds: float) -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "script.sql")
            path.write_text(_SEND)
            self._run([*self._command(path, 1, seconds)[:-1], "-l", self._url.rpartition("/")[2]], folder)
            [log] = Path(folder).glob("pgbench_log.*")
            return logged(log.read_text())

    def _threads(self, work: Callable[[psycopg.Connection], int], seconds: float) -> Rate:
        """Until the time is over or nothing is left."""
        counts = [0] * BATCHING
        ends = [0.0] * BATCHING

        def run(number: int) -> None:
            with psycopg.connect(self._url) as connection:
                barrier.wait()
                until = time.perf_counter() + seconds
                while time.perf_counter() < until and (done := work(connection)):
                    counts[number] += done
                    ends[number] = time.perf_counter()

        barrier = threading.Barrier(BATCHING + 1)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(BATCHING)]
        for thread in threads:
            thread.start()
        barrier.wait()
        asked, busy, started = servers.cpu_seconds(self._server.pid), time.process_time(), time.perf_counter()
        for thread in threads:
            thread.join()
        spent = max(max(ends) - started, 1e-9)
        served = servers.cpu_seconds(self._server.pid) - asked
        return Rate(sum(counts) / spent, sum(counts), (time.process_time() - busy) / spent, served / spent)

    def _copy(self, connection: psycopg.Connection) -> int:
        with connection.cursor() as cursor, cursor.copy("COPY q (body) FROM STDIN") as copy:
            copy.write((BODY + b"\n") * BATCH)
        connection.commit()
        return BATCH

    def _claim(self, connection: psycopg.Connection) -> int:
        with connection.cursor(binary=True) as cursor:
            rows = cursor.execute(_CLAIM).fetchall()
            cursor.execute(_ACK, ([row[0] for row in rows],))
        connection.commit()
        return len(rows)

    def _fill(self, count: int, most_seconds: float) -> int:
        done, until = 0, time.monotonic() + most_seconds
        with psycopg.connect(self._url, autocommit=True) as connection:
            while done < count and time.monotonic() < until:
                at_once = min(_FILLED_AT_ONCE, count - done)
                connection.execute(_FILL, (at_once,))
                done += at_once
            connection.execute("ANALYZE q")
        return done


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def missing() -> str:
    try:
        binary("initdb", "postgresql")
        binary("pgbench", "postgresql")
    except NotInstalled as error:
        return str(error)
    return ""


@contextmanager
def run(_folder: Path) -> Iterator[Running]:
    """In a folder of its own: where we are root, it must be another user's."""
    with Roomy() as server:
        yield _Table(server).running()


POSTGRESQL = Peer(
    "PostgreSQL, SKIP LOCKED",
    "a table by hand, driven by `pgbench`; a claim is a lock in an open transaction",
    missing,
    run,
)
