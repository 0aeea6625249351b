"""PgQueuer: enqueue no-op jobs, work them off in one process, print the jobs done and the seconds it took.

    drain_pgqueuer.py DATABASE_URL JOBS MOST_SECONDS BATCH WORKERS

What its documentation says makes it fast: asyncpg, a connection of its own for every worker, uvloop, a batch above the
default of 10 for jobs that are short, `pgq autovac`, no limit of concurrency. The tables are logged, as it installs
them. For each batch it does an UPDATE that takes the rows and a DELETE with an INSERT into its log of outcomes, each
committed by itself; for each job, in memory, it makes a task, a heartbeat and a cancellation scope.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from importlib.metadata import version

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BODY = b"x" * 200
ENQUEUED_AT_ONCE = 5_000


async def enqueue(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    while jobs:
        count = min(jobs, ENQUEUED_AT_ONCE)
        await queries.enqueue(["noop"] * count, [BODY] * count, [0] * count)
        jobs -= count
    await connection.execute("ANALYZE")  # as autovacuum does within a minute; its claims are much slower before
    await connection.close()


async def drain(url: str, jobs: int, most_seconds: float, batch: int, workers: int) -> tuple[int, float]:
    """Until the last job is done, its outcome written and the worker has returned."""
    done = 0
    connections = [await asyncpg.connect(url) for _ in range(workers)]
    managers = [PgQueuer(AsyncpgDriver(connection)) for connection in connections]

    def stop() -> None:
        for manager in managers:
            manager.shutdown.set()

    async def noop(_job: Job) -> None:
        nonlocal done
        done += 1
        if done == jobs:
            stop()

    for manager in managers:
        manager.entrypoint("noop")(noop)
    asyncio.get_running_loop().call_later(most_seconds, stop)
    started = time.perf_counter()
    await asyncio.gather(
        *(manager.run(batch_size=batch, log_aggregation_interval=timedelta(0)) for manager in managers)
    )
    spent = time.perf_counter() - started
    for connection in connections:
        await connection.close()
    return done, spent


async def main() -> None:
    url, jobs, most_seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    batch, workers = int(sys.argv[4]), int(sys.argv[5])
    await enqueue(url, jobs)
    done, spent = await drain(url, jobs, most_seconds, batch, workers)
    print(done, spent, version("pgqueuer"))


if __name__ == "__main__":
    uvloop.run(main())
