"""Procrastinate: defer no-op jobs, work them off in one process, print the jobs done and the seconds it took.

    drain_procrastinate.py DATABASE_URL JOBS MOST_SECONDS CONCURRENCY WORKERS

What its documentation offers for speed: jobs deferred in batches, asynchronous tasks, workers with a concurrency, and a
pool with connections for all of them; psycopg in C, and uvloop. A worker fetches one job at a time, whatever its
concurrency, so several workers share the process. For each job it does an UPDATE that takes it and one that ends it,
each committed by itself, and triggers insert an event for both.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from importlib.metadata import version

import uvloop
from procrastinate import App, PsycopgConnector

BODY = "x" * 200
DEFERRED_AT_ONCE = 1_000


async def drain(app: App, most_seconds: float, concurrency: int, workers: int) -> float:
    """Until there is no job left, every outcome is written and the workers have returned."""
    started = time.perf_counter()
    running = [
        asyncio.create_task(
            app.run_worker_async(
                queues=["default"],
                concurrency=concurrency,
                wait=False,
                listen_notify=False,
                install_signal_handlers=False,
            )
        )
        for _ in range(workers)
    ]
    _, late = await asyncio.wait(running, timeout=most_seconds)
    for worker in late:
        worker.cancel()  # it finishes what it has begun
    for ended in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    return time.perf_counter() - started


async def main() -> None:
    url, jobs, most_seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    concurrency, workers = int(sys.argv[4]), int(sys.argv[5])
    logging.disable(logging.WARNING)  # it warns of an app in the main module, and tells about every job
    connections = workers * (concurrency + 1)
    app, done = App(connector=PsycopgConnector(conninfo=url, min_size=connections, max_size=connections)), 0

    @app.task(queue="default", name="noop")
    async def noop(body: str) -> None:  # noqa: ARG001
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, jobs, DEFERRED_AT_ONCE):
            await noop.batch_defer_async(*[{"body": BODY}] * min(DEFERRED_AT_ONCE, jobs - first))
        await app.connector.execute_query_async("ANALYZE")
        spent = await drain(app, most_seconds, concurrency, workers)
    print(done, spent, version("procrastinate"))


if __name__ == "__main__":
    uvloop.run(main())
