"""Which message of a queue is next.

Listing a folder costs as much as it holds, so a reader lists once and walks on; what its own process adds, it is told.
It lists again when it runs dry, and while others change the folder as often as that stays a small part of its time: so
messages that another process has redelivered find their place among the older ones, and none is overlooked for long.

Without peers the oldest name is next. With n peers, one stretch of the first n + 1 is taken at random, each as long as
what is wanted now: for a single fetch that is one of the first n + 1 messages. A process that loses a race for a name
leaves the rest of that stretch to the winner, which is walking along it, and looks elsewhere.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from penstock.stores.mqcore.freshness import Freshness
from penstock.stores.mqcore.paths import is_message, is_uuid


@dataclass(frozen=True, slots=True)
class Relisting:
    """When a folder that others change is listed again: after `costs` times what a listing has cost, and not before
    `shortest_s`."""

    costs: float = 20.0
    shortest_s: float = 0.05


class Cursor:
    def __init__(self, queue: str, descriptor: int, peers: int, random: Random, relisting: Relisting) -> None:
        self._queue = queue
        self._descriptor = descriptor
        self._peers = peers
        self._random = random
        self._relisting = relisting
        self._freshness = Freshness()
        # Ascending; those before `_next` are gone.
        self._names: list[str] = []
        self._next = 0
        self._stretch: list[str] = []
        self._listed_mtime = -1
        self._list_again_at = 0.0

    def refresh(self) -> None:
        """Before a claim: list again where others have changed the folder and it has been a while."""
        if time.monotonic() >= self._list_again_at and self._mtime() != self._listed_mtime:
            self._list()

    def take(self, wanted: int) -> str | None:
        """The next name to try, or None when there is none left. `wanted` is how many the caller would still take."""
        if self._stretch:
            return self._stretch.pop()
        if self._next >= len(self._names) and not self._look_again():
            return None
        if self._peers:
            self._take_stretch(max(1, wanted))
            return self._stretch.pop()
        name = self._names[self._next]
        self._next += 1
        return name

    def lost(self) -> None:
        """Another process was faster with the name taken last."""
        self._stretch.clear()

    def add(self, name: str) -> None:
        """A message that this process has put into the queue."""
        if self._next >= len(self._names):
            self._names, self._next = [name], 0
        elif name > self._names[-1]:
            self._names.append(name)
        else:
            place = bisect_left(self._names, name, lo=self._next)
            # A listing may have found it already.
            if self._names[place] != name:
                self._names.insert(place, name)

    def _take_stretch(self, length: int) -> None:
        waiting = len(self._names) - self._next
        stretches = min(self._peers + 1, -(-waiting // length))
        start = self._next + length * self._random.randrange(stretches)
        self._stretch = self._names[start : start + length][::-1]
        if start == self._next:
            self._next += len(self._stretch)
        else:
            del self._names[start : start + length]

    def _look_again(self) -> bool:
        self._freshness.look(self._descriptor, time.monotonic())
        if self._freshness.is_stale:
            self._list()
        return self._next < len(self._names)

    def _list(self) -> None:
        began = time.monotonic()
        # Before the listing, so that a change during it is seen as one.
        self._listed_mtime = self._freshness.look(self._descriptor, began)
        self._names = sorted(message_names(self._descriptor, self._queue))
        self._next = 0
        self._stretch.clear()
        self._freshness.listed(began)
        ended = time.monotonic()
        self._list_again_at = ended + max(self._relisting.shortest_s, self._relisting.costs * (ended - began))

    def _mtime(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns


def message_names(descriptor: int, queue: str) -> Iterator[str]:
    """The messages in the folder of a queue."""
    for name in os.listdir(descriptor):
        # Only what was not made here may be something else than a file: to look at every one would cost too much.
        if is_uuid(name) or (is_message(name, queue) and is_file(descriptor, name)):
            yield name


def is_file(descriptor: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
