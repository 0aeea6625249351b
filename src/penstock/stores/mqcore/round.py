"""One round of moves and syncs: what a unit has done on the disk, so that it is made durable together or taken back.

Files are synced before anybody can see them in a queue; every folder that was touched is synced once, at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from penstock.model import Draft
from penstock.stores.mqcore import files
from penstock.stores.mqcore.folders import Folders, QueueFolder, move
from penstock.stores.mqcore.paths import file_name
from penstock.stores.mqcore.syncs import Syncs

# Files that are open at once, far below what a process may have open.
_OPEN_FILES = 256


class Round:
    def __init__(self, folders: Folders, syncs: Syncs) -> None:
        self.folders = folders
        self._syncs = syncs
        self._touched: set[int] = set()
        self._undo: list[Callable[[], object]] = []
        self._unsynced: list[int] = []
        self._undelivered: list[tuple[QueueFolder, str]] = []

    def touch(self, *folders: int) -> None:
        self._touched.update(folders)

    def undo_by(self, step: Callable[[], object]) -> None:
        self._undo.append(step)

    # New messages

    def write(self, queue: QueueFolder, message_id: str, draft: Draft) -> None:
        name = file_name(queue.name, message_id)
        descriptor = files.write(self.folders.new, name, draft.body, draft.content_type)
        self._unsynced.append(descriptor)
        self.undo_by(lambda: self._take_back(queue, message_id))
        self._undelivered.append((queue, message_id))
        if len(self._unsynced) >= _OPEN_FILES:
            self._sync_files()

    def deliver(self) -> None:
        """What was written so far moves into its queues."""
        if not self._undelivered:
            return
        self._sync_files()
        folders = self.folders
        for queue, message_id in self._undelivered:
            # False when a mover has been faster: the message is whole, so it may. Or the queue was deleted in this
            # very moment: then the message was sent just before, and has gone with it.
            folders.deliver(queue, message_id, folders.new)
            queue.cursor.add(message_id)
            self.touch(folders.new, queue.descriptor)
        self._undelivered.clear()

    def _sync_files(self) -> None:
        self._syncs.sync_files(self._unsynced, self.folders.new)
        for descriptor in self._unsynced:
            files.mark_whole(descriptor)
        self._close_files()

    def _close_files(self) -> None:
        while self._unsynced:
            with suppress(OSError):
                os.close(self._unsynced.pop())

    def _take_back(self, queue: QueueFolder, message_id: str) -> None:
        """A message that no caller was told about: unlinked where it is still in the making, else removed."""
        folders = self.folders
        name = file_name(queue.name, message_id)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folders.new)
            return
        move(message_id, queue.descriptor, name, folders.remove)

    # The end

    def commit(self) -> None:
        self.deliver()
        self._syncs.sync(sorted(self._touched))

    def roll_back(self) -> None:
        """As far as the file system lets us. No caller was told of what stays: it may be delivered, never lost."""
        self._close_files()
        for step in reversed(self._undo):
            with suppress(OSError):
                step()
