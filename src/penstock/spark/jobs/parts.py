"""Files in parts, read with Arrow: what a task of `load` works on.

Where a part begins and ends depends on the file alone, never on the cores or the files beside it, because the keys
under which its rows are sent depend on the part. A file that is packed, and so can only be read from its beginning, is
one part. Nothing here knows what becomes of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from zlib import decompressobj

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from penstock.spark.errors import JobFailed
from penstock.spark.folders import File

PART_BYTES = 32 * 1024 * 1024
_BLOCK_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 10_000
# How a name ends, and what Arrow calls the codec.
PACKED = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4", "deflate": None}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Hadoop's names of stores for which Arrow has others.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}


@dataclass(frozen=True)
class Part:
    """What of a file begins at the bytes from `start` up to, not including, `stop`."""

    file: File
    number: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def parts_of(file: File) -> list[Part]:
    if ending_of(file.path) in PACKED:
        return [Part(file, 0, 0, file.bytes)]
    starts = range(0, max(file.bytes, 1), PART_BYTES)
    return [Part(file, number, start, min(start + PART_BYTES, file.bytes)) for number, start in enumerate(starts)]


def ending_of(path: str) -> str:
    return path.rpartition(".")[2].lower()


# Parquet


def read_parquet(part: Part, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The row groups that begin in the part; of all columns, or of those of these that there are."""
    with opened(part.file) as source:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        groups = [group for group in range(file.num_row_groups) if part.start <= _begins_at(file, group) < part.stop]
        instants = _old_instants(file)
        for batch in file.iter_batches(_BATCH_ROWS, groups, columns, use_threads=False):
            yield _with_zone(batch, instants)


def parquet_columns(part: Part) -> list[str]:
    with opened(part.file) as source:
        return list(pq.ParquetFile(source).schema_arrow.names)


def _begins_at(file: pq.ParquetFile, group: int) -> int:
    first = file.metadata.row_group(group).column(0)
    pages = (first.dictionary_page_offset, first.data_page_offset)
    return int(min(page for page in pages if page))


def _old_instants(file: pq.ParquetFile) -> set[str]:
    """Columns of a type that does not say so and yet means instants, which Spark and Hive wrote for long."""
    schema = file.schema
    columns = (schema.column(index) for index in range(len(schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def _with_zone(batch: pa.RecordBatch, instants: set[str]) -> pa.RecordBatch:
    for index, name in enumerate(batch.schema.names):
        if name in instants:
            batch = batch.set_column(index, name, pc.assume_timezone(batch.column(index), "UTC"))
    return batch


# Lines


def read_lines(part: Part) -> Iterator[list[bytes]]:
    """Lines to the byte, without what ends them: LF, CR LF, or CR."""
    for block in _blocks(part):
        yield block.splitlines()


def read_csv(part: Part) -> Iterator[pa.RecordBatch]:
    """Rows as texts, by the names in the first line of the file. What is empty and not in quotes is null."""
    names = _header(part.file)
    at_start = part.start == 0
    for block in _blocks(part):
        if at_start:
            block, at_start = block.partition(b"\n")[2], False
        if block.strip():
            yield from _csv_rows(block, names)


def _header(file: File) -> list[str]:
    first = next(_blocks(Part(file, 0, 0, file.bytes)), b"").partition(b"\n")[0].rstrip(b"\r")
    if not first:
        raise JobFailed("it has no header")
    names = pa.csv.read_csv(
        pa.py_buffer(first + b"\n"), pa.csv.ReadOptions(autogenerate_column_names=True), convert_options=_texts(None)
    )
    found = [column[0].as_py() or "" for column in names.columns]
    if len(set(found)) < len(found):
        raise JobFailed(f"two columns have the same name in its header: {', '.join(found)}")
    return found


def _csv_rows(block: bytes, names: list[str]) -> list[pa.RecordBatch]:
    reading = pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names)
    batches: list[pa.RecordBatch] = pa.csv.read_csv(
        pa.py_buffer(block), reading, convert_options=_texts(names)
    ).to_batches()
    return batches


def _texts(names: list[str] | None) -> pa.csv.ConvertOptions:
    types = None if names is None else dict.fromkeys(names, pa.string())
    return pa.csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _blocks(part: Part) -> Iterator[bytes]:
    """The lines that begin in the part, some at a time, each with what ends it."""
    with opened(part.file) as source:
        ending = ending_of(part.file.path)
        if ending in PACKED:
            yield from _without_mark(_whole_lines(_unpacking(source, PACKED[ending])))
            return
        start, stop = (_line_at(source, place, part.file.bytes) for place in (part.start, part.stop))
        source.seek(start)
        blocks = _whole_lines(lambda: source.read(min(_BLOCK_BYTES, stop - source.tell())))
        yield from blocks if start else _without_mark(blocks)


def _unpacking(source: Any, codec: str | None) -> Callable[[], bytes]:
    if codec is not None:
        unpacked = pa.CompressedInputStream(source, codec)
        return lambda: bytes(unpacked.read(_BLOCK_BYTES))
    inflate = decompressobj()

    def read() -> bytes:
        while packed := source.read(_BLOCK_BYTES):
            if block := inflate.decompress(packed):
                return block
        return inflate.flush()

    return read


def _line_at(source: Any, place: int, size: int) -> int:
    """Where the first line begins that begins at the place or after it."""
    if place == 0:
        return 0
    at = place - 1
    source.seek(at)
    while block := source.read(_BLOCK_BYTES):
        found = block.find(b"\n")
        if found >= 0:
            return int(at + found + 1)
        at += len(block)
    return size


def _whole_lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    held = b""
    while block := read():
        held += block
        end = held.rfind(b"\n") + 1
        if end:
            yield held[:end]
            held = held[end:]
    if held:
        yield held


def _without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield block.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from blocks


# Places


@contextmanager
def opened(file: File) -> Iterator[Any]:
    """Raises JobFailed where it is not the file that was found."""
    system, path = _system(file.path)
    with system.open_input_file(path) as source:
        if source.size() != file.bytes:
            raise JobFailed(f"it had {file.bytes:,} bytes and has {source.size():,}: it changes while it is loaded")
        yield source


def _system(path: str) -> tuple[pa.fs.FileSystem, str]:
    scheme, colon, rest = path.partition(":")
    if not colon or scheme == "file":
        return pa.fs.LocalFileSystem(), f"/{(rest if colon else path).lstrip('/')}"
    system, found = pa.fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}:{quote(rest)}")
    return system, found
