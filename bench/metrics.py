"""What it costs to count requests, and to tell the figures to a scraper that is more eager than Prometheus.

The one server is scraped four times a second and has 200 queues, of which 100 are told one by one; the other is left
alone. With `--before COMMIT`, the other is the server of an older commit, such as the last one that counted nothing.
Both are asked in turns. Counting by itself is too cheap to be seen between two servers: it is timed in a loop, and
compared with the time that a send takes.
"""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import servers
from bench.before import CannotBuild, package_of
from bench.foundation import CONNECTIONS, create_queue, folder, sends
from bench.measure import Effort, Result, absent, at_least, at_most, spread
from penstock.edge.http import Traffic

ROUNDS = 6
QUEUES = 200
EVERY_S = 0.25
CALLS = 200_000
TARGET = 0.97
MOST = 0.03
SENDS = f"durable sends, {CONNECTIONS} connections, scraped ÷ not"
COUNTING = "counting a request ÷ time of a send"


@contextmanager
def scraper(url: str) -> Iterator[list[int]]:
    """What each answer was long, in bytes."""
    stopped = threading.Event()
    sizes: list[int] = []

    def scrape() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", servers.port_of(url))
        while not stopped.wait(EVERY_S):
            connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
            answer = connection.getresponse()
            sizes.append(len(answer.read()))
            if answer.status != 200:
                raise RuntimeError(f"/metrics answered {answer.status}")
        connection.close()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield sizes
    finally:
        stopped.set()
        thread.join()


def rate(seconds: float, scraped: bool, package: Path | None) -> float:
    with folder() as path, servers.penstock(path, package=package) as (url, _):
        create_queue(url, "q")
        for number in range(QUEUES):
            create_queue(url, f"other-{number}")
        sends(url, CONNECTIONS, 1)  # what a process does only once is not measured
        if not scraped:
            return sends(url, CONNECTIONS, seconds).per_second
        with scraper(url) as sizes:
            per_second = sends(url, CONNECTIONS, seconds).per_second
        if not any(sizes):
            raise RuntimeError("nothing was scraped")
        return per_second


def counting_s() -> float:
    """The time that the edge spends for one request: two looks at the clock and one note."""
    traffic, clock = Traffic(), time.perf_counter
    began = clock()
    for _ in range(CALLS):
        at = clock()
        traffic.note(201, clock() - at, False)
    return (clock() - began) / CALLS


def metrics(effort: Effort) -> Iterator[Result]:
    try:
        older = package_of(effort.before) if effort.before else None
    except CannotBuild as error:
        yield absent(SENDS, f"≥ {TARGET}", str(error))
        return
    pairs = []
    for turn in range(effort.rounds(ROUNDS)):
        rates = {
            scraped: rate(effort.seconds, scraped, None if scraped else older)
            for scraped in ((True, False) if turn % 2 else (False, True))
        }
        pairs.append((rates[True], rates[False]))
    ratios = [scraped / alone for scraped, alone in pairs]
    alone = statistics.median(alone for _, alone in pairs)
    yield at_least(
        SENDS,
        TARGET,
        statistics.median(ratios),
        spread(ratios),
        scraped=statistics.median(scraped for scraped, _ in pairs),
        alone=alone,
    )
    share = statistics.median(counting_s() for _ in range(5)) * alone
    yield at_most(COUNTING, MOST, share, "", sends_per_second=alone)


MEASURES = {"metrics": metrics}
