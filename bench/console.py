"""How fast the pages of the console answer where there is much to show: 10,000 queues that hold 1,000,000 messages.

A page is asked for again and again on one connection, as somebody who reloads it would. What it takes is compared with
a request that does nothing, in turns on the same machine; the target is a time, as people wait for pages and not for
ratios.
"""

from __future__ import annotations

import http.client
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from bench import servers
from bench.foundation import BODY, folder
from bench.measure import Effort, Result, at_most, told
from penstock.clock import system_clock
from penstock.model import Draft, Settings
from penstock.stores import open_store

QUEUES = 10_000
MESSAGES = 1_000_000
ROUNDS = 5
TIMES = 20
TARGET_MS = 100
FILE = "penstock.db"
# The queue that the pages of a queue show: one of the middle, and a long one.
QUEUE = "queue-05000"
LONG = 100_000
_AT_ONCE = 5_000
SLOWEST = f"slowest page of the console ÷ {TARGET_MS} ms"

PAGES: Mapping[str, str] = {
    "queues": "/console",
    "queues, by name": "/console?sort=name&order=rising",
    "queues, by messages that are ready": "/console?sort=ready&order=falling",
    "queues, by a part of their name": "/console?filter=499",
    "queues, the last page": "/console?sort=name&order=rising&page=100",
    "a queue": f"/console/queues/{QUEUE}",
    "its messages": f"/console/queues/{QUEUE}/messages",
    "its messages with a text": f"/console/queues/{QUEUE}/messages?text=xxx",
    "ledger": f"/console/ledger?queue={QUEUE}",
    "tasks": "/console/tasks",
    "actions": "/console/actions",
}


def fill(path: Path, queues: int, messages: int) -> None:
    """A tenth of the messages lie in one queue, the others in all alike."""
    store = open_store(f"sqlite:///{path / FILE}")
    now = system_clock()
    names = [f"queue-{number:05}" for number in range(queues)]
    long = messages * LONG // MESSAGES
    draft = Draft(BODY, "text/plain")
    for start in range(0, queues, _AT_ONCE // 10):
        with store.unit() as unit:
            for name in names[start : start + _AT_ONCE // 10]:
                unit.create_queue(name, Settings(), now)
    each = [draft] * ((messages - long) // queues)
    for start in range(0, queues, 50):
        with store.unit() as unit:
            for name in names[start : start + 50]:
                unit.send(name, each, now)
    for _ in range(0, long, _AT_ONCE):
        with store.unit() as unit:
            unit.send(names[queues // 2], [draft] * _AT_ONCE, now)
    store.close()


class Browser:
    """Asks as browsers do, and takes the time of whole answers."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", servers.port_of(url), timeout=120)
        self._cookie = ""

    def open(self, path: str) -> float:
        """How many seconds it took. Raises where it was not a page."""
        headers = {"Cookie": self._cookie} if self._cookie else {}
        began = time.perf_counter()
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {body[:200]!r}")
        self._cookie = self._cookie or (answer.getheader("Set-Cookie") or "").partition(";")[0]
        return took

    def close(self) -> None:
        self._connection.close()


def console(effort: Effort) -> Iterator[Result]:
    queues, messages = (QUEUES // 10, MESSAGES // 10) if effort.quick else (QUEUES, MESSAGES)
    took: dict[str, list[float]] = {name: [] for name in PAGES}
    noops: list[float] = []
    with folder() as path:
        fill(path, queues, messages)
        pages = {name: page.replace(QUEUE, f"queue-{queues // 2:05}") for name, page in PAGES.items()}
        with (
            servers.penstock(path) as (url, _),
            servers.edge_noop() as (noop_url, _),
            closing(Browser(url)) as browser,
            closing(Browser(noop_url)) as noop,
        ):
            for page in pages.values():
                browser.open(page)  # what is made only once is not measured
            for _ in range(effort.rounds(ROUNDS)):
                noops += [noop.open("/noop/page") for _ in range(TIMES)]
                for name, page in pages.items():
                    took[name] += [browser.open(page) for _ in range(TIMES)]
    nothing = statistics.median(noops)
    medians = {name: statistics.median(times) for name, times in took.items()}
    slowest = max(medians, key=lambda name: medians[name])
    yield at_most(
        SLOWEST,
        1,
        medians[slowest] * 1000 / TARGET_MS,
        f"it is '{slowest}'",
        queues=queues,
        messages=messages,
        milliseconds=medians[slowest] * 1000,
    )
    for name, seconds in medians.items():
        worst = sorted(took[name])[-max(1, len(took[name]) // 20)]
        yield told(
            f"page of the console ÷ a request that does nothing: {name}",
            seconds / nothing,
            milliseconds=seconds * 1000,
            one_of_twenty_ms=worst * 1000,
        )


MEASURES = {"console": console}
