"""A disk that writes down what is done to it: every write and every flush of a block device, in their order.

The kernel's loop driver makes a device of a file; the file here is the only one of a file system of ours (FUSE), served
by this program as a process of its own. The driver turns a flush of the device into a sync of the file, so both reach
us, one at a time, and are in the log before they are answered. The image itself is kept in memory.

Run as `python -m soak.recorder IMAGE DISK LOG`: the image is read and left as it is, the disk is the file to make a
device of, and the log gets the events with the instant at which each was asked for, by the machine's monotonic clock:
what a client was told before that instant, it was told without what the event did.

The protocol is spoken by hand because it takes fewer lines than a binding would need to be installed: one file, of a
fixed length, that is read, written and synced. What is not needed for that is refused.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_LARGEST_WRITE = 1 << 20
_ROOM_FOR_HEADERS = 4096
_FLUSH = (1 << 32) - 1


class Verb(IntEnum):
    """What the kernel asks for (include/uapi/linux/fuse.h)."""

    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    OPEN = 14
    READ = 15
    WRITE = 16
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25  # a descriptor was closed: it has nothing to do with a flush of the device
    INIT = 26
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


_UNANSWERED = {Verb.FORGET, Verb.INTERRUPT, Verb.BATCH_FORGET}

_ASKED = struct.Struct("<IIQQIIIHH")
_ANSWERED = struct.Struct("<IiQ")
_WRITE_OR_READ = struct.Struct("<QQIIQII")
_ATTRIBUTES = struct.Struct("<QII QQQQQQ III IIIIIII")
_AGREED = struct.Struct("<IIII HHI IHH II 24x")
_BIG_WRITES, _MANY_PAGES = 1 << 5, 1 << 22

_EVENT = struct.Struct("<QQI")


@dataclass(frozen=True, slots=True)
class Event:
    """A write; without data it is a flush. `at` is in seconds, as `time.monotonic` has them."""

    at: float
    offset: int
    data: bytes | None


def read_log(path: Path) -> Iterator[Event]:
    with path.open("rb") as log:
        while len(head := log.read(_EVENT.size)) == _EVENT.size:
            at_ns, offset, length = _EVENT.unpack(head)
            yield Event(at_ns / 1e9, offset, None if length == _FLUSH else log.read(length))


class Recorder:
    def __init__(self, image: Path, disk: Path, log: Path) -> None:
        self._size = image.stat().st_size
        with image.open("rb") as file:
            self._image = mmap.mmap(file.fileno(), self._size, access=mmap.ACCESS_COPY)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._fuse = os.open("/dev/fuse", os.O_RDWR)
        disk.touch()
        mount(str(disk), f"fd={self._fuse},rootmode={stat.S_IFREG:o},user_id=0,group_id=0")

    def serve(self) -> None:
        """Until the file is unmounted."""
        while True:
            try:
                asked = os.read(self._fuse, _LARGEST_WRITE + _ROOM_FOR_HEADERS)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT):  # what was asked has been called off
                    continue
                raise
            self._asked_at_ns = time.monotonic_ns()
            _, verb, number, *_ = _ASKED.unpack_from(asked)
            if verb in _UNANSWERED:
                continue
            answer = self._answer(verb, memoryview(asked)[_ASKED.size :])
            failed, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.writev(self._fuse, [_ANSWERED.pack(_ANSWERED.size + len(data), failed, number), data])

    def _answer(self, verb: int, asked: memoryview) -> bytes | memoryview | int:
        match verb:
            case Verb.WRITE:
                _, offset, length, *_ = _WRITE_OR_READ.unpack_from(asked)
                data = asked[_WRITE_OR_READ.size :][:length]
                if offset + length > self._size:
                    return errno.ENOSPC
                self._image[offset : offset + length] = data
                self._note(offset, length, data)
                return struct.pack("<II", length, 0)
            case Verb.READ:
                _, offset, length, *_ = _WRITE_OR_READ.unpack_from(asked)
                return self._image[offset : offset + length]
            case Verb.FSYNC:
                self._note(0, _FLUSH, b"")
                return b""
            case Verb.OPEN:
                return struct.pack("<QII", 1, 0, 0)
            case Verb.GETATTR | Verb.SETATTR:
                blocks = self._size // 512
                mode = stat.S_IFREG | 0o600
                return _ATTRIBUTES.pack(3600, 0, 0, 1, self._size, blocks, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
            case Verb.RELEASE | Verb.FLUSH | Verb.DESTROY:
                return b""
            case Verb.INIT:
                major, minor, readahead, _ = struct.unpack_from("<IIII", asked)
                pages = _LARGEST_WRITE // mmap.PAGESIZE
                return _AGREED.pack(
                    major,
                    min(minor, 38),
                    readahead,
                    _BIG_WRITES | _MANY_PAGES,
                    16,
                    12,
                    _LARGEST_WRITE,
                    1,
                    pages,
                    0,
                    0,
                    0,
                )
            case _:
                return errno.ENOSYS

    def _note(self, offset: int, length: int, data: bytes | memoryview) -> None:
        """It is in the kernel's hands before the event is answered, so a reader finds it whatever becomes of us."""
        os.writev(self._log, [_EVENT.pack(self._asked_at_ns, offset, length), data])


def mount(target: str, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"penstock-recorder", target.encode(), b"fuse", 0, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"{target} cannot be mounted: {os.strerror(number)}")


if __name__ == "__main__":
    recorder = Recorder(*map(Path, sys.argv[1:]))
    print("recording", flush=True)
    recorder.serve()
