"""Frames: how the bytes between an edge and the committer are cut into pieces.

A frame is a header and what `calls.py` makes of calls or answers. The header says how long it is, which it is, and by
which version of this program it was written. Frames are counted: one that is missing, or comes twice, is noticed like
one that is too long or of another version, and ends the bridge. Nothing is guessed.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.bridge.calls import Answers, Calls, encode_into
from penstock.errors import PenstockError

# Raised with every change of what frames hold.
VERSION: Final = 2
# The length of what follows, the number of the frame, the version.
HEADER: Final = Struct(">IIB")
HEADER_BYTES: Final = 9
# Larger than any call or answer: the longest is that to a claim of as many messages as there may be, each with as many
# attributes.
LONGEST: Final = 1 << 30
_NUMBERS: Final = 1 << 32


class BrokenBridge(PenstockError):
    """What came over the bridge cannot be understood: it ends here."""


class FrameWriter:
    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = 0

    def frame(self, content: Calls | Answers) -> bytearray:
        frame = bytearray(HEADER_BYTES)
        encode_into(content, frame, HEADER_BYTES)
        length = len(frame) - HEADER_BYTES
        if length > LONGEST:
            raise BrokenBridge(f"a frame of {length} bytes is too long")
        HEADER.pack_into(frame, 0, length, self._number, VERSION)
        self._number = (self._number + 1) % _NUMBERS
        return frame


class FrameReader:
    """Takes bytes as they come, and gives what whole frames hold."""

    __slots__ = ("_missing", "_number", "_rest")

    def __init__(self) -> None:
        self._number = 0
        # The beginning of a frame, and how many bytes it needs at least before it is worth another look.
        self._rest = bytearray()
        self._missing = 0

    def feed(self, data: bytes) -> list[memoryview]:
        """Raises BrokenBridge."""
        if self._rest:
            self._rest += data
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = bytes(self._rest)
            self._rest = bytearray()
        whole = memoryview(data)
        contents: list[memoryview] = []
        start, size = 0, len(data)
        while size - start >= HEADER_BYTES:
            length = self._checked(whole[start : start + HEADER_BYTES])
            end = start + HEADER_BYTES + length
            if end > size:
                self._missing = end - size
                break
            self._number = (self._number + 1) % _NUMBERS
            contents.append(whole[start + HEADER_BYTES : end])
            start = end
        else:
            self._missing = HEADER_BYTES - (size - start)
        if start < size:
            self._rest = bytearray(whole[start:])
        return contents

    def _checked(self, header: memoryview) -> int:
        """The length of the frame that begins here."""
        length, number, version = HEADER.unpack(header)
        if version != VERSION:
            raise BrokenBridge(f"a frame is of version {version}, not {VERSION}: the other side is another program")
        if number != self._number:
            raise BrokenBridge(f"frame {number} came where frame {self._number} was expected")
        if length > LONGEST:
            raise BrokenBridge(f"a frame of {length} bytes is too long")
        return int(length)
