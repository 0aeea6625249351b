"""A server of several processes: how it begins, what holds across its processes, and how it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from penstock.client import Client, Patience
from penstock.keys import digest
from penstock.model import Key
from penstock.server.board import Board
from penstock.server.config import Config, adopted
from penstock.stores import open_store
from penstock.timings import Timings
from tests.edge.test_end import certificate
from tests.faces.mqs.conftest import PLAIN
from tests.keys.test_http import bearer
from tests.lacking import lacking
from tests.servers import ServerProcess, is_alive
from tests.talk import Talk
from tests.waiting import wait_until

__all__ = ["certificate"]

Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[ServerProcess] = []

    def start_one(*flags: str, **options: object) -> ServerProcess:
        servers.append(ServerProcess(tmp_path, "--workers", "2", *flags, **options))
        return servers[-1]

    yield start_one
    for server in servers:
        server.stop()


def test_it_begins_with_two_edges_and_a_committer_and_ends_with_none(start: Start) -> None:
    server = start()
    processes = server.processes()
    assert sorted(processes.values()) == ["penstock-commit", "penstock-edge", "penstock-edge"]
    assert server.terminate() == 0
    assert not any(map(is_alive, processes))
    assert server.log.read_text().rstrip().endswith("stopped")


def test_connections_are_dealt_out_to_both_edges(start: Start) -> None:
    server = start()
    edges = server.edges()

    before = [len(sockets_of(pid)) for pid in edges]
    with server.talks(40) as opened:
        for talk in opened:
            assert talk("GET", "/health").status == 200
        after = [len(sockets_of(pid)) for pid in edges]
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert sum(after) - sum(before) == 40


def sockets_of(pid: int) -> list[int]:
    """Their numbers in a process, which opens and closes other files meanwhile."""
    found = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(one).startswith("socket:"):
                found.append(int(one.name))
    return found


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "serve", "--workers", "2", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_port_that_is_taken_is_refused(start: Start, tmp_path: Path) -> None:
    """Although both would agree to share it."""
    port = start().url.rpartition(":")[2]
    refused = run(tmp_path, "--port", port, "--store", "sqlite:///other.db")
    assert refused.returncode == 2
    assert "the port is taken" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--store", "sqlite:///no.db/p.db"], "no.db"),
        (["--host", "0.0.0.0"], "the store has no API key"),
        (["--store", "nonsense://x"], "nonsense"),
    ],
)
def test_a_server_that_cannot_begin_says_why_and_leaves_nothing(tmp_path: Path, flags: list[str], reason: str) -> None:
    (tmp_path / "no.db").write_text("not a folder")
    refused = run(tmp_path, "--port", "0", *flags)
    assert refused.returncode != 0
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_revoked_key_is_refused_by_every_edge_as_soon_as_that_is_answered(start: Start) -> None:
    server = start()
    with server.talk() as talk, server.talks() as opened:
        root = talk("POST", "/v1/keys", {"name": "root", "rules": ["queue|*|*"]}).json["secret"]
        for one in opened:
            assert one("GET", "/v1/queues").status == 401
        for number in range(5):
            made = talk("POST", "/v1/keys", {"name": f"k{number}", "rules": ["queue|*|*"]}, **bearer(root)).json
            assert {one("GET", "/v1/queues", **bearer(made["secret"])).status for one in opened} == {200}
            assert talk("DELETE", f"/v1/keys/k{number}", **bearer(root)).status == 200
            assert {one("GET", "/v1/queues", **bearer(made["secret"])).status for one in opened} == {401}


def talk_that_answers(server: ServerProcess) -> Talk:
    """With an edge that does not hang."""
    while True:
        talk = Talk(server.url, timeout=1)
        try:
            talk("GET", "/health")
        except TimeoutError:
            talk.close()
        else:
            talk._connection.sock.settimeout(100)
            return talk


def test_an_edge_that_hangs_cannot_serve_with_a_revoked_key(start: Start) -> None:
    server = start()
    with server.talk() as talk:
        root = talk("POST", "/v1/keys", {"name": "root", "rules": ["queue|*|*"]}).json["secret"]
        made = talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"]}, **bearer(root)).json["secret"]
        hanging = server.edges()[0]
        os.kill(hanging, signal.SIGSTOP)
        with talk_that_answers(server) as working:
            assert working("DELETE", "/v1/keys/k", **bearer(root)).status == 200
        assert not is_alive(hanging)
        wait_until(lambda: len(server.processes()) == 3, 60)
        with server.talks() as opened:
            assert {one("GET", "/v1/queues", **bearer(made)).status for one in opened} == {401}


def test_the_limit_on_connections_holds_for_all_edges_together(start: Start) -> None:
    server = start("--max-connections", "20")
    with server.talks(20) as opened:
        for talk in opened:
            assert talk("GET", "/health").status == 200
        with server.talk() as one_more:
            assert one_more("GET", "/health").status == 503


def test_wrong_keys_are_counted_by_all_edges_together(start: Start) -> None:
    server = start()
    with server.talks() as talks:
        talks[0]("POST", "/v1/keys", {"name": "root", "rules": ["queue|*|*"]})
        assert_patience_is_shared(lambda talk: talk("GET", "/v1/queues", **bearer("psk_wrong")).status, 401, talks)


def assert_patience_is_shared(ask: Callable[[Talk], int], refused: int, talks: Sequence[Talk]) -> None:
    """Each edge alone would answer as many wrong keys as all of them together do."""
    timings, began, answered = Timings(), time.monotonic(), 0
    while (status := ask(talks[answered % len(talks)])) == refused and answered < 10 * timings.wrong_keys:
        answered += 1
    assert status == 429
    # A server that is slow answers more: those that the seconds have given back.
    given_back = timings.wrong_keys_per_second * (time.monotonic() - began)
    assert answered <= 1.5 * timings.wrong_keys + given_back


def test_what_bodies_hold_is_limited_for_all_edges_together_while_the_committer_is_behind(start: Start) -> None:
    """Those that are let in are answered when it goes on. The last piece of a body, at most a quarter of these, is not
    counted; by limits of their own the edges would let in more than 50."""
    server = start("--max-bodies-mib", "32", "--store-timeout-s", "90")
    committer = next(pid for pid, name in server.processes().items() if name == "penstock-commit")
    body = bytes(1 << 20)

    def send(talk: Talk) -> int:
        return talk("POST", "/messages/q", body).status

    with server.talks(60) as talks, ThreadPoolExecutor(60) as pool:
        assert talks[0]("PUT", "/queues/q", PLAIN).status == 201
        os.kill(committer, signal.SIGSTOP)
        try:
            sends = [pool.submit(send, talk) for talk in talks]
            wait_until(lambda: sum(one.done() for one in sends) >= 60 - 40)
            assert {one.result() for one in sends if one.done()} == {503}
        finally:
            os.kill(committer, signal.SIGCONT)
        statuses = [one.result() for one in sends]
        assert 0 < statuses.count(201) <= 40
        assert set(statuses) == {201, 503}
        assert talks[0]("GET", "/queues/q").json["status"]["messages"] == statuses.count(201)
        assert send(talks[0]) == 201


def test_an_edge_that_hangs_holds_up_no_other(start: Start) -> None:
    """Not even with claims whose answers it does not take."""
    server = start()
    hanging = server.edges()[0]
    with server.talks() as talks:
        assert talks[0]("PUT", "/queues/q", PLAIN).status == 201
        for talk in talks:
            talk._connection.request("POST", "/v1/queues/q/claim", b'{"wait_ms": 60000}')
        os.kill(hanging, signal.SIGSTOP)
        try:
            with talk_that_answers(server) as working:
                for _ in range(len(talks)):
                    assert working("POST", "/messages/q", b"x" * (1 << 20)).status == 201
                assert working("GET", "/health").body == b"green"
        finally:
            os.kill(hanging, signal.SIGCONT)
        claimed = [json.load(talk._connection.getresponse())["messages"] for talk in talks]
        assert [len(messages) for messages in claimed] == [1] * len(talks)


def last_socket_of(pid: int) -> socket.socket:
    """The same as the one that a process has got last: for a committer a bridge, if no work has come since."""
    numbers = sockets_of(pid)
    process = os.pidfd_open(pid)
    try:
        number = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, max(numbers), 0)
    finally:
        os.close(process)
    if number < 0:
        lacking("a file of another process cannot be had", os.strerror(ctypes.get_errno()))
    return socket.socket(fileno=number)


_PIDFD_GETFD = 438


def test_a_bridge_that_breaks_is_replaced(start: Start) -> None:
    """And neither of the processes at its ends."""
    server = start()
    processes = server.processes()
    committer = next(pid for pid, name in processes.items() if name == "penstock-commit")
    for times in range(1, 4):
        with last_socket_of(committer) as bridge:
            assert bridge.family == socket.AF_UNIX
            bridge.setblocking(True)
            bridge.sendall(b"\xff" * 64)
        wait_until(lambda times=times: server.log.read_text().count("the bridge to the committer has broken") == times)
        wait_until(server.is_green)
    assert server.processes() == processes
    with server.talks() as talks:
        assert talks[0]("PUT", "/queues/q", PLAIN).status == 201
        assert {talk("POST", "/messages/q", b"x").status for talk in talks} == {201}


def test_as_many_keys_as_there_may_be(start: Start, tmp_path: Path) -> None:
    """They are more than the supervisor could be told in one go."""
    (tmp_path / "data").mkdir()
    store = open_store(f"sqlite:///{tmp_path}/data/penstock.db")
    rules = tuple(f"queue|post|{'x' * 240}{number}" for number in range(10))
    with store.unit() as unit:
        for number in range(500):
            unit.keys.create(Key(f"k{number}", digest(store.secret, b"%d" % number), rules, 0))
    store.close()
    with start().talks() as talks:
        assert {talk("GET", "/v1/queues").status for talk in talks} == {401}
        assert {talk("GET", "/v1/queues", **bearer("499")).status for talk in talks} == {403}


def test_a_committer_that_dies_at_its_start_ends_the_server(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "p.db")) as locked:
        locked.execute("BEGIN EXCLUSIVE")
        server = ServerProcess(tmp_path, "--workers", "2", "--store", "sqlite:///p.db", waits=False)
        wait_until(lambda: "penstock-commit" in server.processes().values())
        [committer] = server.processes()
        os.kill(committer, signal.SIGKILL)
        assert server.wait() != 0
    assert "committer could not begin: it was ended by signal 9" in server.log.read_text()


# The server, but the third bridge cannot be made the first time.
_FEW_FILES = """
import sys
from penstock.cli import main
from penstock.server.workers import supervisor
made, introduce = [], supervisor.introduce
def try_to_introduce(*ends):
    made.append(ends)
    if len(made) == 3:
        raise OSError(24, "Too many open files")
    introduce(*ends)
supervisor.introduce = try_to_introduce
main(sys.argv[4:])
"""


def test_an_edge_whose_bridge_cannot_be_made_yet_gets_it_later_and_is_not_started_twice(start: Start) -> None:
    server = start(prefix=[sys.executable, "-c", _FEW_FILES])
    [edge, other] = server.edges()
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: "cannot be made, and is tried again: [Errno 24]" in server.log.read_text(), 60)
    wait_until(server.is_green, 60)
    wait_until(lambda: len(server.edges()) == 2)
    [kept, new] = server.edges()
    assert kept == other
    assert new not in (edge, other)
    assert server.terminate() == 0


def test_a_store_that_cannot_be_used_any_more_ends_the_server_with_the_reason(start: Start, tmp_path: Path) -> None:
    server = start()
    processes = server.processes()
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    (tmp_path / "data" / "penstock.db").write_text("not a database " * 1_000)
    os.kill(next(pid for pid, name in processes.items() if name == "penstock-commit"), signal.SIGKILL)
    assert server.wait() != 0
    assert "penstock.db" in server.log.read_text().splitlines()[-1]
    wait_until(lambda: not any(map(is_alive, processes)))


def test_settings_are_read_again(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("max_connections = 20\n")
    server = start()
    file.write_text('max_connections = 3\nstore_connections = 9\nlog_format = "json"\n')
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "a restart is needed for store_connections" in server.log.read_text(), 60)

    def has_no_room() -> bool:
        with server.talks(4) as opened:
            return 503 in [talk("GET", "/health").status for talk in opened]

    wait_until(has_no_room, 60)
    file.write_text("max_connections = 0\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "settings are not taken over: max_connections" in server.log.read_text(), 60)
    assert server.terminate() == 0


def test_a_certificate_that_cannot_be_used_is_not_taken_over_by_any_process(
    start: Start, certificate: tuple[str, str]
) -> None:
    cert, key = certificate
    server = start("--tls-cert", cert, "--tls-key", key)
    trusting = ssl.create_default_context(cafile=cert)
    trusting.check_hostname = False
    good = Path(cert).read_text()
    Path(cert).write_text("none")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "settings are not taken over: tls_cert or tls_key cannot be used" in server.log.read_text(), 60)
    [edge, _] = server.edges()
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: edge not in server.edges() and len(server.edges()) == 2, 60)
    assert "settings are read again" not in server.log.read_text()
    with Client(server.url, tls=trusting, patience=Patience(60)) as client:
        assert client.health() == "green"
    Path(cert).write_text(good)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "settings are read again" in server.log.read_text(), 60)
    assert server.terminate() == 0


def test_clients_that_hang_up_leave_no_claim_behind_and_take_no_message(start: Start) -> None:
    server = start()
    with server.talk() as talk:
        talk("PUT", "/v1/queues/q", {})
        body = b'{"wait_ms": 60000}'
        request = b"POST /v1/queues/q/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(request + body)

        def all_have_ended() -> bool:
            [committer, *_] = talk("GET", "/v1/processes").json["processes"]
            return committer["operations"] > 40 and committer["waiting_claims"] == 0

        wait_until(all_have_ended, 60)
        talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "x"}]})
        [message] = talk("POST", "/v1/queues/q/claim", {}).json["messages"]
        assert message["receives"] == 1


def test_a_half_closed_client_that_gets_a_message_is_the_only_one(start: Start) -> None:
    server = start()
    with server.talk() as talk:
        talk("PUT", "/v1/queues/q", {})
        talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "x"}]})
        body = b'{"wait_ms": 60000}'
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            head = b"POST /v1/queues/q/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
            client.sendall(head + body)
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert b'"body":"x"' in answer
        assert talk("POST", "/v1/queues/q/claim", {}).json == {"messages": []}


def test_totals_do_not_fall_while_a_process_is_replaced() -> None:
    board = Board(["committer", "edge-1"])
    committer = board.place("committer")
    for name, value in {"pid": 7, "cpu_ms": 5, "units": 100}.items():
        committer.write(name, value)
    assert sum(report.units for report in board.reports()) == 100
    board.leave("committer")
    assert [(report.pid, report.units) for report in board.reports()] == [(0, 100)]


def test_a_store_in_memory_has_one_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--workers", "2", "--store", "memory://"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "workers is 2, but memory:// lives in one process alone" in ended.stderr


def test_a_signal_to_the_whole_group_stops_it_in_order(tmp_path: Path) -> None:
    """As systemd and some shells send it: a claim that waits is still told that there was nothing."""
    server = ServerProcess(tmp_path, "--workers", "2", start_new_session=True)
    with ThreadPoolExecutor() as pool, server.talk() as talk, server.talk() as waiting:
        talk("PUT", "/v1/queues/q", {})
        claim = pool.submit(waiting, "POST", "/v1/queues/q/claim", {"wait_ms": 60_000})
        wait_until(lambda: b'"waiting_claims":1' in talk("GET", "/v1/processes").body, 60)
        os.killpg(server.process.pid, signal.SIGTERM)
        assert (claim.result().status, claim.result().body) == (200, b'{"messages":[]}')
    assert server.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        server.talk()("GET", "/health")


def test_only_what_can_change_is_adopted() -> None:
    running = Config(port=1, idle_timeout_s=5.0)
    config, unheeded = adopted(running, Config(port=2, idle_timeout_s=6.0, tls_cert="c", tls_key="k"))
    assert config == Config(port=1, idle_timeout_s=6.0)
    assert unheeded == ["port", "tls_cert", "tls_key"]
