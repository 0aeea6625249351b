"""Sheets on the board: for what a process tells the others that is more than a fixed number, such as its histograms.

A sheet is memory that was made before any of the processes. It has one writer, and two sides that are written in turns:
one that dies while it writes leaves the other side as it was. A reader takes the newer side whose checksum is right.
Memory that was never written costs nothing.
"""

from __future__ import annotations

import mmap
from struct import Struct
from zlib import crc32

# The number of the writing, the length of what was written, and the checksum of both.
_HEAD = Struct("<QII")
_CHECKED = Struct("<QI")
SIDE_BYTES = 1 << 19


class Sheets:
    """One for each process, by its place."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, count * 2 * SIDE_BYTES)

    def read(self, place: int) -> bytes:
        """What was written last; nothing before that."""
        return max((self._side(place, side) for side in (0, 1)), key=lambda found: found[0])[1]

    def write(self, place: int, data: bytes) -> None:
        if len(data) > SIDE_BYTES - _HEAD.size:
            raise ValueError("more than a sheet has room for")
        last = max(self._side(place, side)[0] for side in (0, 1))
        number = last + 1
        at = self._start(place, number % 2)
        # The number comes last: until then this side is not the newer one.
        _HEAD.pack_into(self._memory, at, 0, 0, 0)
        self._memory[at + _HEAD.size : at + _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._memory, at, number, len(data), _checksum(number, data))

    def _side(self, place: int, side: int) -> tuple[int, bytes]:
        at = self._start(place, side)
        number, length, checksum = _HEAD.unpack_from(self._memory, at)
        if not number or length > SIDE_BYTES - _HEAD.size:
            return 0, b""
        data = self._memory[at + _HEAD.size : at + _HEAD.size + length]
        return (number, data) if _checksum(number, data) == checksum else (0, b"")

    def _start(self, place: int, side: int) -> int:
        return (2 * place + side) * SIDE_BYTES


def _checksum(number: int, data: bytes) -> int:
    return crc32(data, crc32(_CHECKED.pack(number, len(data))))
