"""Servers whose clocks are minutes apart, or jump, agree on the time of their database."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.clock import system_clock
from tests.lacking import not_installed
from tests.servers import ServerProcess
from tests.talk import Talk

LIBRARIES = [f"/usr/lib/{folder}/faketime/libfaketime.so.1" for folder in ("x86_64-linux-gnu", "aarch64-linux-gnu")] + [
    "/usr/lib/faketime/libfaketime.so.1"
]
MINUTES = 60
# A server knows the database's time as exactly as that answers quickly, which on a busy machine it does not.
INEXACT_S = 0.5


class Skewed:
    """A server process whose clock can be set."""

    def __init__(self, library: str, folder: Path, store: str, ahead_s: int) -> None:
        self._offset = folder / f"ahead-{ahead_s}"
        self.set(ahead_s)
        environment = {
            **os.environ,
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.server = ServerProcess(folder, "--store", store, env=environment)

    def set(self, ahead_s: int) -> None:
        written = self._offset.with_suffix(".new")
        written.write_text(f"{ahead_s:+d}\n")
        written.rename(self._offset)  # it is read all the time, and must never be half written

    def clock(self) -> float:
        """What it believes to be the time, from the header of an answer."""
        with self.server.talk() as talk:
            return time.mktime(time.strptime(talk("GET", "/health").headers["Date"], "%a, %d %b %Y %H:%M:%S GMT"))


class Servers:
    """One whose clock is five minutes fast, and one whose clock is five minutes slow."""

    def __init__(self, library: str, folder: Path, store: str) -> None:
        with ThreadPoolExecutor(2) as pool:
            self.fast, self.slow = pool.map(
                lambda ahead_s: Skewed(library, folder, store, ahead_s), (5 * MINUTES, -5 * MINUTES)
            )

    def pair(self, first: str) -> tuple[Skewed, Skewed]:
        return (self.fast, self.slow) if first == "fast" else (self.slow, self.fast)


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    library = next((path for path in LIBRARIES if Path(path).exists()), None)
    if library is None:
        not_installed("libfaketime")
    databases = request.getfixturevalue(f"shared_{request.param}")
    store = databases.new_url()
    servers = Servers(library, tmp_path_factory.mktemp("clocks"), store)
    yield servers
    servers.fast.server.stop()
    servers.slow.server.stop()
    databases.drop(store)


@pytest.fixture(params=["fast", "slow"])
def skewed(request: pytest.FixtureRequest, servers: Servers) -> Iterator[tuple[Skewed, Skewed]]:
    """The two of them, either one first, with a queue q of a minute's retention."""
    one, two = servers.pair(request.param)
    with one.server.talk() as talk:
        assert talk("PUT", "/v1/queues/q", {"retention_ms": MINUTES * 1000}).status == 201
    yield one, two
    servers.fast.set(5 * MINUTES)
    servers.slow.set(-5 * MINUTES)
    with one.server.talk() as talk:
        assert talk("DELETE", "/v1/queues/q").status == 200


@pytest.fixture
def one(skewed: tuple[Skewed, Skewed]) -> Iterator[Talk]:
    with skewed[0].server.talk() as talk:
        yield talk


@pytest.fixture
def two(skewed: tuple[Skewed, Skewed]) -> Iterator[Talk]:
    with skewed[1].server.talk() as talk:
        yield talk


def send(talk: Talk, body: str, **options: int) -> None:
    assert talk("POST", "/v1/queues/q/messages", {"messages": [{"body": body, **options}]}).status == 201


def claim(talk: Talk, **wanted: int) -> list[dict]:
    reply = talk("POST", "/v1/queues/q/claim", wanted)
    assert reply.status == 200, reply.body
    return reply.json["messages"]


def test_the_clocks_really_differ(servers: Servers) -> None:
    assert servers.fast.clock() - servers.slow.clock() > 9 * MINUTES


def test_a_claim_of_one_holds_for_the_other(one: Talk, two: Talk) -> None:
    send(one, "m")
    [message] = claim(two, hold_ms=55_000)
    assert claim(one) == []
    assert abs(message["sent_at"] - system_clock()) < MINUTES * 1000
    assert abs(message["ready_at"] - system_clock()) < 2 * MINUTES * 1000
    assert one("POST", "/v1/queues/q/renew", {"receipts": [message["receipt"]], "hold_ms": 50_000}).json["done"] == [
        True
    ]
    assert claim(two) == []


def test_a_claim_of_one_runs_out_for_the_other_in_its_time(one: Talk, two: Talk) -> None:
    send(one, "m")
    begun = time.monotonic()
    assert claim(one, hold_ms=1_000)
    assert [message["body"] for message in claim(two, wait_ms=25_000)] == ["m"]
    assert time.monotonic() - begun >= 1 - INEXACT_S


def test_a_delay_told_to_one_is_kept_by_the_other(one: Talk, two: Talk) -> None:
    begun = time.monotonic()
    send(one, "m", delay_ms=1_000)
    claimed = claim(two) or claim(two, wait_ms=25_000)
    assert [message["body"] for message in claimed] == ["m"]
    assert time.monotonic() - begun >= 1 - INEXACT_S


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_clock_that_jumps_changes_nothing(skewed: tuple[Skewed, Skewed], one: Talk, two: Talk, ahead_s: int) -> None:
    """Neither the retention of what is there, nor a claim, nor a delay that somebody waits for."""
    send(one, "held")
    assert claim(one, hold_ms=55_000)
    send(one, "kept")
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        send(one, "delayed", delay_ms=1_500)
        assert [message["body"] for message in claim(two, hold_ms=55_000)] == ["kept"]
        waiting = pool.submit(claim, two, wait_ms=25_000)
        for server in skewed:
            server.set(ahead_s)
        assert [message["body"] for message in waiting.result()] == ["delayed"]
    assert time.monotonic() - begun >= 1.5 - INEXACT_S
    assert skewed[1].clock() - time.mktime(time.gmtime()) == pytest.approx(ahead_s, abs=5 * MINUTES)
    assert claim(one, limit=10) == []
