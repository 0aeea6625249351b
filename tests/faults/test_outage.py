"""The database goes away and comes back: stopped, crashed, hanging, or cutting its connections."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devtools.databases import MariadbServer, PostgresServer, Server
from tests.databases import required
from tests.faults.crowd import Crowd, running
from tests.faults.refused import check_refusals
from tests.faults.sessions import cut_off, observing
from tests.servers import WORKERS, ServerProcess
from tests.talk import Reply, Talk
from tests.waiting import wait_until

KINDS = {"postgres": PostgresServer, "mariadb": MariadbServer}
# Each process that speaks HTTP has connections of its own.
LANES = 2 * WORKERS
LISTENERS = WORKERS


class Place:
    """A database server of our own, and a server of Penstock's on it that lives through all of its outages."""

    def __init__(self, database: Server, store: str, server: ServerProcess) -> None:
        self.database = database
        self.store = store
        self.server = server

    def sockets(self) -> int:
        """How many descriptors of the server's processes are sockets."""
        found = 0
        for process in (self.server.process.pid, *self.server.processes()):
            for entry in Path(f"/proc/{process}/fd").iterdir():
                try:
                    found += os.readlink(entry).startswith("socket:")
                except OSError:  # closed meanwhile
                    continue
        return found


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with required():
        database = KINDS[request.param]()
    with database:
        store = database.new_url()
        with running(tmp_path_factory.mktemp("outage"), store) as [server]:
            yield Place(database, store, server)
            assert server.process.poll() is None
            assert "Traceback" not in server.log.read_text()


@pytest.fixture
def talk(place: Place) -> Iterator[Talk]:
    with Talk(place.server.url, timeout=100) as talk:
        yield talk


@pytest.fixture(autouse=True)
def _again(place: Place) -> Iterator[None]:
    """Whatever a test has left behind: the database runs, and the server has noticed."""
    yield
    if place.database._process is None:
        place.database.start()
    place.database.resume()
    wait_until(place.server.is_green)


def send(talk: Talk, queue: str, body: str) -> Reply:
    return talk("POST", f"/v1/queues/{queue}/messages", {"messages": [{"body": body}]})


def claim(talk: Talk, queue: str, **wanted: int) -> list[str]:
    reply = talk("POST", f"/v1/queues/{queue}/claim", {"hold_ms": 600_000, "limit": 1_000, **wanted})
    assert reply.status == 200, reply.body
    return [message["body"] for message in reply.json["messages"]]


def test_a_stopped_database_is_told_at_once_and_forgotten_when_it_is_back(place: Place, talk: Talk) -> None:
    assert talk("PUT", "/v1/queues/q").status == 201
    assert send(talk, "q", "before").status == 201
    processes = place.server.processes()
    place.database.stop()
    check_refusals(talk)
    place.database.start()
    wait_until(place.server.is_green)
    assert send(talk, "q", "after").status == 201
    assert claim(talk, "q") == ["before", "after"]
    assert (place.server.process.poll(), place.server.processes()) == (None, processes)


def test_a_long_poll_lives_through_an_outage_unless_its_time_is_over(place: Place, talk: Talk) -> None:
    assert talk("PUT", "/v1/queues/poll").status == 201
    with ThreadPoolExecutor(2) as pool, Talk(place.server.url, timeout=100) as one, Talk(place.server.url, 100) as two:
        patient = pool.submit(claim, one, "poll", wait_ms=60_000)
        hurried = pool.submit(two, "POST", "/v1/queues/poll/claim", {"wait_ms": 15_000})
        wait_until(lambda: place.server.waiting_claims() == 2)
        place.database.stop()
        # Within this time the server looks by itself, and the database cannot say that there is no message.
        assert hurried.result().status == 503
        assert not patient.done()
        place.database.start()
        wait_until(place.server.is_green)
        assert send(talk, "poll", "after").status == 201
        assert patient.result() == ["after"]


def test_a_crash_loses_nothing_that_was_promised(place: Place) -> None:
    crowd = Crowd([place.server.url], "crash")
    crowd.create()
    crowd.start(senders=6, claimers=6)
    for _ in range(2):
        count = len(crowd.acked)
        wait_until(lambda count=count: len(crowd.acked) > count + 20)
        place.database.kill()
        refusals = crowd.refusals
        wait_until(lambda refusals=refusals: crowd.refusals > refusals)
        place.database.start()
    count = len(crowd.acked)
    wait_until(lambda: len(crowd.acked) > count + 20)
    crowd.stop()
    crowd.check(place.store)


def test_a_database_that_hangs_delays_and_loses_nothing(place: Place) -> None:
    crowd = Crowd([place.server.url], "hang")
    crowd.create()
    crowd.start(senders=6, claimers=6)
    for _ in range(2):
        count = len(crowd.acked)
        wait_until(lambda count=count: len(crowd.acked) > count + 20)
        place.database.pause()
        threading.Event().wait(1)  # the hang itself: so short that the server refuses nothing
        place.database.resume()
    count = len(crowd.acked)
    wait_until(lambda: len(crowd.acked) > count + 20)
    crowd.stop()
    crowd.check(place.store)


@pytest.fixture
def hurried(place: Place, tmp_path: Path) -> Iterator[ServerProcess]:
    """Another server on the same database, which waits for it for a second. On a slow machine it may be refused at any
    time: what has to be done is asked of the first server."""
    server = ServerProcess(tmp_path, "--store", place.store, "--store-timeout-s", "1", "--stop-grace-s", "1")
    yield server
    server.stop()
    assert "Traceback" not in server.log.read_text()


def test_a_database_that_hangs_for_long_is_told_and_forgotten_when_it_goes_on(
    place: Place, talk: Talk, hurried: ServerProcess
) -> None:
    assert talk("PUT", "/v1/queues/hangs").status == 201
    assert talk("PUT", "/v1/queues/waits").status == 201
    assert send(talk, "hangs", "before").status == 201
    with Talk(hurried.url, timeout=100) as refused, Talk(hurried.url, 100) as one, ThreadPoolExecutor(1) as pool:
        poll = pool.submit(claim, one, "waits", wait_ms=60_000)
        wait_until(lambda: hurried.waiting_claims() == 1)
        place.database.pause()
        check_refusals(refused)
        assert not poll.done()
        place.database.resume()
        wait_until(lambda: refused("GET", "/health").body == b"green")
        wait_until(lambda: send(refused, "hangs", "after").status == 201)
        wait_until(place.server.is_green)
        assert send(talk, "waits", "awaited").status == 201
        assert poll.result() == ["awaited"]
    before, *after = claim(talk, "hangs")
    # One that was refused for being late may have been stored all the same.
    assert (before, set(after)) == ("before", {"after"})


def test_a_hang_loses_nothing_that_was_promised(place: Place, talk: Talk, hurried: ServerProcess) -> None:
    crowd = Crowd([hurried.url], "refused")
    assert talk("PUT", crowd.path).status == 201
    crowd.start(senders=6, claimers=6)
    for _ in range(2):
        count = len(crowd.acked)
        wait_until(lambda count=count: len(crowd.acked) > count + 20)
        place.database.pause()
        refusals = crowd.refusals
        wait_until(lambda refusals=refusals: crowd.refusals > refusals)
        place.database.resume()
    count = len(crowd.acked)
    wait_until(lambda: len(crowd.acked) > count + 20)
    crowd.stop()
    crowd.check(place.store)


def test_a_server_ends_although_its_database_hangs(place: Place, talk: Talk, hurried: ServerProcess) -> None:
    assert talk("PUT", "/v1/queues/ends").status == 201
    with Talk(hurried.url, timeout=100) as refused:
        place.database.pause()
        assert send(refused, "ends", "x").status == 503
    assert hurried.terminate() == 0
    assert "stopped without the store" in hurried.log.read_text()


def test_a_server_does_not_wait_long_for_a_database_that_hangs_when_it_starts(place: Place, tmp_path: Path) -> None:
    place.database.pause()
    server = ServerProcess(tmp_path, "--store", place.store, waits=False)
    assert server.wait() == 4
    assert "the database cannot be reached" in server.log.read_text()


def test_connections_that_are_cut_off_under_load(place: Place) -> None:
    crowd = Crowd([place.server.url], "cut")
    crowd.create()
    crowd.start(senders=6, claimers=6)
    for _ in range(10):
        count = len(crowd.acked)
        wait_until(lambda count=count: len(crowd.acked) > count + 10)
        wait_until(lambda: cut_off(place.store))  # just cut off, they may not be there again yet
    crowd.stop()
    crowd.check(place.store)


def test_connections_stay_few_under_the_load_of_many(place: Place) -> None:
    crowd = Crowd([place.server.url], "many")
    crowd.create()
    seen: list[int] = []
    with observing(place.store) as others:
        wait_until(lambda: len(others()) <= LANES + LISTENERS)  # those of an outage before may not have left yet
        crowd.start(senders=32, claimers=32)
        while (len(crowd.acked) < 300 or len(seen) < 20) and not crowd.trouble:
            seen.append(len(others()))
        crowd.stop()
    crowd.check(place.store)
    assert max(seen) <= LANES + LISTENERS


def test_no_connection_is_left_behind_by_many_outages(place: Place, talk: Talk) -> None:
    assert talk("PUT", "/v1/queues/few").status == 201
    wait_until(lambda: claim(talk, "few", wait_ms=1_000) == [])
    before = place.sockets()
    for number in range(20):
        if number % 7 == 6:
            place.database.stop()
            place.database.start()
        else:
            cut_off(place.store)
        wait_until(lambda number=number: send(talk, "few", str(number)).status == 201)
    bodies = claim(talk, "few", wait_ms=1_000)
    assert [int(body) for body in bodies] == sorted({int(body) for body in bodies} | set(range(20)))
    wait_until(lambda: place.sockets() <= before + LANES)
    with observing(place.store) as others:
        wait_until(lambda: len(others()) <= LANES + LISTENERS)
