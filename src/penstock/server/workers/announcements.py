"""Changed API keys on their way to all edges: the edge that has changed them answers when all others have read them."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from penstock.server.workers.control import KeysChanged, KeysKnown
from penstock.server.workers.process import Process

# A process that has not read new API keys by then hangs, and must not serve with old ones.
_READ_S: Final = 5.0


class _Announcement:
    """`number` is its number with the process that has changed the keys."""

    def __init__(self, by: Process, number: int, unread: Collection[Process]) -> None:
        self.by = by
        self.number = number
        self.unread = set(unread)
        self.until = time.monotonic() + _READ_S


class Announcements:
    def __init__(self) -> None:
        self._open: dict[int, _Announcement] = {}
        self._last = 0

    def announce(self, by: Process, number: int, others: Collection[Process]) -> None:
        self._last += 1
        self._open[self._last] = _Announcement(by, number, others)
        for process in others:
            process.say(KeysChanged(self._last))
        self._tell_if_read(self._last)

    def note_read(self, number: int, process: Process) -> None:
        announcement = self._open.get(number)
        if announcement is not None:
            announcement.unread.discard(process)
            self._tell_if_read(number)

    def forget(self, process: Process) -> None:
        """It has ended: its successor reads the keys before it serves."""
        for number in list(self._open):
            self.note_read(number, process)

    def due(self) -> float:
        return min((one.until for one in self._open.values()), default=float("inf"))

    def put_off(self) -> None:
        """No one can read them now, as there is no committer."""
        for announcement in self._open.values():
            announcement.until = time.monotonic() + _READ_S

    def take_late(self, now: float) -> set[Process]:
        """Those that have not read in time; each is named once."""
        late: set[Process] = set()
        for announcement in self._open.values():
            if announcement.until <= now:
                late |= announcement.unread
                announcement.until = float("inf")
        return late

    def _tell_if_read(self, number: int) -> None:
        announcement = self._open[number]
        if not announcement.unread:
            del self._open[number]
            announcement.by.say(KeysKnown(announcement.number))
