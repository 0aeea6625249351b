"""The four folders of a store, held open, and the moves between them.

Every path is one name below an open folder, and no link is ever followed: nothing that is planted in the folders leads
out of them. The folder of a queue is opened once and checked by its inode from then on; while it is held open, the
inode is not used again, so a queue that was deleted and created again is known as another.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from random import Random

from penstock.errors import PenstockError, StoreForeign, StoreFull, StoreUnavailable
from penstock.stores.mqcore.cursor import Cursor, Relisting
from penstock.stores.mqcore.paths import file_name, is_queue, parse

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Folders of queues held open between units.
_OPEN_QUEUES = 256


def translated(error: OSError) -> PenstockError:
    if error.errno in (ENOSPC, EDQUOT):
        return StoreFull("the device of the store is full")
    return StoreUnavailable(f"the store cannot be used: {error.strerror or error}")


class QueueFolder:
    """One queue: its open folder, and the cursor of this process in it."""

    def __init__(self, name: str, descriptor: int, inode: int, cursor: Cursor) -> None:
        self.name = name
        self.descriptor = descriptor
        self.inode = inode
        self.cursor = cursor


class Folders:
    def __init__(self, root: Path, peers: int, random: Random, relisting: Relisting = Relisting()) -> None:
        self.root = root
        self._relisting = relisting
        self._peers = peers
        self._random = random
        self._open_queues: dict[str, QueueFolder] = {}
        self._deleted: list[int] = []
        self._descriptors: list[int] = []
        try:
            make_folder(root)
            self._root = self._hold(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for name in ("new", "queues", "delay", "remove"):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self._root)
            os.fsync(self._root)
            self.new = self._subfolder("new")
            self.queues = self._subfolder("queues")
            self.delay = self._subfolder("delay")
            self.remove = self._subfolder("remove")
        except OSError as error:
            self.close()
            raise translated(error) from error
        except PenstockError:
            self.close()
            raise

    def _hold(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    def _subfolder(self, name: str) -> int:
        try:
            return self._hold(os.open(name, _FOLDER, dir_fd=self._root))
        except OSError as error:
            if not stat.S_ISDIR(os.stat(name, dir_fd=self._root, follow_symlinks=False).st_mode):
                raise StoreForeign(f"{self.root / name} is not a folder; nothing was changed") from error
            raise

    def close(self) -> None:
        for folder in self._open_queues.values():
            _close(folder.descriptor)
        for descriptor in (*self._descriptors, *self._deleted):
            _close(descriptor)
        self._open_queues.clear()
        self._deleted.clear()
        self._descriptors.clear()

    # Queues

    def forget_some(self) -> None:
        """Between units: close the folders of deleted queues, and those opened longest ago, if there are many."""
        while self._deleted:
            _close(self._deleted.pop())
        while len(self._open_queues) > _OPEN_QUEUES:
            folder = self._open_queues.pop(next(iter(self._open_queues)))
            _close(folder.descriptor)

    def queue(self, name: str) -> QueueFolder | None:
        """The folder of a queue, if it exists now."""
        if not is_queue(name):
            return None
        try:
            inode = self._inode(name)
        except FileNotFoundError:
            inode = None
        known = self._open_queues.get(name)
        if known is not None:
            if known.inode == inode:
                return known
            del self._open_queues[name]
            self._deleted.append(known.descriptor)  # a unit may still be using it
        return None if inode is None else self._open_queue(name)

    def _inode(self, name: str) -> int | None:
        found = os.stat(name, dir_fd=self.queues, follow_symlinks=False)
        return found.st_ino if stat.S_ISDIR(found.st_mode) else None

    def _open_queue(self, name: str) -> QueueFolder | None:
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=self.queues)
        except FileNotFoundError:
            return None
        inode = os.fstat(descriptor).st_ino
        cursor = Cursor(name, descriptor, self._peers, self._random, self._relisting)
        folder = self._open_queues[name] = QueueFolder(name, descriptor, inode, cursor)
        return folder

    def is_there(self, folder: QueueFolder) -> bool:
        """Whether a queue has not been deleted since its folder was opened."""
        try:
            return self._inode(folder.name) == folder.inode
        except FileNotFoundError:
            return False

    def queue_names(self) -> list[str]:
        with os.scandir(self.queues) as entries:
            return sorted(
                entry.name for entry in entries if is_queue(entry.name) and entry.is_dir(follow_symlinks=False)
            )

    # Messages

    def deliver(self, queue: QueueFolder, message_id: str, source: int) -> bool:
        """From `new` or `delay` into the queue; False when it is not there any more."""
        return move(file_name(queue.name, message_id), source, message_id, queue.descriptor)

    def discard(self, name: str, source: int) -> bool:
        """From `new` or `delay` to `remove`."""
        return move(name, source, name, self.remove)

    def names_of(self, queue: str, descriptor: int) -> Iterator[str]:
        """The messages of one queue in `new` or `delay`."""
        prefix = file_name(queue, "")
        return (name for name in os.listdir(descriptor) if name.startswith(prefix) and parse(name))


def move(name: str, source: int, target_name: str, target: int) -> bool:
    """Rename; False when the file is not there any more, or its target folder."""
    try:
        os.rename(name, target_name, src_dir_fd=source, dst_dir_fd=target)
    except FileNotFoundError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Create a folder so that it survives a power cut: its parent is synced as well."""
    if folder.exists():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)
