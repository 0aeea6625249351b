"""Bodies from bytes to text or typed values, in the JVM. What does not decode stays, as it came, in `bad_record`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORMATS = ("binary", "text", "json")
_CORRUPT = "_corrupt"


def decoded(messages: DataFrame, format: str = "binary", schema: str | None = None) -> DataFrame:  # noqa: A002
    """`messages` with its binary `body` decoded. Text and JSON bring a column `bad_record`: the body where it is no
    UTF-8 or not of the schema, and then `body` is null."""
    if format == "binary":
        return messages
    text = F.col("body").cast("string")
    is_text = F.is_valid_utf8(text)
    if format == "text":
        return _split(messages, text, is_text)
    if schema is None:
        raise ValueError("json needs a schema")
    # Spark reads the first value and drops what comes after it; within an array that does not pass for a whole.
    wrapped = F.concat(F.lit('{"of":['), text, F.lit("]}"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(wrapped, f"of array<{_type_of(schema)}>, {_CORRUPT} string", options)
    good = is_text & parsed[_CORRUPT].isNull() & (F.size(parsed["of"]) == 1) & parsed["of"][0].isNotNull()
    return _split(messages, parsed["of"][0], good)


def _split(messages: DataFrame, body: Column, good: Column) -> DataFrame:
    is_good = F.coalesce(good, F.lit(False))
    return messages.select(
        *(F.when(is_good, body).alias("body") if name == "body" else F.col(name) for name in messages.columns),
        F.when(~is_good, F.col("body")).alias("bad_record"),
    )


def _type_of(schema: str) -> str:
    """`a int, b string` are the fields of a struct; `array<int>` is a type by itself."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    kind = _parse_datatype_string(schema)
    if isinstance(kind, StructType) and len(kind) == 1 and kind[0].name == "value" and " " not in schema.strip():
        kind = kind[0].dataType
    return kind.simpleString()
