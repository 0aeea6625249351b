"""Columns as an Arrow stream, both ways. Arrow is loaded when a request asks for it, and not before: a server that is
never asked does without.

What comes in is not trusted: only the columns and types named here are read, nothing compressed is unpacked, and every
buffer is checked before a value of it is touched.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from struct import unpack_from
from typing import TYPE_CHECKING, Any

from penstock.edge.http import Request, Response
from penstock.errors import FeatureMissing, InvalidRequest, TooLarge
from penstock.extras import how_to_get
from penstock.faces.description import Part, header, text
from penstock.faces.media import media_type, prefers

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = b"application/vnd.apache.arrow.stream"
# Where a page of Arrow says what follows it: the stream itself holds only rows.
AFTER = b"Penstock-After"

# How all this is described.
ARROW_MEDIA = ARROW.decode()
ARROW_STREAM: Part = {"description": "an Arrow IPC stream"}
NEXT_PAGE: dict[str, Part] = {
    AFTER.decode(): header(text(), "where the next page begins; not there at the end"),
}


@cache
def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise FeatureMissing(f"this server has no Arrow: ask for JSON, or {how_to_get('arrow')}") from error
    return pyarrow


@cache
def load_ahead() -> None:
    """Begin to load it in a thread, because it will be asked for soon: that takes a third of a second, in which the
    event loop would stand still. The first column, the first cast and the first stream load more, such as pandas where
    that is installed: so one of each is made."""

    def load() -> None:
        with suppress(FeatureMissing):
            stream = ArrowStream()
            stream.add({"text": texts([""]), "instant": instants([0])})
            stream.response()

    threading.Thread(target=load, name="penstock-arrow", daemon=True).start()


def wants_arrow(request: Request) -> bool:
    """Asked before anything is done: a claim must not take messages that it cannot hand over. Raises FeatureMissing."""
    accept = request.headers.get(b"accept", b"").lower()
    return prefers(accept, ARROW) and _arrow() is not None


def is_arrow(request: Request) -> bool:
    return media_type(request) == ARROW


# Out


def integers(values: Sequence[int], bits: int = 64) -> pa.Array:
    pa = _arrow()
    return pa.array(values, pa.int64() if bits == 64 else pa.int32())


def texts(values: Sequence[str | None]) -> pa.Array:
    pa = _arrow()
    return pa.array(values, pa.string())


def binaries(values: Sequence[bytes | None]) -> pa.Array:
    pa = _arrow()
    return pa.array(values, pa.binary())


def instants(values: Sequence[int | None]) -> pa.Array:
    pa = _arrow()
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))


def repeated(value: str, count: int) -> pa.Array:
    pa = _arrow()
    return pa.repeat(pa.scalar(value, pa.string()), count)


def text_maps(values: Sequence[dict[str, str] | None]) -> pa.Array:
    pa = _arrow()
    if not any(values):
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.array([0] * (len(values) + 1), pa.int32()), nothing, nothing)
    return pa.array(
        [() if value is None else list(value.items()) for value in values], pa.map_(pa.string(), pa.string())
    )


class ArrowStream:
    """An answer that is written batch by batch; one of them at least."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self._headers = headers
        self._sink = _arrow().BufferOutputStream()
        self._writer: Any = None

    def add(self, columns: dict[str, pa.Array]) -> None:
        pa = _arrow()
        batch = pa.RecordBatch.from_pydict(columns)
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
        self._writer.write_batch(batch)

    def response(self) -> Response:
        self._writer.close()
        return Response(200, self._sink.getvalue().to_pybytes(), ((b"Content-Type", ARROW), *self._headers))


# In


def read_columns(body: bytes, known: Sequence[str], rows: int) -> dict[str, list[Any]]:
    """The columns of a stream as lists, at most `rows` long. The first of the known names must be there."""
    pa = _arrow()
    try:
        table = _table(body, known, rows)
        return {name: table.column(name).to_pylist() for name in table.column_names}
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise InvalidRequest(f"the body is not an Arrow stream that can be read: {str(error)[:200]}") from error


def _table(body: bytes, known: Sequence[str], rows: int) -> pa.Table:
    pa = _arrow()
    with pa.ipc.open_stream(body) as reader:
        schema = reader.schema
    _check_schema(schema, known)
    messages = pa.ipc.MessageReader.open_stream(body)
    messages.read_next_message()  # the schema, which was read above
    for message in messages:
        if message.type != "record batch":
            raise InvalidRequest(f"an Arrow stream holds record batches after its schema, not a {message.type}")
        check_batch(message.metadata.to_pybytes(), 0 if message.body is None else message.body.size)
    with pa.ipc.open_stream(body) as reader:
        batches = []
        count = 0
        for batch in reader:
            count += batch.num_rows
            if count > rows:
                raise TooLarge(f"at most {rows} rows may come at once")
            batch.validate(full=True)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _check_schema(schema: pa.Schema, known: Sequence[str]) -> None:
    pa = _arrow()
    texts = {pa.string(), pa.large_string()}
    types = {
        "body": {pa.binary(), pa.large_binary(), *texts},
        "content_type": texts,
        "attributes": {pa.map_(pa.string(), pa.string())},
        "delay_ms": {pa.int64(), pa.int32()},
        "group": texts,
        "dedup_id": texts,
        "receipt": texts,
    }
    if known[0] not in schema.names:
        raise InvalidRequest(f"an Arrow stream needs a column {known[0]!r}")
    for field in schema:
        if field.name not in known or schema.names.count(field.name) > 1:
            raise InvalidRequest(
                f"an Arrow stream has the columns {', '.join(known)}, each once, not {field.name[:80]!r}"
            )
        if field.type not in types[field.name] and not (field.name == "attributes" and _is_text_map(field.type)):
            raise InvalidRequest(f"the column {field.name!r} must not be of type {field.type}")


def _is_text_map(kind: Any) -> bool:
    """Whatever it calls its parts, and whether or not it says that they may be missing."""
    pa = _arrow()
    return bool(pa.types.is_map(kind) and kind.key_type == pa.string() and kind.item_type == pa.string())


# The metadata of a record batch is looked at before Arrow itself reads the batch, which must hold no more than it seems
# to. Unpacking compressed buffers could fill the memory, and Arrow has no limit for it; nor does it mind when many
# buffers are one and the same piece of a short body. The metadata is a flatbuffer, which Arrow has verified by now: a
# table starts with the way back to its list of field offsets, where 0 is a field that is not there.

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
        raise InvalidRequest("the body is not an Arrow stream that can be read") from error


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
