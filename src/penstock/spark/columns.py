"""The columns a read of the data source offers, and how a page of messages becomes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.spark.codec import decoder_of, format_for
from penstock.spark.errors import InvalidOption
from penstock.spark.options import Options

_TEXT_MAP = spark.MapType(spark.StringType(), spark.StringType())
_TYPES: dict[str, spark.DataType] = {
    "id": spark.StringType(),
    "content_type": spark.StringType(),
    "attributes": _TEXT_MAP,
    "sent_at": spark.TimestampType(),
    "receives": spark.IntegerType(),
    "queue": spark.StringType(),
    "bad_record": spark.BinaryType(),
    "group": spark.StringType(),
    "first_claimed_at": spark.TimestampType(),
}
_SOMETIMES_NULL = ("body", "content_type", "bad_record", "group", "first_claimed_at")
_NESTED = ("struct<", "array<", "map<")


def schema_of(options: Options) -> str:
    """The schema of a read that names none, as DDL: only Spark's Java side can parse a type."""
    format_ = options.format or ("json" if options.body_schema else "binary")
    body = {"binary": "BINARY", "text": "STRING", "json": "STRING"}[format_]
    if options.body_schema:
        if format_ != "json":
            raise InvalidOption(f"the option bodySchema is for format json, not {format_}")
        nested = options.body_schema.strip().lower().startswith(_NESTED)
        body = options.body_schema if nested else f"STRUCT<{options.body_schema}>"
    bad = "" if format_ == "binary" else ", bad_record BINARY"
    return (
        f"id STRING, body {body}, content_type STRING, attributes MAP<STRING, STRING>, sent_at TIMESTAMP, "
        f"receives INT, queue STRING{bad}, `group` STRING, first_claimed_at TIMESTAMP"
    )


class Columns:
    """From the columns of the API to those that were asked for, in their order. It can be pickled."""

    def __init__(self, options: Options, schema: spark.StructType) -> None:
        """Raises InvalidOption for columns that a read does not have."""
        self._schema = schema
        body = next((field.dataType for field in schema.fields if field.name.lower() == "body"), None)
        self._body = body
        for field in schema.fields:
            _check(field)
        if body is None:
            if "bad_record" in (name.lower() for name in schema.names):
                raise InvalidOption("the column bad_record goes with the column body, which tells how to decode it")
            return
        self._format = options.format or format_for(body)
        decoder_of(self._format, body)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        bodies = batch["body"]
        decoded = bad = pa.nulls(batch.num_rows, pa.binary())
        if self._body is not None:
            kind = next(field.type for field in wanted if field.name.lower() == "body")
            decode = decoder_of(self._format, self._body)
            decoded = bodies if decode is None else decode(bodies, kind)
            bad = pc.if_else(decoded.is_null(), bodies, pa.scalar(None, bodies.type))
        arrays = []
        for field in wanted:
            name = field.name.lower()
            if name == "body":
                arrays.append(_as(decoded, field.type))
            elif name == "bad_record":
                arrays.append(_as(bad, field.type))
            else:
                arrays.append(_as(batch[name], field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _check(field: spark.StructField) -> None:
    name = field.name.lower()
    if name != "body":
        kind = _TYPES.get(name)
        if kind is None:
            raise InvalidOption(f"there is no column {field.name!r}; there are body, {', '.join(_TYPES)}")
        if kind.simpleString() != field.dataType.simpleString():
            raise InvalidOption(f"the column {name} is {kind.simpleString()}, not {field.dataType.simpleString()}")
    if name in _SOMETIMES_NULL and not field.nullable:
        raise InvalidOption(f"the column {name} may be null: leave out NOT NULL")


def _as(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_map(kind) and pa.types.is_map(values.type) and values.type != kind:
        # Two map types may differ only in what they call their parts.
        return pa.MapArray.from_arrays(values.offsets, values.keys, values.items, kind)
    return values if values.type == kind else values.cast(kind)
