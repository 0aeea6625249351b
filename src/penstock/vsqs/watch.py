"""inotify on one directory: every name that appears or goes, in order, without listing.

The kernel queues an event inside the system call that changed the directory, before anybody else can change it again.
So whoever reads all events knows the directory exactly as it was a moment ago, as after a listing. That holds only for
changes made through this kernel: on a network file system the others' changes go unseen, and there is no watch.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from penstock.vsqs import libc

_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_UNMOUNT = 0x2000
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_ONLYDIR = 0x01000000
_ISDIR = 0x40000000
_WANTED = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_APPEARED = _MOVED_TO | _CREATE
_OVER = _UNMOUNT | _IGNORED

_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 14
_LONGEST = _EVENT.size + 256

# File systems whose every change goes through this kernel.
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


class Change(NamedTuple):
    name: str
    appeared: bool


class Watch:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        # The directory is gone, and no event will come any more.
        self.over = False

    def changes(self) -> list[Change] | None:
        """All since the last call. None when some may be missing: then the directory must be listed."""
        found: list[Change] = []
        whole = True
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER)
            except BlockingIOError:
                break
            whole = self._read(data, found) and whole
            if len(data) < _BUFFER - _LONGEST:
                # The kernel stops early only when nothing is left.
                break
        return found if whole else None

    def _read(self, data: bytes, found: list[Change]) -> bool:
        whole = True
        offset = 0
        while offset < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            if mask & (_OVERFLOW | _OVER):
                whole = False
                self.over = self.over or bool(mask & _OVER)
            elif not mask & _ISDIR:
                name = data[offset : offset + length].rstrip(b"\0")
                found.append(Change(os.fsdecode(name), bool(mask & _APPEARED)))
            offset += length
        return whole

    def close(self) -> None:
        os.close(self.descriptor)


def open_watch(directory: int) -> Watch | None:
    """None where there is no inotify, where it would not see everything, or where the user has no more of it."""
    if not libc.has_inotify():
        return None
    try:
        if libc.file_system_type(directory) not in _LOCAL:
            return None
        descriptor = libc.inotify_open()
    except OSError:
        return None
    try:
        # By descriptor, not by path: the directory may have been moved since it was opened.
        libc.inotify_watch(descriptor, f"/proc/self/fd/{directory}", _WANTED)
    except OSError:
        os.close(descriptor)
        return None
    return Watch(descriptor)
