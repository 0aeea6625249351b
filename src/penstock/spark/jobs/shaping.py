"""Rows of any shape as messages: the column `body` and, where there is something in them, `content_type` and
`attributes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from penstock.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JSON = "application/json"
# Said, not left to the session: the same row must become the same bytes whoever runs the job.
_AS_JSON = {"ignoreNullFields": "false", "timeZone": "UTC"}
_ATTRIBUTES = "map<string,string>"


def whole_lines(lines: DataFrame, content_type: str, *, with_blank: bool) -> DataFrame:
    """Each line of `value` as it stands, to the byte."""
    if not with_blank:
        lines = lines.where(F.trim("value") != "")
    return lines.select(
        F.col("value").cast("binary").alias("body"),
        F.lit(content_type).alias("content_type"),
    )


def messages_from(
    rows: DataFrame,
    body_column: str | None = None,
    content_type_column: str | None = None,
    attributes_column: str | None = None,
    *,
    content_type: str | None = None,
) -> DataFrame:
    """Without a `body_column`, the body is a JSON object of all columns that have no other part."""
    for name in (body_column, content_type_column, attributes_column):
        if name is not None and name not in rows.columns:
            raise JobFailed(f"there is no column {name}; there are {', '.join(rows.columns)}")
    is_json = body_column is None
    if body_column is None:
        others = (content_type_column, attributes_column)
        fields = [_quoted(name) for name in rows.columns if name not in others]
        if not fields:
            raise JobFailed("no column is left for the body")
        body = F.to_json(F.struct(*fields), _AS_JSON).cast("binary")
    else:
        kind = rows.schema[body_column].dataType
        is_json = isinstance(kind, StructType | ArrayType | MapType | VariantType)
        body = as_bytes(_quoted(body_column), kind)
    columns = [body.alias("body")]
    default = F.lit(content_type or (JSON if is_json else None)).cast("string")
    if content_type_column is not None:
        default = F.coalesce(_quoted(content_type_column).cast("string"), default)
    if content_type_column is not None or content_type is not None or is_json:
        columns.append(default.alias("content_type"))
    if attributes_column is not None:
        columns.append(_attributes(rows, attributes_column).alias("attributes"))
    return rows.select(*columns)


def as_bytes(column: Column, kind: DataType) -> Column:
    """Text and bytes as they are, what has parts as JSON, and anything else as Spark writes it."""
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType | ArrayType | MapType | VariantType):
        column = F.to_json(column, _AS_JSON)
    return column.cast("string").cast("binary")


def _attributes(rows: DataFrame, name: str) -> Column:
    none = F.create_map().cast(_ATTRIBUTES)
    kind = rows.schema[name].dataType
    column = _quoted(name)
    if isinstance(kind, StructType):
        column = F.to_json(column)
    if isinstance(kind, StructType | StringType):
        given = F.from_json(column, MapType(StringType(), StringType()), {"mode": "FAILFAST"})
    elif isinstance(kind, MapType):
        given = column.cast(_ATTRIBUTES)
    else:
        raise JobFailed(f"attributes are a map, a struct or a JSON object; the column {name} is {kind.simpleString()}")
    present = F.map_filter(given, lambda _, value: value.isNotNull())
    return F.coalesce(present, none)


def _quoted(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
