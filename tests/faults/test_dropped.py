"""A network that drops what is sent between a server and its database, and says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devtools.databases import MariadbServer, PostgresServer, Server
from devtools.network import Network, NoNetwork, network
from tests.databases import required
from tests.faults.crowd import Crowd
from tests.faults.refused import check_refusals
from tests.lacking import lacking
from tests.servers import ServerProcess
from tests.talk import Reply, Talk
from tests.waiting import wait_until

KINDS = {"postgres": PostgresServer, "mariadb": MariadbServer}
HASTE = ("--store-timeout-s", "1", "--stop-grace-s", "1")


class Place:
    """A network of our own with a database and a server of Penstock's in it."""

    def __init__(self, within: Network, database: Server, store: str, server: ServerProcess) -> None:
        self.database = database
        self.store = store
        self.server = server
        self._network = within

    def drop(self) -> None:
        self._network.drop(self.database.port)

    def mend(self) -> None:
        self._network.mend()


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        own = network()
        within = own.__enter__()
    except NoNetwork as error:
        lacking("a network of one's own", str(error))
    try:
        with required():
            database = KINDS[request.param]()
        with database:
            store = database.new_url()
            server = ServerProcess(tmp_path_factory.mktemp("dropped"), "--store", store, *HASTE)
            try:
                yield Place(within, database, store, server)
                assert server.process.poll() is None
                assert "Traceback" not in server.log.read_text()
            finally:
                within.mend()
                server.stop()
    finally:
        own.__exit__(None, None, None)


@pytest.fixture(autouse=True)
def _again(place: Place) -> Iterator[None]:
    yield
    place.mend()
    wait_until(place.server.is_green)


@pytest.fixture
def talk(place: Place) -> Iterator[Talk]:
    with Talk(place.server.url, timeout=100) as talk:
        yield talk


def send(talk: Talk, queue: str, body: str) -> Reply:
    return talk("POST", f"/v1/queues/{queue}/messages", {"messages": [{"body": body}]})


def test_a_network_that_drops_packets_is_told_and_forgotten_when_it_is_mended(place: Place, talk: Talk) -> None:
    """For so long that no packet of an old connection would be sent again soon: they are given up, and made again."""
    crowd = Crowd([place.server.url], "dropped")
    crowd.create()
    wait_until(lambda: talk("PUT", "/v1/queues/poll").status in (200, 201))
    with ThreadPoolExecutor(1) as pool, Talk(place.server.url, timeout=100) as waiting:
        poll = pool.submit(waiting, "POST", "/v1/queues/poll/claim", {"wait_ms": 60_000})
        wait_until(lambda: place.server.waiting_claims() == 1)
        with crowd.at_work(senders=3, claimers=3):
            wait_until(lambda: len(crowd.acked) > 20)
            place.drop()
            wait_until(lambda: not place.server.is_green())
            check_refusals(talk)
            wait_until(lambda: "the database cannot be reached" in place.server.log.read_text())
            check_refusals(talk)
            assert not poll.done()
            place.mend()
            wait_until(place.server.is_green)
            count = len(crowd.acked)
            wait_until(lambda: len(crowd.acked) > count + 20)
            wait_until(lambda: send(talk, "poll", "after").status == 201)
        reply = poll.result()
    assert [message["body"] for message in reply.json["messages"]] == ["after"]
    crowd.check(place.store)


def test_what_is_dropped_for_a_moment_only_delays(place: Place, tmp_path: Path) -> None:
    patient = ServerProcess(tmp_path, "--store", place.store, "--store-timeout-s", "60")
    with Talk(patient.url, timeout=100) as talk, ThreadPoolExecutor(1) as pool:
        assert talk("PUT", "/v1/queues/moment").status == 201
        assert send(talk, "moment", "before").status == 201
        place.drop()
        sent = pool.submit(send, talk, "moment", "meanwhile")
        wait_until(lambda: not place.server.is_green())  # the other server, which waits for a second
        place.mend()
        assert sent.result().status == 201
    assert patient.terminate() == 0


def test_a_server_ends_although_nothing_comes_through(place: Place, tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "--store", place.store, *HASTE)
    with Talk(server.url, timeout=100) as talk:
        assert talk("PUT", "/v1/queues/ends").status == 201
        place.drop()
        assert send(talk, "ends", "x").status == 503
    assert server.terminate() == 0


def test_a_server_that_starts_meanwhile_says_why_it_cannot(place: Place, tmp_path: Path) -> None:
    place.drop()
    server = ServerProcess(tmp_path, "--store", place.store, waits=False)
    assert server.wait() == 4
    assert "the database cannot be reached" in server.log.read_text()
