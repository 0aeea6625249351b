"""What we ask of the metadata of an Arrow record batch before Arrow itself reads the batch: that it holds no more than
it seems to.

Unpacking compressed buffers could fill the memory, and Arrow has no limit for it. Nor does it mind when many buffers
are one and the same piece of a short body. The metadata is a flatbuffer, which Arrow has verified by now: a table
starts with the way back to its list of field offsets, where 0 is a field that is not there.
"""

from __future__ import annotations

import struct
from struct import unpack_from

from penstock.errors import InvalidRequest

_MESSAGE_VERSION = 0
_MESSAGE_HEADER = 2
_MESSAGE_CUSTOM_METADATA = 4
_BATCH_BUFFERS = 2
_BATCH_COMPRESSION = 3

# Version 5, the only one since Arrow 1.0. Before, a batch could say in its custom metadata that it was compressed.
_V5 = 4
_BUFFER = struct.Struct("<qq")


def check_batch(metadata: bytes, body_size: int) -> None:
    """Raises InvalidRequest unless the buffers of the batch are plain and fit side by side into its body."""
    try:
        _check(metadata, body_size)
    except struct.error as error:
        raise InvalidRequest("the body is no Arrow stream that can be read") from error


def _check(metadata: bytes, body_size: int) -> None:
    (message,) = unpack_from("<I", metadata, 0)
    version = _field(metadata, message, _MESSAGE_VERSION)
    if not version or unpack_from("<h", metadata, version) != (_V5,):
        raise InvalidRequest("an Arrow stream must be of metadata version 5")
    if _field(metadata, message, _MESSAGE_CUSTOM_METADATA):
        raise InvalidRequest("the batches of an Arrow stream must not have custom metadata")
    header = _field(metadata, message, _MESSAGE_HEADER)
    if not header:
        raise InvalidRequest("a batch of the Arrow stream is empty")
    batch = _target(metadata, header)
    if _field(metadata, batch, _BATCH_COMPRESSION):
        raise InvalidRequest("the buffers of an Arrow stream must not be compressed")
    buffers = _field(metadata, batch, _BATCH_BUFFERS)
    if buffers and _total_size(metadata, _target(metadata, buffers)) > body_size:
        raise InvalidRequest("the buffers of an Arrow stream must not overlap")


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


def _target(metadata: bytes, at: int) -> int:
    """What a field that only points elsewhere points to."""
    (jump,) = unpack_from("<I", metadata, at)
    return int(at + jump)


def _total_size(metadata: bytes, vector: int) -> int:
    (count,) = unpack_from("<I", metadata, vector)
    start = vector + 4
    buffers = metadata[start : start + count * _BUFFER.size]
    if len(buffers) != count * _BUFFER.size:
        raise struct.error("a vector ends outside the metadata")
    # A negative length is for Arrow to refuse; it must not make room for others.
    return sum([max(length, 0) for _, length in _BUFFER.iter_unpack(buffers)])
