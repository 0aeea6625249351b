"""Changes of folders as the Linux kernel tells them, through a descriptor that can be waited for.

Only what happens on this host is told: on a file system shared with others, look from time to time as well. Where there
is no inotify, `Inotify()` raises OSError.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MOVED_TO = 0x80
CREATED = 0x100
CLOSED_AFTER_WRITING = 0x8
ATTRIBUTES = 0x4
_OVERFLOW = 0x4000
_ONLY_FOLDERS = 0x01000000
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """`name` was put into the folder of `watch`; without a name, anything may have happened anywhere."""

    watch: int
    name: str | None


class Inotify:
    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "inotify_init1"):
            raise OSError("this system has no inotify")
        self._library = library
        self.descriptor = _checked(library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def watch(self, path: os.PathLike[str], mask: int) -> int:
        """A number that the folder's events carry."""
        return _checked(self._library.inotify_add_watch(self.descriptor, os.fsencode(path), mask | _ONLY_FOLDERS))

    def read(self) -> Iterator[Event]:
        """What has happened since; nothing where nothing has."""
        while True:
            try:
                buffer = os.read(self.descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(buffer):
                watch, mask, _, length = _HEADER.unpack_from(buffer, at)
                at += _HEADER.size
                name = os.fsdecode(buffer[at : at + length].rstrip(b"\0"))
                at += length
                yield Event(watch, None if mask & _OVERFLOW or not name else name)

    def close(self) -> None:
        os.close(self.descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
