"""Header blocks that come again: those of a client are the same, byte for byte, in nearly every request.

A block is what stands between the request line and the empty line. Within HTTP/1.1 it means the same whatever the
line before it says. So a block that the parser has read and found plain is looked up when it comes again, and the
parser does not see it. Nothing here decides what is plain: the connection does, after the parser has.
"""

from __future__ import annotations

from typing import Final

from penstock.edge.lately import Lately

LINE_END: Final = b"\r\n"
HEAD_END: Final = b"\r\n\r\n"
VERSION: Final = b" HTTP/1.1"

# A longer head is parsed every time.
LONGEST_HEAD: Final = 2048
_BLOCKS_KEPT: Final = 1024


class HeaderBlocks:
    """`known` has the headers of each block and the length of the body they declare. Requests with the same block
    share the headers, which are never changed."""

    __slots__ = ("_lately", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[dict[bytes, bytes], int]] = {}
        self._lately = Lately(_BLOCKS_KEPT)

    def learn(self, data: bytes, headers: dict[bytes, bytes], length: int) -> None:
        """`data` begins with a request in which the parser has found these plain headers."""
        end = data.find(HEAD_END, 0, LONGEST_HEAD)
        start = data.find(LINE_END, 0, LONGEST_HEAD)
        if end <= start or not data[:start].endswith(VERSION):
            return
        block = data[start:end]
        if not self._lately.note(block) or not _names(block, headers):
            return
        if len(self.known) >= _BLOCKS_KEPT:
            # Starting over costs the few that are in use one parsing each.
            self.known.clear()
        self.known[block] = (headers, length)


def _names(block: bytes, headers: dict[bytes, bytes]) -> bool:
    """Whether a block has a line for each of these headers, and no other: a second look at what the parser says."""
    lines = block.split(LINE_END)[1:]
    return len(lines) == len(headers) and all(line.partition(b":")[0].lower() in headers for line in lines)
