"""`load`: the rows of files into a queue, each exactly once.

Every file is sent under a key of its own, made of its path, size, time of change, the queue and what becomes of its
rows. So the same files can be loaded again, after a failure or by mistake, and nothing is stored twice while the
server remembers the keys (30 days); a new or changed file is sent. The files stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StringType, StructType, VariantType

from penstock.spark import folders
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.run import Run, Summary, settings, timed
from penstock.spark.jobs.sends import AS_JSON, STEADY, as_bytes, key_of, send_files
from penstock.spark.server import Server

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "json", "text", "csv")
_ENDINGS = {
    "parquet": "parquet",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "txt": "text",
    "text": "text",
    "log": "text",
    "csv": "csv",
}
_PACKED = ("gz", "bz2", "zst", "lz4", "snappy", "deflate")
JSON = "application/json"
_ATTRIBUTES = "map<string,string>"


@dataclass(frozen=True)
class Shape:
    """What becomes of a row: `body_column` alone, or all of it as one JSON object (a line of text or JSON as it
    is)."""

    format: str | None = None
    schema: str | None = None
    body_column: str | None = None
    content_type: str | None = None
    content_type_column: str | None = None
    attributes_column: str | None = None
    group_column: str | None = None
    dedup_id_column: str | None = None

    def known(self) -> dict[str, str | None]:
        """By which a load is known again: a column that was not there from the beginning counts where it is named."""
        later = ("group_column", "dedup_id_column")
        return {name: value for name, value in asdict(self).items() if value is not None or name not in later}


@dataclass
class LoadSummary(Summary):
    queue: str
    dry_run: bool = False
    files: int = 0
    bytes: int = 0
    messages: int = 0
    stored: int = 0
    repeated: int = 0
    created: bool = False
    seconds: float = 0.0
    paths: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        what = f"{self.files:,} files ({self.bytes:,} bytes)"
        if self.dry_run:
            queue = f"{self.queue}, which it would create" if self.created else self.queue
            return [f"would load {what} into {queue}:", *(f"  {path}" for path in self.paths)]
        lines = [f"loaded {self.stored:,} messages of {what} into {self.queue} in {self.seconds:.1f} s"]
        if self.repeated:
            lines.append(f"{self.repeated:,} messages had been loaded before and were not stored again")
        collapsed = self.messages - self.stored - self.repeated
        if collapsed > 0:
            lines.append(f"{collapsed:,} messages had a twin in the queue, which keeps only one")
        return lines


def load(
    server: Server,
    sources: Sequence[str],
    queue: str,
    *,
    shape: Shape = Shape(),
    create: bool = False,
    run: Run = Run(),
) -> LoadSummary:
    """Loads every file below `sources`: paths of any scheme, folders and wildcards included."""
    summary = LoadSummary(queue, run.dry_run)
    with timed(summary), server.client() as client, run.session("load") as session:
        summary.created = create and queue not in {it.name for it in client.queues(count=False)}
        if not summary.created:
            client.queue(queue)
        found = folders.files(session, *sources)
        formats = {file: shape.format or format_of(file.path) for file in found}
        summary.files, summary.bytes = len(found), sum(file.bytes for file in found)
        summary.paths = [file.path for file in found]
        if not run.dry_run:
            if summary.created:
                client.ensure_queue(queue)
            with settings(session, STEADY):
                sent = send_files(
                    found,
                    lambda file: messages_of(session, file.path, formats[file], shape),
                    lambda file: key_of(file, queue, [shape.known()]),
                    server,
                    queue,
                    run.progress,
                )
            summary.messages, summary.stored, summary.repeated = sent.messages, sent.stored, sent.repeated
    return summary


def format_of(path: str) -> str:
    endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
    while endings and endings[-1] in _PACKED:
        endings.pop()
    if not endings or endings[-1] not in _ENDINGS:
        raise JobFailed(f"the name of {path} does not say its format: name one of {', '.join(FORMATS)}")
    return _ENDINGS[endings[-1]]


def messages_of(spark: SparkSession, path: str, format: str, shape: Shape) -> DataFrame:  # noqa: A002
    """The rows of one file as messages."""
    columns = (
        shape.body_column,
        shape.content_type_column,
        shape.attributes_column,
        shape.group_column,
        shape.dedup_id_column,
    )
    if format == "text" or (format == "json" and all(name is None for name in columns)):
        content_type = shape.content_type or (JSON if format == "json" else "text/plain")
        return whole_lines(spark.read.text(path), content_type, with_blank=format == "text")
    reader = spark.read
    if shape.schema is not None:
        reader = reader.schema(shape.schema)
    if format == "csv":
        rows = reader.option("header", "true").option("mode", "FAILFAST").csv(path)
    elif format == "json":
        rows = reader.option("mode", "FAILFAST").json(path)
    else:
        rows = reader.parquet(path)
    return messages_from(rows, *columns, content_type=shape.content_type)


def whole_lines(lines: DataFrame, content_type: str, *, with_blank: bool) -> DataFrame:
    """Each line of `value` as it is, to the byte."""
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
    group_column: str | None = None,
    dedup_id_column: str | None = None,
    *,
    content_type: str | None = None,
) -> DataFrame:
    """Without a `body_column`, the body is a JSON object of all columns but those of the content type and the
    attributes: a group or a dedup id is mostly a field of what is sent."""
    for name in (body_column, content_type_column, attributes_column, group_column, dedup_id_column):
        if name is not None and name not in rows.columns:
            raise JobFailed(f"there is no column {name}; there are {', '.join(rows.columns)}")
    is_json = body_column is None
    if body_column is None:
        others = (content_type_column, attributes_column)
        fields = [_quoted(name) for name in rows.columns if name not in others]
        if not fields:
            raise JobFailed("no column is left for the body")
        body = F.to_json(F.struct(*fields), AS_JSON).cast("binary")
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
    for column, name in ((group_column, "group"), (dedup_id_column, "dedup_id")):
        if column is not None:
            columns.append(_quoted(column).cast("string").alias(name))
    return rows.select(*columns)


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
