"""Files wherever Spark reads, as its own file reader lists them, so that every scheme works. Nothing here knows what is
in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, order=True)
class File:
    path: str
    bytes: int
    modified_at: int  # milliseconds since the epoch


def files(spark: SparkSession, *paths: str) -> list[File]:
    """Every file that Spark would read below the paths, which may hold wildcards; sorted. Names that start with `_` or
    `.` are none of them. Raises FileNotFoundError."""
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        loaded = listed.load(list(paths))
        rows = loaded.select("path", "length", F.unix_millis("modificationTime").alias("modified_at")).collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise FileNotFoundError(f"there is nothing at {', '.join(paths)}") from None
    return sorted(File(row.path, row.length, row.modified_at) for row in rows)
