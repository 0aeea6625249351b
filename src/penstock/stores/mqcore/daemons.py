"""Mover and reaper as programs of their own: they wake when something happens in their folders, and look every second
besides, because other hosts send no events.

They hold nothing that is not on the disk, so any number of them may run, and each may be killed at any point.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Protocol

from penstock.clock import Clock, system_clock
from penstock.errors import PenstockError, TryAgain
from penstock.inotify import CREATED, MOVED_TO, OVERFLOW, Inotify
from penstock.stores.mqcore.folders import Folders, translated
from penstock.stores.mqcore.mover import Mover
from penstock.stores.mqcore.reaper import Reaper

log = logging.getLogger(__name__)

POLL_S = 1.0
# After a failure, so that a broken disk does not fill the log.
_RETRY_S = 5.0
_REAPED_AT_ONCE = 1_000


class Daemon(Protocol):
    """What a daemon does when it wakes."""

    watched: tuple[str, ...]

    def work(self, folders: Folders, arrived: dict[str, set[str]] | None) -> float:
        """Do what there is to do, and say after how many seconds there may be more. `arrived` are names by folder;
        None where anything may have happened."""


class MoverTask:
    watched: tuple[str, ...] = ("new", "delay")

    def __init__(self, mover: Mover, clock: Clock = system_clock) -> None:
        self._mover = mover
        self._clock = clock

    def work(self, folders: Folders, arrived: dict[str, set[str]] | None) -> float:
        delays = self._mover.delays
        if arrived is None:
            delays.refresh(folders.delay)
        else:
            for name in arrived.get("delay", ()):
                delays.note(folders.delay, name)
        self._mover.recover(folders)
        self._mover.redeliver(folders, self._clock())
        due = delays.next_due()
        return POLL_S if due is None else max(0.0, (due - self._clock()) / 1000)


class ReaperTask:
    watched: tuple[str, ...] = ("remove",)

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper

    def work(self, folders: Folders, arrived: dict[str, set[str]] | None) -> float:
        more = self._reaper.reap(folders, _REAPED_AT_ONCE, time.monotonic())
        return 0.0 if more else POLL_S


def run(root: Path, task: Daemon) -> None:
    """Until SIGTERM or SIGINT. Raises when the folders cannot be opened at the start."""
    folders: Folders | None = Folders(root, 0, SystemRandom())
    log.info("looks after %s", root)
    with _signals() as stopped, _Watch(root, task.watched) as watch:
        arrived: dict[str, set[str]] | None = None
        looked_at = 0.0
        while not stopped.is_set:
            try:
                if folders is None:
                    folders = Folders(root, 0, SystemRandom())
                if time.monotonic() - looked_at >= POLL_S:
                    arrived, looked_at = None, time.monotonic()
                wait_s = task.work(folders, arrived)
                folders.forget_some()
            except (OSError, TryAgain) as error:
                failure = translated(error) if isinstance(error, OSError) else error
                log.error("cannot work, tries again in %g s: %s", _RETRY_S, failure)
                if folders is not None:
                    folders.close()
                folders, wait_s = None, _RETRY_S
            arrived = watch.wait(min(wait_s, POLL_S) if folders else wait_s, stopped.descriptor)
    if folders is not None:
        folders.close()
    log.info("stopped")


class _Stopped:
    def __init__(self, descriptor: int) -> None:
        self.is_set = False
        self.descriptor = descriptor


@contextmanager
def _signals() -> Iterator[_Stopped]:
    """A signal sets a flag, and wakes the thread that waits for the descriptor."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    stopped = _Stopped(reading)

    def stop(_number: int, _frame: object) -> None:
        stopped.is_set = True

    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    yield stopped
    signal.set_wakeup_fd(-1)
    os.close(reading)
    os.close(writing)


class _Watch:
    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self._inotify: Inotify | None = None
        self._names: dict[int, str] = {}
        try:
            self._inotify = Inotify()
            for name in names:
                self._names[self._inotify.watch(root / name, MOVED_TO | CREATED)] = name
        except (OSError, PenstockError) as error:
            log.info("no file-system events here (%s): looks every %g s", error, POLL_S)
            self.close()

    def wait(self, seconds: float, other: int) -> dict[str, set[str]] | None:
        """Names that have arrived in a watched folder; None where anything may have happened."""
        poll = select.poll()
        poll.register(other, select.POLLIN)
        if self._inotify is not None:
            poll.register(self._inotify.descriptor, select.POLLIN)
        with suppress(InterruptedError):
            poll.poll(max(0.0, seconds) * 1000)
        if self._inotify is None:
            return None
        arrived: dict[str, set[str]] = {}
        for event in self._inotify.read():
            if event.mask & OVERFLOW or not event.name:
                return None
            arrived.setdefault(self._names.get(event.watch, ""), set()).add(event.name)
        return arrived

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
