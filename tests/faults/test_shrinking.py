"""A store that is killed while it gives room back is sound, and has what it had."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from penstock.client import Client, ClientError
from penstock.model import Draft, Settings
from penstock.stores import open_store
from penstock.stores.protocol import needed
from penstock.stores.verification.verification import verify
from tests.servers import ServerProcess
from tests.waiting import wait_until

KEPT = 50


def hollow(url: str) -> None:
    """A store of which next to nothing is in use, and that here and there."""
    with closing(open_store(url)) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
            unit.create_queue("bulk", Settings(), 1)
        for number in range(KEPT):
            with store.unit() as unit:
                unit.send("bulk", [Draft(bytes(2_000))] * 200, 1)
                unit.send("q", [Draft(b"%d" % number)], 1)
        done = 1
        while done:
            with store.unit() as unit:
                done = needed(unit.messages, "messages").purge("bulk", 1, 5_000, 10**9)


def is_whole(url: str) -> None:
    assert verify(url, lambda _part: None, bodies=True).is_sound
    with closing(open_store(url)) as store, store.unit() as unit:
        bodies = [message.body for message in unit.claim("q", 100, 2, None).messages]
    assert bodies == [b"%d" % number for number in range(KEPT)]


def test_a_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    hollow(url)
    path = tmp_path / "s.db"
    before = path.stat().st_size
    server = ServerProcess(tmp_path, "--store", url)

    def shrink() -> None:
        with suppress(ClientError), Client(server.url) as client:
            client.shrink()

    asking = threading.Thread(target=shrink)
    asking.start()
    wait_until(lambda: path.stat().st_size < before)
    server.kill()
    asking.join()
    is_whole(url)


@pytest.mark.parametrize("moment", [0.0, 0.5])
def test_a_file_that_is_rebuilt(tmp_path: Path, moment: float) -> None:
    """Killed as soon as it has the store to itself, or later."""
    url = f"sqlite:///{tmp_path}/s.db"
    hollow(url)
    command = [sys.executable, "-m", "penstock", "shrink", "--store", url]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: (tmp_path / "s.db-wal").exists() or process.poll() is not None)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.kill()
    is_whole(url)
