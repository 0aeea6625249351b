"""`/health/live` and `/health/ready`: what they say of a server, and how soon, whatever has become of its store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.bridge.remote import RemoteBroker
from penstock.edge.http import Request, Response
from penstock.errors import CommitterGone, StoreBusy, StoreUnavailable
from penstock.faces.probes import Probes
from penstock.pending import Pending
from penstock.timings import Timings
from tests.keys.test_http import bearer
from tests.server.test_workers import Start, start
from tests.servers import WORKERS, ServerProcess, ThreadServer
from tests.talk import Reply
from tests.waiting import wait_until

__all__ = ["start"]

READY = {
    "ready": True,
    "checks": [{"name": name, "ok": True} for name in ("running", "store", "room", "keys")],
}
ASK = Request("GET", "/health/ready")


@pytest.fixture
def timings() -> Timings:
    """A store that is slow is waited for, and no look at the API keys comes in between."""
    return Timings(probe_s=60, keys_s=3_600)


def ready(server: ThreadServer | ServerProcess) -> Reply:
    with server.talk() as talk:
        return talk("GET", "/health/ready")


def failing(reply: Reply) -> dict[str, str]:
    return {check["name"]: check["why"] for check in reply.json["checks"] if not check["ok"]}


def test_a_server_at_work_is_live_and_ready(server: ThreadServer) -> None:
    with server.talk() as talk:
        live = talk("GET", "/health/live")
        assert (live.status, live.json) == (200, {"live": True})
        answer = talk("GET", "/health/ready")
        assert (answer.status, answer.json) == (200, READY)
        assert answer.headers["content-type"] == "application/json"
        assert talk("HEAD", "/health/ready").status == 200
        assert talk("GET", "/health").body == b"green"


def test_a_store_that_fails_is_not_ready_and_lives(server: ThreadServer) -> None:
    def fail(*_: object) -> Any:
        raise StoreUnavailable("db.internal.example:5432 said no")

    server.store.unit = fail
    answer = ready(server)
    assert (answer.status, answer.json["ready"]) == (503, False)
    assert failing(answer)["store"] == "the store cannot be used; the log says why"
    assert b"internal.example" not in answer.body
    with server.talk() as talk:
        assert talk("GET", "/health/live").status == 200
        assert talk("GET", "/health").body == b"red"
    del server.store.unit
    wait_until(lambda: ready(server).json == READY)


def test_a_full_device_still_reads_and_stays_ready(server: ThreadServer) -> None:
    server.store.has_room = lambda: False
    answer = ready(server)
    assert (answer.status, answer.json["ready"]) == (200, True)
    assert list(failing(answer)) == ["room"]


def test_api_keys_that_cannot_be_read(server: ThreadServer) -> None:
    for front in server.fronts:
        front.keys.stop()
        front.keys.is_current = False
    answer = ready(server)
    assert answer.status == 503
    assert list(failing(answer)) == ["keys"]


def test_nobody_needs_an_api_key_for_them(server: ThreadServer) -> None:
    with server.talk() as talk:
        assert talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"]}).status == 201
        assert talk("GET", "/v1/queues").status == 401
        assert talk("GET", "/health/live").status == talk("GET", "/health/ready").status == 200
        assert talk("GET", "/health/ready", **bearer("wrong")).status == 200


def test_their_word_is_reserved_and_mqcore_alone_keeps_it(tmp_path: Path) -> None:
    shared = ThreadServer("memory://", faces="native,mqcore")
    alone = ThreadServer("memory://", faces="mqcore")
    try:
        with shared.talk() as talk:
            assert talk("GET", "/health/live").status == 200
            assert talk("PUT", "/health").status == 400
        with alone.talk() as talk:
            assert talk("PUT", "/health").status == 201
            assert talk("GET", "/health/live").status == 404
    finally:
        shared.stop()
        alone.stop()


class Asked:
    """A broker that answers when a test says so, and a clock that strikes then."""

    def __init__(self) -> None:
        self.checks: list[Pending[bool]] = []
        self.timers: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self.probes = Probes(self, self, lambda: True, 0.8)  # type: ignore[arg-type]

    def check_room(self) -> Pending[bool]:
        self.checks.append(Pending())
        return self.checks[-1]

    def call_later(self, _seconds: float, callback: Callable[..., None], *words: object) -> Asked:
        self.timers.append((callback, words))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def ask(self) -> list[Response]:
        told: list[Response] = []
        self.probes.ready(ASK).listen(told.append, told.append)
        return told

    def strike(self) -> None:
        [(callback, words)] = self.timers
        callback(*words)


def why(told: list[Response]) -> str:
    [response] = told
    assert response.status == 503
    [failed] = [check for check in json.loads(response.body)["checks"] if not check["ok"]]
    return failed["why"]


def test_a_store_that_hangs_is_asked_once_and_not_waited_for() -> None:
    asked = Asked()
    first, second = asked.ask(), asked.ask()
    assert (first, second) == ([], [])
    asked.strike()
    assert why(first) == why(second) == "the store has not answered in time"
    third = asked.ask()
    assert len(asked.checks) == 1
    asked.checks[0].resolve(True)
    assert third[0].status == 200
    assert not asked.timers
    asked.ask()
    assert len(asked.checks) == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CommitterGone("gone"), "the process that writes to the store has ended"),
        (StoreBusy("busy"), "another process has kept the store locked"),
        (OSError("secret.example"), "the store cannot be used"),
    ],
)
def test_each_reason_has_words_of_its_own(error: Exception, said: str) -> None:
    asked = Asked()
    told = asked.ask()
    asked.checks[0].reject(error)
    assert why(told).startswith(said)


def test_an_edge_without_a_committer_says_so() -> None:
    told: list[Exception] = []
    RemoteBroker(1.0).check_room().listen(told.append, told.append)
    assert isinstance(told[0], CommitterGone)


def test_a_committer_that_hangs(start: Start) -> None:
    server = start()
    [committer] = [pid for pid, name in server.processes().items() if name == "penstock-commit"]
    os.kill(committer, signal.SIGSTOP)
    try:
        answer = ready(server)
        assert failing(answer)["store"] == "the store has not answered in time"
        with server.talks() as talks:
            assert {talk("GET", "/health/live").status for talk in talks} == {200}
    finally:
        os.kill(committer, signal.SIGCONT)
    wait_until(lambda: ready(server).json == READY)


def test_a_committer_that_has_died_is_told_until_there_is_another(start: Start) -> None:
    server = start()
    [committer] = [pid for pid, name in server.processes().items() if name == "penstock-commit"]
    os.kill(committer, signal.SIGKILL)
    wait_until(lambda: "committer has ended, and is replaced" in server.log.read_text())
    wait_until(lambda: ready(server).json == READY)


@pytest.mark.parametrize("workers", [1, 2])
def test_who_was_told_to_stop_is_not_ready(start: Start, workers: int) -> None:
    server = start("--workers", str(workers), "--header-timeout-s", "90", "--stop-grace-s", "90")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /health/ready HTTP/1.1\r\n")
        # Answered only after the connection has been accepted, and the beginning of its request read.
        with server.talks() as talks:
            assert {talk("GET", "/health/live").status for talk in talks} == {200}
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in server.log.read_text())
        wait_until(server.has_left_its_port)
        client.sendall(b"Host: localhost\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 503 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2]) == {
        "ready": False,
        "checks": [{"name": "running", "ok": False, "why": "the server was told to stop"}],
    }
    assert server.wait() == 0


@pytest.mark.skipif(WORKERS > 1, reason="asks the broker of one process")
async def test_the_broker_tells_of_room_as_of_its_last_unit(server: ThreadServer) -> None:
    for roomy in (True, False, True):
        server.store.has_room = lambda roomy=roomy: roomy
        answer = await asyncio.to_thread(ready, server)
        assert failing(answer).keys() == (set() if roomy else {"room"})
