"""What a server tells the systemd that has started it, over a real socket; and the unit file that we hand out."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devtools.databases import stat_of
from penstock.server.board import Board
from penstock.server.systemd import Systemd
from penstock.server.workers.control import SupervisorEnd
from penstock.server.workers.process import EDGE, Process
from penstock.server.workers.watchdog import Watchdog
from tests.docs.pages import ROOT
from tests.lacking import path_of
from tests.servers import ServerProcess
from tests.waiting import wait_until

UNIT = ROOT / "deploy/systemd/penstock.service"
LIVES = "WATCHDOG=1"
# Longer than a process may stand still unnoticed; half of it is how often there is a sign of life.
WATCHDOG_USEC = 6_000_000


class Listener:
    """The other end, as systemd has it."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(60)
        self.environ = {"NOTIFY_SOCKET": address}
        self.heard: list[dict[str, str]] = []

    def hear(self) -> dict[str, str]:
        text = self._socket.recv(65536).decode()
        self.heard.append(dict(line.split("=", 1) for line in text.split("\n")))
        return self.heard[-1]

    def hear_until(self, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        while not wanted(found := self.hear()):
            pass
        return found

    def drain(self) -> None:
        """What is waiting to be read."""
        self._socket.setblocking(False)
        try:
            while True:
                self.hear()
        except BlockingIOError:
            self._socket.settimeout(60)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["file", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/n" if request.param == "file" else f"@penstock-test-{os.getpid()}-{tmp_path.name}"


@pytest.fixture
def listener(address: str) -> Iterator[Listener]:
    listener = Listener(address)
    yield listener
    listener.close()


@pytest.fixture
def start(tmp_path: Path, listener: Listener) -> Iterator[Callable[..., ServerProcess]]:
    servers = []

    def begin(workers: int, **environ: str) -> ServerProcess:
        environment = {**os.environ, **listener.environ, **environ}
        servers.append(ServerProcess(tmp_path, "--workers", str(workers), waits=False, env=environment))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_life_from_its_beginning_to_its_end(
    start: Callable[..., ServerProcess], listener: Listener, workers: int
) -> None:
    server = start(workers)
    ready = listener.hear()
    assert ready["READY"] == "1"
    server.wait_until_it_serves()
    assert ready["STATUS"] == f"serves {server.url}"
    assert server.is_green()
    server.process.send_signal(signal.SIGHUP)
    reloading = listener.hear()
    assert reloading["RELOADING"] == "1"
    assert reloading["MONOTONIC_USEC"].isdecimal()
    assert listener.hear() == ready
    server.process.send_signal(signal.SIGTERM)
    assert listener.hear() == {"STOPPING": "1", "STATUS": "stopping"}
    assert server.wait() == 0
    assert not any(LIVES in word for word in listener.heard)


@pytest.mark.parametrize("address", ["file"], indirect=True)
@pytest.mark.parametrize("workers", [1, 2])
def test_signs_of_life_come_again_and_again(
    start: Callable[..., ServerProcess], listener: Listener, workers: int
) -> None:
    start(workers, WATCHDOG_USEC="20000")
    assert "READY" in listener.hear()
    for _ in range(3):
        # Where a process was late, that is told in between.
        listener.hear_until(lambda word: word == {"WATCHDOG": "1"})


@pytest.mark.parametrize("address", ["file"], indirect=True)
@pytest.mark.parametrize("name", ["penstock-commit", "penstock-edge"])
def test_none_while_a_process_stands_still(start: Callable[..., ServerProcess], listener: Listener, name: str) -> None:
    server = start(2, WATCHDOG_USEC=str(WATCHDOG_USEC))
    assert "READY" in listener.hear()
    stopped = next(pid for pid, found in server.processes().items() if found == name)
    os.kill(stopped, signal.SIGSTOP)
    try:
        said = listener.hear_until(lambda word: "STATUS" in word)
        assert re.fullmatch(r"no sign of life of (committer|edge-[12])", said["STATUS"])
        heard = len(listener.heard)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert listener.hear_until(lambda word: "STATUS" in word)["STATUS"].startswith("serves http")
    # The sign of life that comes with the recovery is the only one since.
    assert [word for word in listener.heard[heard:] if word == {"WATCHDOG": "1"}] == [{"WATCHDOG": "1"}]


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_a_process_that_turns_again_is_told_of_in_time(listener: Listener) -> None:
    """Systemd waits for a minute, so half a minute after the sign that is missing there must be another."""
    systemd = Systemd({**listener.environ, "WATCHDOG_USEC": "60000000"})
    board = Board(["edge-1"])
    ours, theirs = socket.socketpair()
    edge = Process(EDGE, 0, os.getpid(), SupervisorEnd(ours))
    edge.is_ready = True
    watchdog = Watchdog(systemd, board)
    watchdog.begin("serves")
    assert "READY" in listener.hear()
    board.place("edge-1").write("beat_ms", 1_000_000)
    watchdog.look(1_031.0, [edge])
    assert "no sign of life" in listener.hear()["STATUS"]
    board.leave("edge-1")
    board.place("edge-1").write("beat_ms", 1_032_000)
    assert watchdog.due <= 1_032.0
    watchdog.look(watchdog.due, [edge])
    assert listener.hear() == {"WATCHDOG": "1"}
    assert watchdog.due == 1_032.0 + 30.0
    ours.close()
    theirs.close()


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_none_while_the_only_process_stands_still(start: Callable[..., ServerProcess], listener: Listener) -> None:
    server = start(1, WATCHDOG_USEC="20000")
    listener.hear_until(lambda word: LIVES.partition("=")[0] in word)
    os.kill(server.process.pid, signal.SIGSTOP)
    wait_until(lambda: stat_of(server.process.pid)[0] == "T")
    listener.drain()
    heard = len(listener.heard)
    listener.drain()
    assert len(listener.heard) == heard
    os.kill(server.process.pid, signal.SIGCONT)
    assert listener.hear() == {"WATCHDOG": "1"}


def test_wrong_settings_at_a_reload_end_it_as_well(
    start: Callable[..., ServerProcess], listener: Listener, tmp_path: Path
) -> None:
    server = start(1)
    listener.hear()
    (tmp_path / "penstock.toml").write_text("log_level = 'loud'\n")
    server.process.send_signal(signal.SIGHUP)
    assert "RELOADING" in listener.hear()
    assert listener.hear()["READY"] == "1"
    assert "settings are not taken over" in server.log.read_text()


@pytest.mark.parametrize(
    ("environ", "every_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_how_often_a_sign_of_life_is_wanted(environ: dict[str, str], every_s: float | None, tmp_path: Path) -> None:
    assert Systemd({"NOTIFY_SOCKET": f"{tmp_path}/n", **environ}).watchdog_s == every_s
    assert Systemd(environ).watchdog_s is None


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1", "/nonexistent/socket"])
def test_nobody_to_tell_is_not_an_error(address: str) -> None:
    systemd = Systemd({"NOTIFY_SOCKET": address} if address else {})
    systemd.ready("serves")
    systemd.stopping()


# The unit file


@pytest.fixture
def analyze() -> str:
    return path_of("systemd-analyze")


def test_the_unit_is_understood(analyze: str, tmp_path: Path) -> None:
    """With a program that is here: systemd looks whether there is one."""
    unit = tmp_path / UNIT.name
    here = shutil.which("penstock") or sys.executable
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", here))
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_the_unit_exposes_little(analyze: str) -> None:
    """The least that a server on a network gets is about 1."""
    command = [analyze, "security", "--offline=true", "--threshold=15", "--no-pager", UNIT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]


def test_the_unit_gives_a_stop_the_time_that_the_server_takes() -> None:
    from penstock.server.config import Config
    from penstock.server.workers import supervisor

    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert int(seconds) > Config().stop_grace_s + supervisor._END_S
    [files] = re.findall(r"^LimitNOFILE=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert int(files) > Config().max_connections * 9 // 8 + 72
