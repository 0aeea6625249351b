"""The one question we ask of an Arrow message before Arrow itself reads it: are its buffers compressed?

Unpacking them could fill the memory, and Arrow has no limit for it. The metadata is a flatbuffer: a table starts with
the way back to its list of field offsets, where 0 is a field that is not there.
"""

from __future__ import annotations

import struct
from struct import unpack_from

from penstock.errors import InvalidRequest

_MESSAGE_HEADER = 2
_RECORD_BATCH_COMPRESSION = 3


def is_compressed(metadata: bytes) -> bool:
    """Of the metadata of a record batch."""
    try:
        (root,) = unpack_from("<I", metadata, 0)
        header = _field(metadata, root, _MESSAGE_HEADER)
        if not header:
            return False
        (jump,) = unpack_from("<I", metadata, header)
        return bool(_field(metadata, header + jump, _RECORD_BATCH_COMPRESSION))
    except struct.error as error:
        raise InvalidRequest("the body is no Arrow stream that can be read") from error


def _field(metadata: bytes, table: int, index: int) -> int:
    """Where a field of a table stands; 0 where the table has none."""
    (back,) = unpack_from("<i", metadata, table)
    offsets = table - back
    (size,) = unpack_from("<H", metadata, offsets)
    at = 4 + 2 * index
    if at + 2 > size:
        return 0
    (offset,) = unpack_from("<H", metadata, offsets + at)
    return table + offset if offset else 0
