"""A disk that hangs under a SQLite store: a write or a sync that does not come back."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from devtools.databases import stat_of
from tests.faults.refused import check_refusals
from tests.lacking import lacking, path_of
from tests.servers import WORKERS, ServerProcess
from tests.talk import Reply, Talk
from tests.waiting import wait_until

HASTE = ("--store-timeout-s", "1", "--stop-grace-s", "2")
# For as long as the test wants it.
_DELAY = "inject=fsync,fdatasync:delay_enter=600000000"


@contextmanager
def hung_syncs(server: ServerProcess) -> Iterator[None]:
    """From now on no sync of the process that writes comes back, until strace lets go of it."""
    # The kernel keeps 15 letters of a name.
    committers = [pid for pid, name in server.processes().items() if name == "penstock-committer"[:15]]
    [pid] = committers or [server.process.pid]
    command = [path_of("strace"), "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", _DELAY]
    strace = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text() or strace.poll() is not None)
        if strace.poll() is not None:
            lacking("a process may not be traced", strace.stderr.read())
        yield
    finally:
        strace.terminate()
        strace.communicate()


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """A write to this file system sleeps in the kernel until it is thawed; not even SIGKILL wakes it."""
    subprocess.run([path_of("fsfreeze"), "-f", folder], check=True)
    try:
        yield
    finally:
        subprocess.run([path_of("fsfreeze"), "-u", folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 25)
    subprocess.run([path_of("mkfs.ext4"), "-q", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)
    if mounted.returncode:
        lacking("a file system cannot be mounted", mounted.stderr.strip())
    yield folder
    subprocess.run(["umount", folder], check=True)


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[ServerProcess]:
    server = ServerProcess(folder, *HASTE, *flags)
    try:
        yield server
        assert "Traceback" not in server.log.read_text()
    finally:
        server.stop()


def send(url: str, queue: str, body: str) -> Reply:
    with Talk(url) as talk:
        return talk("POST", f"/v1/queues/{queue}/messages", {"messages": [{"body": body}]})


def is_red(url: str) -> bool:
    """As a new client sees it: one that the server has let in before it stood still waits with it."""
    with suppress(TimeoutError, ConnectionResetError, http.client.RemoteDisconnected), Talk(url, timeout=2) as talk:
        return talk("GET", "/health").body == b"red"
    return False


def is_green(server: ServerProcess) -> bool:
    """A client that comes while the understudy steps back may be sent away."""
    with suppress(ConnectionResetError, http.client.RemoteDisconnected):
        return server.is_green()
    return False


def is_refused(url: str) -> bool:
    try:
        is_red(url)
    except ConnectionRefusedError:
        return True
    return False


def test_a_disk_that_hangs_is_told_and_forgotten_when_it_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Talk(server.url) as patient, ThreadPoolExecutor(2) as pool:
        with Talk(server.url) as talk:
            for queue in ("q", "poll"):
                assert talk("PUT", f"/v1/queues/{queue}").status == 201
        assert send(server.url, "q", "before").status == 201
        waiting = pool.submit(patient, "POST", "/v1/queues/poll/claim", {"wait_ms": 60_000})
        wait_until(lambda: server.waiting_claims() == 1)
        with hung_syncs(server):
            stuck = pool.submit(send, server.url, "q", "stuck")
            wait_until(lambda: is_red(server.url))
            with Talk(server.url) as talk:
                check_refusals(talk)
                # Of several processes, those that speak HTTP turn.
                assert talk("GET", "/health/live").status == (503 if WORKERS == 1 else 200)
            assert not waiting.done()
        wait_until(lambda: is_green(server))
        # One process had let it in before it stood still; of several, an edge may have refused it since.
        status = stuck.result().status
        assert status == 201 or (status == 503 and WORKERS > 1)
        assert send(server.url, "poll", "after").status == 201
        assert [message["body"] for message in waiting.result().json["messages"]] == ["after"]
        with Talk(server.url) as talk:
            claimed = talk("POST", "/v1/queues/q/claim", {"limit": 9}).json["messages"]
            bodies = [message["body"] for message in claimed]
            assert (bodies[0], "stuck" in bodies or status == 503) == ("before", True)
            assert talk("GET", "/health/live").status == 200
            assert b"penstock_store_up 1\n" in talk("GET", "/metrics").body


def test_a_server_ends_although_its_disk_hangs(tmp_path: Path) -> None:
    """As far as its tracer lets it: strace keeps those that it delays."""
    with serving(tmp_path) as server:
        with hung_syncs(server):
            wait_until(lambda: is_red(server.url))
            server.process.terminate()
            wait_until(lambda: "stopped without the store" in server.log.read_text())
        assert server.wait() == 0


def test_a_server_that_starts_on_a_disk_that_hangs_says_so_and_can_be_ended(tmp_path: Path) -> None:
    stopped = ("sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
    server = ServerProcess(tmp_path, "--store-timeout-s", "1", "--stop-grace-s", "600", prefix=stopped, waits=False)
    try:
        wait_until(lambda: stat_of(server.process.pid)[0] == "T")
        with hung_syncs(server):
            server.process.send_signal(signal.SIGCONT)
            wait_until(lambda: "data/penstock.db: it has not opened within 1 s" in server.log.read_text())
            server.process.terminate()
            if WORKERS > 1:
                assert server.wait() == 0
        # Alone, it is in the hands of its tracer until now.
        assert server.wait() == (-signal.SIGTERM if WORKERS == 1 else 0)
        assert " serves " not in server.log.read_text()
    finally:
        server.stop()


def test_a_process_that_the_disk_keeps_in_the_kernel_leaves_its_port(tmp_path: Path, disk: Path) -> None:
    with serving(tmp_path, "--store", f"sqlite:///{disk}/queue.db") as server:
        with frozen(disk):
            wait_until(lambda: is_red(server.url))
            server.process.terminate()
            wait_until(lambda: is_refused(server.url))
            if WORKERS > 1:
                assert server.wait() == 0
        assert server.wait() == 0
        wait_until(lambda: not _holds(disk))


def _holds(folder: Path) -> bool:
    """Whether any process still has a file of the disk open: its end comes after it was woken."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(entry).startswith(f"{folder}/"):
                return True
    return False
