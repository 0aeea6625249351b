"""Celery with the server as its broker: real workers, one of which is killed in the middle of a task."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from tests.servers import ThreadServer
from tests.sqs_clients.workers import Celery
from tests.waiting import wait_until

QUEUE = "celery-jobs"
VISIBILITY_S = 60


@pytest.fixture
def celery(server: ThreadServer, tmp_path: Path) -> Iterator[Celery]:
    folder = tmp_path / "celery"
    folder.mkdir()
    made = Celery(folder, server.url)
    yield made
    made.stop()


@pytest.fixture
def client(server: ThreadServer) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def empty(client: Client) -> bool:
    return client.queue(QUEUE).count.total == 0


def test_tasks_are_done_retried_and_put_off(celery: Celery, client: Client) -> None:
    celery.publish(
        """
        for number in range(10):
            plain.delay(f"plain-{number}")
        for number in range(3):
            stubborn.delay(f"stubborn-{number}")
        plain.apply_async(["late"], countdown=1)
        """
    )
    assert client.queue(QUEUE).count.ready == 14
    celery.work()
    celery.wait_for("done", 14)
    expected = [f"plain-{number}" for number in range(10)] + [f"stubborn-{number}" for number in range(3)] + ["late"]
    assert sorted(celery.lines("done")) == sorted(expected)
    assert sorted(celery.lines("tried")) == sorted(f"stubborn-{number}" for number in range(3) for _ in range(3))
    wait_until(lambda: empty(client))


def test_a_worker_is_killed_in_the_middle_and_another_finishes(celery, client: Client, server: ThreadServer) -> None:
    celery.publish(
        """
        held.delay("first")
        for number in range(20):
            plain.delay(f"plain-{number}")
        """
    )
    victim = celery.work()
    celery.wait_for("begun", 1)
    assert celery.lines("begun") == [f"first {victim.pid}"]
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    held = claimed_by_one_that_has_gone(client)
    celery.gate.touch()
    successor = celery.work()
    # What the first worker had is hidden still, and of the rest nothing is left that could be done twice.
    wait_until(lambda: client.queue(QUEUE).count.total == held, 100)
    assert len(celery.lines("done")) == 21 - held
    server.clock.advance(VISIBILITY_S + 1)
    celery.wait_for("done", 21)
    assert sorted(celery.lines("done")) == sorted(["first", *(f"plain-{number}" for number in range(20))])
    assert celery.lines("begun") == [f"first {victim.pid}", f"first {successor.pid}"]
    wait_until(lambda: empty(client))
    assert successor.poll() is None


def claimed_by_one_that_has_gone(client: Client) -> int:
    """How many tasks a worker that was killed had begun or fetched in advance."""
    wait_until(lambda: sum(process.connections for process in client.processes()) == 1, what="that it is gone")
    return client.queue(QUEUE).count.claimed


def test_a_worker_that_is_stopped_finishes_its_task(celery: Celery, client: Client, server: ThreadServer) -> None:
    """What it had fetched in advance, kombu sends again as it ends, so that is done once or twice: now, and when the
    first of the two is seen again."""
    celery.publish(
        """
        held.delay("first")
        for number in range(5):
            plain.delay(f"plain-{number}")
        """
    )
    first = celery.work()
    celery.wait_for("begun", 1)
    first.terminate()
    celery.gate.touch()
    assert first.wait(100) == 0, celery.told()
    assert celery.lines("done")[0] == "first"
    celery.work()
    celery.wait_for("done", 6)
    server.clock.advance(VISIBILITY_S + 1)
    wait_until(lambda: empty(client))
    assert set(celery.lines("done")) == {"first", *(f"plain-{number}" for number in range(5))}
    assert celery.lines("done").count("first") == 1
