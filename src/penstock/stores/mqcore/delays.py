"""What is in `delay`, and when each message is due: the file's mtime is that instant.

The mtime is set before the file is moved to `delay`, so it is never there without its time; in a queue the mtime means
nothing. The list here is a memory of the folder: before a message is redelivered, its mtime is looked at once more.
"""

from __future__ import annotations

import os
import time
from heapq import heapify, heappop, heappush

from penstock.stores.mqcore.freshness import Freshness
from penstock.stores.mqcore.paths import parse

NS_PER_MS = 1_000_000


def set_due(folder: int, name: str, due: int) -> None:
    """Raises FileNotFoundError. By name and not by descriptor: a process that comes too late must not change the
    time of a message that another one has taken meanwhile."""
    os.utime(name, ns=(due * NS_PER_MS, due * NS_PER_MS), dir_fd=folder, follow_symlinks=False)


def due_of(folder: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns // NS_PER_MS
    except FileNotFoundError:
        return None


class Delays:
    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._freshness = Freshness()

    def add(self, name: str, due: int) -> None:
        self._due[name] = due
        heappush(self._heap, (due, name))

    def discard(self, name: str) -> None:
        self._due.pop(name, None)

    def note(self, folder: int, name: str) -> None:
        """A message that was put there, by this process or another."""
        due = due_of(folder, name) if parse(name) else None
        if due is not None:
            self.add(name, due)

    def refresh(self, folder: int) -> None:
        """List the folder if it has changed; only names that are new here are looked at."""
        began = time.monotonic()
        self._freshness.look(folder, began)
        if not self._freshness.is_stale:
            return
        names = set(os.listdir(folder))
        self._freshness.listed(began)
        for name in names - self._due.keys():
            self.note(folder, name)
        for name in self._due.keys() - names:
            del self._due[name]
        if len(self._heap) > 2 * len(self._due) + 1_000:
            self._heap = [(due, name) for name, due in self._due.items()]
            heapify(self._heap)

    def pop_due(self, now: int) -> str | None:
        """A message whose time has come, as far as is known here."""
        while self._heap and self._heap[0][0] <= now:
            due, name = heappop(self._heap)
            if self._due.get(name) == due:
                del self._due[name]
                return name
        return None

    def next_due(self) -> int | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
