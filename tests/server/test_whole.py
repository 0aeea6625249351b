"""A server of several processes on a database server: each of them has a broker of its own, and writes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devtools.databases import MariadbServer, PostgresServer
from tests.databases import required
from tests.faults.crowd import Crowd
from tests.faults.sessions import observing
from tests.keys.test_http import bearer
from tests.servers import ServerProcess, is_alive
from tests.talk import Talk
from tests.waiting import wait_until

Q = "/v1/queues/q"


@pytest.fixture(params=["postgres", "mariadb"])
def store(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def server(store: str, tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path, "--store", store, "--workers", "2")
    yield server
    server.stop()
    assert "Traceback" not in server.log.read_text()


def send(talk: Talk, *bodies: str) -> None:
    assert talk("POST", f"{Q}/messages", {"messages": [{"body": body} for body in bodies]}).status == 201


def claim(talk: Talk, **wanted: int) -> list[str]:
    reply = talk("POST", f"{Q}/claim", {"hold_ms": 600_000, **wanted})
    assert reply.status == 200, reply.body
    return [message["body"] for message in reply.json["messages"]]


def test_it_is_two_edges_without_a_committer_and_ends_with_none(server: ServerProcess, store: str) -> None:
    processes = server.processes()
    assert sorted(processes.values()) == ["penstock-edge", "penstock-edge"]
    assert server.terminate() == 0
    assert not any(map(is_alive, processes))
    assert server.log.read_text().rstrip().endswith("stopped")
    wait_until(server.has_left_its_port)
    with observing(store) as sessions:
        wait_until(lambda: not sessions())


def test_what_one_edge_takes_any_other_hands_out_once(server: ServerProcess) -> None:
    with server.talks() as talks:
        assert talks[0]("PUT", Q).status == 201
        for number, talk in enumerate(talks):
            send(talk, *(f"{number} {turn}" for turn in range(5)))
        with ThreadPoolExecutor(len(talks)) as pool:
            claimed = [body for bodies in pool.map(lambda talk: claim(talk, limit=20), talks) for body in bodies]
        for talk in talks:
            claimed += claim(talk, limit=100)
        assert sorted(claimed) == sorted(f"{number} {turn}" for number in range(len(talks)) for turn in range(5))


def test_a_claim_that_waits_is_woken_by_a_send_through_any_edge(server: ServerProcess) -> None:
    with server.talks() as talks, ThreadPoolExecutor(len(talks)) as pool:
        assert talks[0]("PUT", Q).status == 201
        waiting = [pool.submit(claim, talk, wait_ms=60_000) for talk in talks[1:]]
        wait_until(lambda: all(one.running() or one.done() for one in waiting))
        for number in range(len(waiting)):
            send(talks[0], str(number))
        assert sorted(int(body) for one in waiting for body in one.result()) == list(range(len(waiting)))


def test_keys_are_known_to_every_edge_as_soon_as_they_are_made_and_revoked(server: ServerProcess) -> None:
    with server.talks() as talks:
        root = talks[0]("POST", "/v1/keys", {"name": "root", "rules": ["queue|*|*"]}).json["secret"]
        assert {talk("GET", "/v1/queues").status for talk in talks} == {401}
        for number in range(5):
            by = talks[number]
            made = by("POST", "/v1/keys", {"name": f"k{number}", "rules": ["queue|*|*"]}, **bearer(root)).json["secret"]
            assert {talk("GET", "/v1/queues", **bearer(made)).status for talk in talks} == {200}
            assert by("DELETE", f"/v1/keys/k{number}", **bearer(root)).status == 200
            assert {talk("GET", "/v1/queues", **bearer(made)).status for talk in talks} == {401}


def test_an_edge_that_was_killed_is_replaced_and_nothing_promised_is_lost(server: ServerProcess, store: str) -> None:
    crowd = Crowd([server.url])
    crowd.create()
    crowd.start(senders=4, claimers=4)
    try:
        for number in range(20):
            count = len(crowd.acked)
            wait_until(lambda count=count: len(crowd.acked) > count + 5)
            wait_until(lambda: len(server.edges()) == 2)
            os.kill(server.edges()[number % 2], signal.SIGKILL)
    finally:
        crowd.stop()
    crowd.check(store)
    wait_until(server.is_green)
    assert server.terminate() == 0


def test_requests_under_way_are_answered_at_a_stop_and_polls_end(server: ServerProcess, store: str) -> None:
    crowd = Crowd([server.url])
    crowd.create()
    with server.talks(6) as talks, ThreadPoolExecutor(6) as pool:
        assert talks[0]("PUT", Q).status == 201
        polls = [pool.submit(claim, talk, wait_ms=60_000) for talk in talks]
        wait_until(lambda: server.waiting_claims() == len(polls))
        crowd.start(senders=4, claimers=4)
        wait_until(lambda: len(crowd.acked) > 20)
        assert server.terminate() == 0
        assert [one.result() for one in polls] == [[]] * 6
    crowd.stop()
    crowd.check(store)


def test_no_process_is_left_when_the_supervisor_was_killed(server: ServerProcess) -> None:
    processes = server.processes()
    server.process.kill()
    server.wait()
    wait_until(lambda: not any(map(is_alive, processes)))
    wait_until(server.has_left_its_port)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", [PostgresServer, MariadbServer])
def test_an_edge_that_dies_while_the_database_is_away_comes_back_with_it(
    kind: type[PostgresServer | MariadbServer], tmp_path: Path
) -> None:
    with required():
        database = kind()
    with database:
        server = ServerProcess(tmp_path, "--store", database.new_url(), "--workers", "2")
        try:
            with server.talk() as talk:
                assert talk("PUT", Q).status == 201
                send(talk, "before")
            database.stop()
            [edge, _] = server.edges()
            os.kill(edge, signal.SIGKILL)
            # More often than it tries where there is no reason.
            wait_until(lambda: server.log.read_text().count("is replaced") > 6, 200)
            database.start()
            wait_until(lambda: len(server.edges()) == 2 and server.is_green())
            with server.talk() as talk:
                assert claim(talk) == ["before"]
            assert server.terminate() == 0
        finally:
            server.stop()
