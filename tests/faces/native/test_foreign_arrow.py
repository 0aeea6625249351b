"""Arrow from strangers: what holds more than it seems to is never unpacked, and nothing breaks the server."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import InvalidRequest, TooLarge
from penstock.faces.native import arrow
from penstock.faces.native.arrow import read_columns
from tests.faces.native.conftest import Native
from tests.faces.native.test_bulk import ARROW, MAP, stream

COLUMNS = ("body", "content_type", "attributes", "delay_ms", "group", "dedup_id")
MEBIBYTE = 1 << 20
SCHEMA = pa.schema([("body", pa.binary())])
V4, V5 = 3, 4


def read(body: bytes) -> dict[str, list[Any]]:
    return read_columns(body, COLUMNS, limits.SEND_LIMIT)


def written(*batches: pa.RecordBatch, custom: dict[str, str] | None = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch, custom_metadata=custom)
    return sink.getvalue().to_pybytes()


def a_batch(size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([b"x" * size], pa.binary())], schema=SCHEMA)


class Patch:
    """The metadata of the first record batch of a stream, to be written over in place."""

    def __init__(self, stream: bytes) -> None:
        self.stream = bytearray(stream)
        messages = pa.ipc.MessageReader.open_stream(stream)
        messages.read_next_message()
        self.metadata = messages.read_next_message().metadata.to_pybytes()
        self.start = stream.index(self.metadata)
        (self.message,) = struct.unpack_from("<I", self.metadata)
        self.batch = arrow._target(self.metadata, arrow._field(self.metadata, self.message, 2))

    def put(self, form: str, at: int, *values: int) -> None:
        struct.pack_into(form, self.stream, self.start + at, *values)

    def set_version(self, version: int) -> None:
        self.put("<h", arrow._field(self.metadata, self.message, 0), version)

    def drop_compression(self) -> None:
        (back,) = struct.unpack_from("<i", self.metadata, self.batch)
        self.put("<H", self.batch - back + 4 + 2 * 3, 0)

    def buffers(self) -> tuple[int, int]:
        """Where the list of buffers starts, and how many there are."""
        at = arrow._target(self.metadata, arrow._field(self.metadata, self.batch, 2))
        return at + 4, struct.unpack_from("<I", self.metadata, at)[0]

    def result(self) -> bytes:
        return bytes(self.stream)


def a_bomb(version: int) -> bytes:
    """One mebibyte of nothing, compressed as Arrow did before it had a field for that."""
    custom = {"ARROW:experimental_compression": "zstd"}
    patch = Patch(written(a_batch(MEBIBYTE), custom=custom, compression="zstd"))
    patch.set_version(version)
    patch.drop_compression()
    return patch.result()


def test_compression_that_only_custom_metadata_tells_of_is_refused(native: Native) -> None:
    bomb = a_bomb(V4)
    assert len(bomb) < 2000
    # The attack is real: Arrow itself unpacks it.
    [body] = pa.ipc.open_stream(bomb).read_all().column("body").to_pylist()
    assert body == b"x" * MEBIBYTE
    for refused in (bomb, a_bomb(V5)):
        reply = native.talk("POST", "/v1/queues/q/messages", refused, content_type=ARROW)
        assert (reply.status, native.count()["total"]) == (400, 0), reply.body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (written(a_batch(9), metadata_version=pa.ipc.MetadataVersion.V4), "version 5"),
        (written(a_batch(9), custom={"any": "thing"}), "custom metadata"),
        (written(a_batch(9999), compression="zstd"), "compressed"),
        (written(a_batch(9999), compression="lz4"), "compressed"),
        (written(a_batch(9), a_batch(9), compression=None).replace(b"x" * 9, b"y" * 9, 1), None),
    ],
)
def test_batches_are_of_version_5_and_plain(body: bytes, reason: str | None) -> None:
    if reason is None:
        assert read(body) == {"body": [b"y" * 9, b"x" * 9]}
        return
    with pytest.raises(InvalidRequest, match=reason):
        read(body)


def test_a_schema_may_have_metadata() -> None:
    batch = a_batch(1).replace_schema_metadata({"pandas": "{}", "ARROW:experimental_compression": "zstd"})
    assert read(written(batch)) == {"body": [b"x"]}


def test_buffers_that_are_all_the_same_bytes_are_refused() -> None:
    columns = {"body": pa.array([b"x" * 4096], pa.binary()), "content_type": pa.array(["y" * 4096])}
    patch = Patch(stream(columns))
    start, count = patch.buffers()
    sizes = [struct.unpack_from("<qq", patch.metadata, start + 16 * index) for index in range(count)]
    data = [index for index, (_, length) in enumerate(sizes) if length >= 4096]
    assert len(data) == 2
    # Both columns now stand on the bytes of both, as Arrow lets them.
    for index in data:
        patch.put("<qq", start + 16 * index, sizes[data[0]][0], 4096 + 4096)
    assert pa.ipc.open_stream(patch.result()).read_all().num_rows == 1
    with pytest.raises(InvalidRequest, match="overlap"):
        read(patch.result())


def dictionary_stream(body: bytes) -> bytes:
    """A stream of plain bodies into which a dictionary has found its way."""
    with_dictionary = stream({"body": pa.array(["x"]).dictionary_encode()})
    messages = list(pa.ipc.MessageReader.open_stream(with_dictionary))
    assert [message.type for message in messages] == ["schema", "dictionary", "record batch"]
    plain = list(pa.ipc.MessageReader.open_stream(body))
    return b"".join(message.serialize().to_pybytes() for message in (plain[0], messages[1], *plain[1:]))


def test_a_dictionary_that_nothing_refers_to_is_refused(native: Native) -> None:
    body = dictionary_stream(written(a_batch(1)))
    with pytest.raises(pa.ArrowKeyError):
        pa.ipc.open_stream(body).read_all()
    reply = native.talk("POST", "/v1/queues/q/messages", body, content_type=ARROW)
    assert (reply.status, native.count()["total"]) == (400, 0), reply.body
    assert "dictionary" in reply.json["error"]


GOOD = stream(
    {
        "body": pa.array([b"1", b"22", b""], pa.binary()),
        "content_type": pa.array(["a/b", None, "c/d"]),
        "attributes": pa.array([[("k", "v")], [], None], MAP),
        "delay_ms": pa.array([1, None, 3], pa.int64()),
        "group": pa.array(["a", None, "b"]),
        "dedup_id": pa.array([None, "x", "y"]),
    }
)
TWO_SCHEMAS = GOOD[:-8] + GOOD
SEEDS = [GOOD, dictionary_stream(GOOD), TWO_SCHEMAS, written(a_batch(100), compression="zstd"), a_bomb(V4), a_bomb(V5)]


def refused_or_read(body: bytes) -> None:
    with suppress(InvalidRequest, TooLarge):
        read(body)


@given(st.sampled_from(SEEDS), st.data())
def test_changed_bytes_are_refused_or_read(seed: bytes, data: st.DataObject) -> None:
    body = bytearray(seed)
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=8)):
        body[at] = data.draw(st.sampled_from([0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    refused_or_read(bytes(body))


@given(st.sampled_from(SEEDS), st.data())
def test_streams_cut_short_or_run_together_are_refused_or_read(seed: bytes, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(seed)), st.integers(0, len(seed)))))
    other = data.draw(st.sampled_from(SEEDS))
    for body in (seed[start:end], seed[:end] + other[start:], seed[:start] + data.draw(st.binary(max_size=64))):
        refused_or_read(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(body: bytes) -> None:
    refused_or_read(body)
    with suppress(InvalidRequest):
        arrow.check_batch(body, 100)
