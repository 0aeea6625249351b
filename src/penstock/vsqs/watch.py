"""inotify on one directory: every name that appears or goes, in order, without listing.

The kernel queues an event inside the system call that changed the directory. So after reading all events an instance
knows the directory exactly as it was a moment ago, as after a listing. That holds only for changes made through this
kernel: on a network file system the changes of other hosts go unseen, and there is no watch.
"""

from __future__ import annotations

from penstock.inotify import (
    CREATED,
    DELETED,
    IGNORED,
    IS_FOLDER,
    MOVED_FROM,
    MOVED_TO,
    OVERFLOW,
    UNMOUNTED,
    Event,
    Inotify,
)
from penstock.vsqs import libc

APPEARED = MOVED_TO | CREATED
_WANTED = APPEARED | MOVED_FROM | DELETED
_OVER = UNMOUNTED | IGNORED

# File systems on which every change goes through this kernel.
_LOCAL = {
    0xEF53,  # ext2, ext3, ext4
    0x58465342,  # xfs
    0x9123683E,  # btrfs
    0x01021994,  # tmpfs
    0x858458F6,  # ramfs
    0xF2F52010,  # f2fs
    0x2FC12FC1,  # zfs
    0xCA451A4E,  # bcachefs
    0x3153464A,  # jfs
    0x794C7630,  # overlayfs
}


class Watch:
    def __init__(self, inotify: Inotify) -> None:
        self._inotify = inotify
        self.descriptor = inotify.descriptor
        # The directory is gone, and no more events will come.
        self.over = False

    def changes(self) -> list[Event] | None:
        """All since the last call, about files only. None when some may be missing: then the directory must be
        listed."""
        found: list[Event] = []
        whole = True
        for event in self._inotify.read():
            if event.mask & (OVERFLOW | _OVER):
                whole = False
                self.over = self.over or bool(event.mask & _OVER)
            elif not event.mask & IS_FOLDER:
                found.append(event)
        return found if whole else None

    def close(self) -> None:
        self._inotify.close()


def open_watch(directory: int) -> Watch | None:
    """None where there is no inotify, where it would not see everything, or where the user has no more of it."""
    try:
        if libc.file_system_type(directory) not in _LOCAL:
            return None
        inotify = Inotify()
    except OSError:
        return None
    try:
        # By descriptor, not by path: the directory may have been moved since it was opened.
        inotify.watch(f"/proc/self/fd/{directory}", _WANTED)
    except OSError:
        inotify.close()
        return None
    return Watch(inotify)
