"""Queues in a fresh directory, with and without inotify, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.vsqs import Queue, disk
from tests.faults.conftest import strace as strace

START_MS = 1_415_776_871_123
MS = 1_000_000


class Clock:
    """Moves one step with every look, so that loops which wait for it end: a quarter of a millisecond, because a
    publisher must be able to look twice within one."""

    def __init__(self, step_ns: int = MS // 4) -> None:
        self.ns = START_MS * MS
        self.step_ns = step_ns

    def __call__(self) -> int:
        self.ns += self.step_ns
        return self.ns

    @property
    def ms(self) -> int:
        return self.ns // MS

    def pass_(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest.fixture(params=[True, False], ids=["watched", "polled"])
def watch(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def opened(path: Path, clock: Clock, watch: bool) -> Iterator[Callable[..., Queue]]:
    """Opens instances on one directory: each stands for a process."""
    queues: list[Queue] = []

    def opened(*arguments: Any, **options: Any) -> Queue:
        queue = Queue(path, *arguments, **{"clock": clock, "watch": watch} | options)
        queues.append(queue)
        return queue

    yield opened
    for queue in queues:
        queue.close()


@pytest.fixture
def queue(opened: Callable[..., Queue]) -> Queue:
    return opened()


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every time that a directory is listed."""
    counted: list[int] = []
    list_files = disk.list_files

    def counting(directory: int) -> Any:
        counted.append(directory)
        return list_files(directory)

    monkeypatch.setattr(disk, "list_files", counting)
    return counted


def files(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def drain(queue: Queue) -> list[bytes]:
    bodies = []
    while (received := queue.receive(timeout=0))[0] is not None:
        bodies.append(received[1])
        assert queue.delete(received[0])
    return bodies
