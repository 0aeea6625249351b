"""Delivers what is left in `new`, and redelivers from `delay` when it is due.

Nothing here is synced: a move that a power cut takes back is made again at the next look.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from penstock.clock import Clock, system_clock
from penstock.stores.mqcore.delays import NS_PER_MS, Delays, due_of
from penstock.stores.mqcore.files import is_whole
from penstock.stores.mqcore.folders import Folders, QueueFolder
from penstock.stores.mqcore.freshness import Freshness
from penstock.stores.mqcore.paths import parse

log = logging.getLogger(__name__)

# A live writer delivers its own message at once.
GRACE_S = 5.0
# A part of a message that was not touched for so long was left by a writer that has died.
ABANDONED_S = 600.0


class Mover:
    """`clock` tells how old a file is by the stamp of its file system. The instants of units are another thing: they
    are whatever their caller says."""

    def __init__(self, grace_s: float = GRACE_S, abandoned_s: float = ABANDONED_S, clock: Clock = system_clock) -> None:
        self.delays = Delays()
        self._grace_s = grace_s
        self._abandoned_s = abandoned_s
        self._clock = clock
        self._new = Freshness()
        self._waiting = False

    def redeliver(self, folders: Folders, now: int, arrived: Callable[[QueueFolder, str], None] | None = None) -> int:
        """All that is due by `now`, back into the queues; how many."""
        moved = 0
        while (name := self.delays.pop_due(now)) is not None:
            due = due_of(folders.delay, name)
            if due is None:
                continue
            if due > now:
                self.delays.add(name, due)  # fetched again meanwhile
                continue
            moved += self._deliver(folders, name, folders.delay, arrived)
        return moved

    def recover(self, folders: Folders, arrived: Callable[[QueueFolder, str], None] | None = None) -> int:
        """Deliver what its writer has left in `new`; how many."""
        began = time.monotonic()
        self._new.look(folders.new, began)
        if not self._new.is_stale and not self._waiting:
            return 0
        moved, self._waiting = 0, False
        for name in os.listdir(folders.new):
            if parse(name):
                moved += self._recover_one(folders, name, arrived)
        self._new.listed(began)
        return moved

    def _recover_one(self, folders: Folders, name: str, arrived: Callable[[QueueFolder, str], None] | None) -> int:
        try:
            found = os.stat(name, dir_fd=folders.new, follow_symlinks=False)
        except FileNotFoundError:
            return 0
        age_s = (self._clock() - found.st_ctime_ns // NS_PER_MS) / 1000
        if not is_whole(found.st_mode):
            if age_s < self._abandoned_s:
                self._waiting = True
                return 0
            log.warning("a message that was never written to its end is removed: %s", name)
            return folders.discard(name, folders.new)
        if age_s < self._grace_s:
            self._waiting = True
            return 0
        return self._deliver(folders, name, folders.new, arrived)

    def _deliver(
        self, folders: Folders, name: str, source: int, arrived: Callable[[QueueFolder, str], None] | None
    ) -> int:
        parsed = parse(name)
        if parsed is None:
            return 0
        queue, message_id = parsed
        folder = folders.queue(queue)
        if folder is None:
            # Its queue was deleted in the very moment it was on its way.
            return folders.discard(name, source)
        if not folders.deliver(folder, message_id, source):
            return 0
        if arrived is not None:
            arrived(folder, message_id)
        return 1
