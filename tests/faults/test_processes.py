"""`kill -9` of any process of a server that has several, under load, again and again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crowd import wait_until
from tests.faults.load import Load, Lost, check, create_queue, drain
from tests.servers import ServerProcess, is_alive

KILLS = 100


def is_whole(server: ServerProcess) -> bool:
    """Whether all of its processes are there, and at work."""
    with contextlib.suppress(*Lost):
        return len(server.processes()) == 3 and server.is_green()
    return False


@pytest.fixture
def several(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path, "--workers", "2")
    yield server
    server.stop()


class StubbornLoad(Load):
    """Goes on with a new connection where one was lost, and takes 503 for what it is: nothing was promised."""

    def keep_on(self, url: str, senders: int, receivers: int) -> list[threading.Thread]:
        def go_on(work: object) -> None:
            while not self.ended.is_set():
                work(url)

        works = [self._send] * senders + [self._receive] * receivers
        threads = [threading.Thread(target=go_on, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        return threads


@pytest.mark.timeout(600)
def test_any_process_may_be_killed_at_any_moment(several: ServerProcess) -> None:
    """Nothing that was promised is lost, and no message is under two claims. The port is never given up."""
    chance = random.Random(20261117)
    load = StubbornLoad()
    with several.talk() as talk:
        create_queue(talk, visibility_timeout=1)
    threads = load.keep_on(several.url, senders=3, receivers=3)
    killed = []
    try:
        for number in range(KILLS):
            if number % 4 == 0:
                # After five beginnings in vain, one after the other, it would give up.
                wait_until(lambda: is_whole(several))
            before = len(load.sent)
            wait_until(lambda before=before: len(load.sent) > before)
            processes = several.processes()
            chosen = chance.choice(sorted(processes))
            killed.append(processes[chosen])
            with contextlib.suppress(ProcessLookupError):  # killed before, it may have gone just now
                os.kill(chosen, signal.SIGKILL)
            wait_until(lambda chosen=chosen: not is_alive(chosen))
    finally:
        load.ended.set()
        for thread in threads:
            thread.join()
    wait_until(lambda: is_whole(several))
    with several.talk() as talk:
        left = drain(talk)
    assert {"penstock-commit", "penstock-edge"} <= set(killed)
    assert set(load.other_answers) <= {503}
    check(load, left)
    assert several.terminate() == 0


def test_nothing_is_left_of_a_server_whose_supervisor_was_killed(several: ServerProcess, tmp_path: Path) -> None:
    load = StubbornLoad()
    with several.talk() as talk:
        create_queue(talk, visibility_timeout=1)
    threads = load.run(several.url, senders=3, receivers=3)
    wait_until(lambda: len(load.sent) > 20)
    processes = several.processes()
    assert len(processes) == 3
    several.process.kill()
    several.wait()
    wait_until(lambda: not any(map(is_alive, processes)))
    for thread in threads:
        thread.join()
    with several.kept_port() as port:
        after = ServerProcess(tmp_path, "--workers", "2", port=port)
    try:
        with after.talk() as talk:
            left = drain(talk)
    finally:
        after.stop()
    check(load, left)


def test_requests_are_refused_while_there_is_no_committer_and_served_by_the_next(several: ServerProcess) -> None:
    with several.talk() as talk:
        create_queue(talk, visibility_timeout=1)
        [committer] = [pid for pid, name in several.processes().items() if name == "penstock-commit"]
        statuses: list[int] = []

        def poll() -> None:
            with several.talk() as waiting:
                statuses.append(waiting("GET", "/messages/q", x_mqs_max_wait_time="19").status)

        poller = threading.Thread(target=poll)
        poller.start()
        wait_until(several.waiting_claims)
        os.kill(committer, signal.SIGKILL)
        poller.join()
        assert statuses == [503]
        wait_until(lambda: committer not in several.processes() and is_whole(several))
        assert talk("POST", "/messages/q", b"x").status == 201
    assert "committer has ended, and is replaced: it was ended by signal 9" in several.log.read_text()
