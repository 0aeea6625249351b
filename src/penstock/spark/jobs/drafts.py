"""Rows of files as messages to send, in Arrow: what `Shape` says, done.

The same row becomes the same bytes wherever this runs, since the keys of a send hold for its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.codec import encode, is_plain, reads
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.parts import Part, parquet_columns, read_csv, read_lines, read_parquet

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.spark.jobs.load import Shape

JSON = "application/json"
TEXT = "text/plain"
_TEXT_MAP = pa.map_(pa.string(), pa.string())
_INSTANT = pa.timestamp("us", "UTC")
_ZONE = r":.*(Z|[+-]\d\d(:?\d\d)?)$"
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class Drafting:
    """How the rows of a part become messages. `schema` is the shape's, which only the driver can parse. It can be
    pickled."""

    format: str
    shape: Shape
    schema: StructType | None

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Batches of what a send has. Raises JobFailed."""
        if self.format == "text" or (self.format == "json" and not self.shape.named()):
            return self._lines(part)
        if self.format == "json" and self.schema is None:
            return self._objects(part)
        return (drafts_from(rows, self.shape) for rows in self._rows(part))

    def _lines(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Each as it is; in a file of JSON, a blank one is none."""
        kind = self.shape.content_type or (JSON if self.format == "json" else TEXT)
        for lines in read_lines(part):
            kept = [line for line in lines if line.strip()] if self.format == "json" else lines
            bodies = pa.array(kept, pa.binary())
            yield _batch({"body": bodies, "content_type": _repeated(kind, len(bodies))})

    def _objects(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Of lines of JSON, fields as they stand."""
        for lines in read_lines(part):
            try:
                rows = [_decode_fields(line) for line in lines if line.strip()]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise JobFailed(f"a line is not a JSON object: {error}") from None
            yield drafts_of_objects(rows, self.shape)

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        if self.format == "parquet":
            yield from self._parquet(part)
        elif self.format == "csv":
            yield from (_typed(rows, self.schema) for rows in read_csv(part))
        elif self.schema is not None:
            decode, kind = reads(self.schema)
            for lines in read_lines(part):
                try:
                    rows = pa.array([decode(line) for line in lines if line.strip()], kind)
                except (msgspec.DecodeError, pa.ArrowException, ValueError, OverflowError) as error:
                    raise JobFailed(f"a line does not fit the schema: {error}") from None
                yield pa.RecordBatch.from_struct_array(rows)

    def _parquet(self, part: Part) -> Iterator[pa.RecordBatch]:
        if self.schema is not None:
            kind = reads(self.schema)[1]
            found = parquet_columns(part)
            for rows in read_parquet(part, [field.name for field in kind if field.name in found]):
                yield _selected(rows, kind)
            return
        wanted = self.shape.named() if self.shape.body_column is not None else None
        if wanted is not None:
            _check_names(wanted, parquet_columns(part))
        yield from read_parquet(part, wanted)


# Rows of columns


def drafts_from(rows: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """Without a column for the body, it is a JSON object of all columns but those of the content type and the
    attributes: a group or a dedup id is mostly a field of what is sent."""
    _check_names(shape.named(), rows.schema.names)
    if shape.body_column is None:
        others = (shape.content_type_column, shape.attributes_column)
        fields = [name for name in rows.schema.names if name not in others]
        if not fields:
            raise JobFailed("no column is left for the body")
        body = encode(rows.select(fields).to_struct_array())
        is_json = True
    else:
        values = _unpacked(rows[shape.body_column])
        is_json = pa.types.is_nested(values.type)
        body = encode(values) if is_json else _texts(values).cast(pa.binary())
    made = {"body": body}
    kind = shape.content_type or (JSON if is_json else None)
    if shape.content_type_column is not None:
        given = _texts(rows[shape.content_type_column])
        made["content_type"] = given if kind is None else pc.coalesce(given, pa.scalar(kind))
    elif kind is not None:
        made["content_type"] = _repeated(kind, len(rows))
    if shape.attributes_column is not None:
        given = _unpacked(rows[shape.attributes_column])
        if not (pa.types.is_map(given.type) or pa.types.is_struct(given.type) or pa.types.is_string(given.type)):
            raise JobFailed(
                f"attributes are a map, a struct or a JSON object; the column {shape.attributes_column} is {given.type}"
            )
        made["attributes"] = _attributes(given.to_pylist(maps_as_pydicts="strict"))
    for column, name in ((shape.group_column, "group"), (shape.dedup_id_column, "dedup_id")):
        if column is not None:
            made[name] = _texts(rows[column])
    return _batch(made)


def _check_names(named: Sequence[str], found: Sequence[str]) -> None:
    for name in named:
        if name not in found:
            raise JobFailed(f"there is no column {name}; there are {', '.join(found)}")


def _typed(rows: pa.RecordBatch, schema: StructType | None) -> pa.RecordBatch:
    """Texts as the types of a schema, which names the columns in their order."""
    if schema is None:
        return rows
    kind = reads(schema)[1]
    if kind.num_fields != rows.num_columns:
        raise JobFailed(f"the schema has {kind.num_fields} columns, and the file {rows.num_columns}")
    return pa.RecordBatch.from_arrays([_cast(it, field) for it, field in zip(rows, kind, strict=True)], kind.names)


def _selected(rows: pa.RecordBatch, kind: pa.StructType) -> pa.RecordBatch:
    columns = [
        _cast(rows[field.name], field) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in kind
    ]
    return pa.RecordBatch.from_arrays(columns, kind.names)


def _cast(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if field.type == _INSTANT and pa.types.is_string(values.type):
            return _instants(values)
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise JobFailed(f"the column {field.name} does not fit the schema: {error}") from None


def _instants(values: pa.Array) -> pa.Array:
    """Those without a zone are in UTC."""
    zoned = pc.match_substring_regex(values, _ZONE)
    others = pc.if_else(zoned, None, values).cast(pa.timestamp("us"))
    return pc.coalesce(pc.if_else(zoned, values, None).cast(_INSTANT), pc.assume_timezone(others, "UTC"))


def _unpacked(values: pa.Array) -> pa.Array:
    """As plain values, whichever way a file stores them."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    if pa.types.is_large_binary(values.type) or pa.types.is_binary_view(values.type):
        return values.cast(pa.binary())
    return values


def _texts(values: pa.Array) -> pa.Array:
    """Text and bytes as they are, anything else as in JSON, without its quotes."""
    values = _unpacked(values)
    if is_plain(values.type):
        return values
    found = [None if text is None else text.decode().strip('"') for text in encode(values).to_pylist()]
    return pa.array(found, pa.string())


# Rows of JSON


def drafts_of_objects(rows: Sequence[dict[str, msgspec.Raw]], shape: Shape) -> pa.RecordBatch:
    """A value that has parts stays as it is written, a text is sent without its quotes."""
    others = (shape.content_type_column, shape.attributes_column)
    if shape.body_column is None:
        bodies: list[bytes | None] = [
            _encode({name: value for name, value in row.items() if name not in others}) for row in rows
        ]
    else:
        bodies = [_bytes_of(row.get(shape.body_column)) for row in rows]
    made = {"body": pa.array(bodies, pa.binary())}
    kinds = [shape.content_type or (JSON if _has_parts(row, shape.body_column) else None) for row in rows]
    if shape.content_type_column is not None:
        kinds = [_text_of(row.get(shape.content_type_column)) or kind for row, kind in zip(rows, kinds, strict=True)]
    made["content_type"] = pa.array(kinds, pa.string())
    if shape.attributes_column is not None:
        given = [row.get(shape.attributes_column) for row in rows]
        made["attributes"] = _attributes([None if value is None else _decode(value) for value in given])
    for column, name in ((shape.group_column, "group"), (shape.dedup_id_column, "dedup_id")):
        if column is not None:
            made[name] = pa.array([_text_of(row.get(column)) for row in rows], pa.string())
    return _batch(made)


def _bytes_of(value: msgspec.Raw | None) -> bytes | None:
    text = _text_of(value)
    return None if text is None else text.encode()


def _text_of(value: msgspec.Raw | None) -> str | None:
    raw = b"null" if value is None else bytes(value)
    if raw == b"null":
        return None
    return str(_decode(raw)) if raw.startswith(b'"') else raw.decode()


def _has_parts(row: Mapping[str, msgspec.Raw], column: str | None) -> bool:
    return column is None or bytes(row.get(column, b"")).startswith((b"{", b"["))


# Both


def _attributes(given: Sequence[Any]) -> pa.Array:
    return pa.array([_attributes_of(value) for value in given], _TEXT_MAP)


def _attributes_of(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, str):
        try:
            value = _decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise JobFailed(f"attributes are a JSON object, and not {value[:80]!r}") from None
    if value is None:
        return []
    if not isinstance(value, dict):
        raise JobFailed(f"attributes are a JSON object, and not {str(value)[:80]!r}")
    present = ((name, it) for name, it in value.items() if it is not None)
    return [(name, it if isinstance(it, str) else _encode(it).decode().strip('"')) for name, it in present]


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)
