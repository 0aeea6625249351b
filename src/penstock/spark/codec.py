"""Bodies between bytes and Spark's types, without losing one.

What does not decode becomes null, and its bytes are kept beside it, in `bad_record`: broken JSON, another type than the
schema says, bytes that are not UTF-8. A field that is missing is null, one that the schema does not name is left out.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from penstock.spark.errors import InvalidOption

# A decoder turns bodies into an array of the wanted type; null where a body does not fit.
Decode = Callable[[pa.Array, pa.DataType], pa.Array]

_SIMPLE: dict[type[spark.DataType], Any] = {
    spark.StringType: str,
    spark.BooleanType: bool,
    spark.ByteType: Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)],
    spark.ShortType: Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)],
    spark.IntegerType: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    spark.LongType: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    spark.FloatType: float,
    spark.DoubleType: float,
    spark.DecimalType: decimal.Decimal,
    spark.BinaryType: bytes,  # base64
    spark.DateType: datetime.date,
    spark.TimestampType: datetime.datetime,
    spark.TimestampNTZType: datetime.datetime,
}


def decoder_of(format: str, kind: spark.DataType) -> Decode | None:  # noqa: A002
    """How bodies become values of this type; None where they stay as they are. Raises InvalidOption."""
    if format == "binary":
        if not isinstance(kind, spark.BinaryType):
            raise InvalidOption(f"with format binary the column body is binary, not {kind.simpleString()}")
        return None
    if format == "text":
        if not isinstance(kind, spark.StringType):
            raise InvalidOption(f"with format text the column body is string, not {kind.simpleString()}")
        return _texts
    if isinstance(kind, spark.StringType):
        return _json_texts
    decode = msgspec.json.Decoder(_wanted(kind)).decode
    return lambda bodies, wanted: _values(bodies, wanted, decode)


def reads(schema: spark.StructType) -> tuple[Callable[[bytes], Any], pa.StructType]:
    """What reads a JSON object of this schema, and the type in Arrow of what it gives. Raises InvalidOption."""
    return msgspec.json.Decoder(_wanted(schema)).decode, to_arrow_type(schema, timezone="UTC")


def format_for(kind: spark.DataType) -> str:
    """What a body of this type is decoded as where no format was named."""
    if isinstance(kind, spark.BinaryType):
        return "binary"
    return "text" if isinstance(kind, spark.StringType) else "json"


def _wanted(kind: spark.DataType) -> Any:
    """The Python type that JSON must fit to become this type of Spark's."""
    if isinstance(kind, spark.StructType):
        names = {name: _wanted(field.dataType) | None for name, field in zip(kind.names, kind.fields, strict=True)}
        return TypedDict("Fields", names, total=False)  # type: ignore[operator]
    if isinstance(kind, spark.ArrayType):
        return list[_wanted(kind.elementType) | None]  # type: ignore[misc]
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        return dict[str, _wanted(kind.valueType) | None]  # type: ignore[misc]
    if type(kind) in _SIMPLE:
        return _SIMPLE[type(kind)]
    raise InvalidOption(f"JSON cannot be read into the type {kind.simpleString()}")


def _texts(bodies: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return bodies.cast(wanted)
    except pa.ArrowInvalid:
        return pa.array([_text(body) for body in bodies.to_pylist()], wanted)


def _json_texts(bodies: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pa.array([_text(body) if _is_json(body) else None for body in bodies.to_pylist()], wanted)


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _values(bodies: pa.Array, wanted: pa.DataType, decode: Callable[[bytes], Any]) -> pa.Array:
    decoded = []
    for body in bodies.to_pylist():
        try:
            decoded.append(decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decoded.append(None)
    try:
        return pa.array(decoded, wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([value if _fits(value, wanted) else None for value in decoded], wanted)


def _fits(value: Any, wanted: pa.DataType) -> bool:
    """Some limits only Arrow knows: the digits of a decimal, the years of a timestamp."""
    try:
        pa.array([value], wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def encode(values: pa.Array) -> pa.Array:
    """Bodies to send: text and bytes as they are, anything else as JSON."""
    kind = values.type
    if is_plain(kind):
        return values
    encoder = msgspec.json.Encoder(decimal_format="number")
    found = values.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else encoder.encode(value) for value in found], pa.binary())


def is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )
