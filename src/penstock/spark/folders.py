"""Folders and files wherever Spark reads and writes: through Hadoop's FileSystem, so that every scheme works.

A Spark Connect session cannot call Hadoop's classes. There, folders are listed by Spark's own file reader, and a folder
to be removed is emptied, which reads the same. Nothing here knows what is in a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, order=True)
class File:
    path: str
    bytes: int
    modified_at: int  # milliseconds since the epoch


def is_connect(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


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


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """The names of the folders in a folder that hold files; none when it does not exist."""
    if is_connect(spark):
        return _names_by_reader(spark, folder)
    system, path = _hadoop(spark, folder)
    if not system.exists(path):
        return []
    return sorted(status.getPath().getName() for status in system.listStatus(path) if status.isDirectory())


def exists(spark: SparkSession, folder: str) -> bool:
    if is_connect(spark):
        try:
            return bool(files(spark, folder))
        except FileNotFoundError:
            return False
    system, path = _hadoop(spark, folder)
    return bool(system.exists(path))


def remove(spark: SparkSession, folder: str) -> None:
    """With all that is in it. A folder that does not exist is fine."""
    if is_connect(spark):
        if exists(spark, folder):
            # By a column: otherwise Spark would leave a file behind that has columns and no rows.
            empty = spark.range(0).selectExpr("id", "id AS nothing").write.mode("overwrite")
            empty.option("partitionOverwriteMode", "static").partitionBy("nothing").parquet(folder)
        return
    system, path = _hadoop(spark, folder)
    system.delete(path, True)


def move(spark: SparkSession, folder: str, to: str) -> None:
    """In one step, where the file system can. If `to` exists the folder ends up inside it, as Hadoop does it."""
    system, path = _hadoop(spark, folder)
    if not system.rename(path, _hadoop(spark, to)[1]):
        raise OSError(f"{folder} could not be renamed to {to}")


def _hadoop(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return path.getFileSystem(configuration), path


def _names_by_reader(spark: SparkSession, folder: str) -> list[str]:
    try:
        found = files(spark, folder)
    except FileNotFoundError:
        return []
    # The reader gives the whole address, `file:/lake/…` for `/lake/…`, which the folder's own name ends.
    last = f"/{folder.rstrip('/').rsplit('/', 1)[-1]}/"
    below = (file.path.rpartition(last)[2] for file in found if last in file.path)
    return sorted({rest.partition("/")[0] for rest in below if "/" in rest})
