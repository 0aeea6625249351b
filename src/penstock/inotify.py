"""Changes in folders as the Linux kernel reports them, through a descriptor that can be waited for.

The kernel queues an event inside the system call that changes a folder, before anyone can change it again. It reports
only what happens on this host: on a file system shared with others, look from time to time as well.

Standard library only, because VSQS uses it too. Where there is no inotify, or no `ctypes` to reach it, `Inotify()`
raises OSError.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

# What to watch for, and what an event says in its mask.
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATED = 0x100
DELETED = 0x200

# What an event may say besides.
UNMOUNTED = 0x2000
OVERFLOW = 0x4000  # events were lost, of any folder
IGNORED = 0x8000  # the folder is gone, and so is its watch
IS_FOLDER = 0x40000000

_ONLY_FOLDERS = 0x01000000
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 14
_LONGEST_EVENT = _HEADER.size + 256


class Event(NamedTuple):
    """`name` has appeared in the folder of `watch` or has gone from it. It is empty where the folder itself is meant,
    or anything at all after an overflow."""

    watch: int
    mask: int
    name: str


class Inotify:
    def __init__(self) -> None:
        try:
            import ctypes

            library = ctypes.CDLL(None, use_errno=True)
            self._add_watch = library.inotify_add_watch
            start = library.inotify_init1
        except (ImportError, AttributeError) as error:
            raise OSError("this system has no inotify") from error
        self._last_error = ctypes.get_errno
        self.descriptor = self._checked(start(os.O_CLOEXEC | os.O_NONBLOCK))

    def watch(self, path: str | os.PathLike[str], mask: int) -> int:
        """A number that the folder's events carry."""
        return self._checked(self._add_watch(self.descriptor, os.fsencode(path), mask | _ONLY_FOLDERS))

    def read(self) -> list[Event]:
        """The events since the last call, in order."""
        events: list[Event] = []
        while True:
            try:
                buffer = os.read(self.descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                return events
            at = 0
            while at < len(buffer):
                watch, mask, _, length = _HEADER.unpack_from(buffer, at)
                at += _HEADER.size
                events.append(Event(watch, mask, os.fsdecode(buffer[at : at + length].rstrip(b"\0"))))
                at += length
            if len(buffer) < _BUFFER_BYTES - _LONGEST_EVENT:
                # The kernel stops early only when nothing is left.
                return events

    def close(self) -> None:
        os.close(self.descriptor)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = self._last_error()
            raise OSError(number, os.strerror(number))
        return result
