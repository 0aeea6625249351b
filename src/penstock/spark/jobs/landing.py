"""One numbered batch into its folder of the lake: as a whole or not at all.

The rows are written to a draft beside the folder, counted, and renamed. So a job that dies leaves a draft that no
reader sees, and two jobs that work on the same number at once cannot spoil each other's work: a folder that is
there is complete. Nothing here talks to a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark import folders
from penstock.spark.jobs.running import JobFailed
from penstock.spark.lake import Lake, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Landed:
    rows: int
    bad: int


def land(
    spark: SparkSession, lake: Lake, place: Place, claimed_at: int, rows: int, read: Callable[[], DataFrame]
) -> Landed:
    """Writes what `read` gives, which must be `rows` rows, unless an earlier run has. Raises JobFailed where the folder
    belongs to another claim of the same number."""
    folder = lake.folder(place)
    occupied = folders.exists(spark, folder)
    if occupied:
        there = lake.claimed_at(place)
        if there not in (None, claimed_at):
            raise JobFailed(
                f"{folder} holds rows of another claim of number {place.number}: the queue or the store was made anew. "
                "Use another lake or another consumer"
            )
        found = _counted(spark.read.parquet(folder)) if there is not None else Landed(0, 0)
        if there is not None and found.rows == rows:
            return found
    if folders.is_connect(spark):
        landed = _replaced(read(), folder)
        _check(landed, rows, place)
        return landed
    draft = lake.draft(place)
    try:
        landed = _written(read(), draft)
        _check(landed, rows, place)
        if occupied:
            folders.remove(spark, folder)
        folders.move(spark, draft, folder)
    except BaseException:
        folders.remove(spark, draft)
        raise
    return landed


def clear_drafts(spark: SparkSession, lake: Lake, place: Place, but: int | None) -> list[str]:
    """Takes away what dead runs left behind. Number `but` is in progress, maybe by another job: it is left alone."""
    removed = [folder for folder in lake.drafts(place) if lake.number_of_draft(folder) != but]
    for folder in removed:
        folders.remove(spark, folder)
    return removed


def _written(frame: DataFrame, folder: str) -> Landed:
    told = Observation()
    frame.observe(told, *_counts(frame)).write.mode("overwrite").parquet(folder)
    return Landed(told.get["rows"], told.get["bad"])


def _replaced(frame: DataFrame, folder: str) -> Landed:
    """Where nothing of ours can rename. Spark does when it overwrites partitions: it writes aside, under a name of its
    own, and then puts the whole in the folder's place. A job that outlives its client, as a Spark Connect server lets
    it, so brings the same rows once more and adds none."""
    parent, _, name = folder.rpartition("/")
    column, _, number = name.partition("=")
    told = Observation()
    placed = frame.observe(told, *_counts(frame)).withColumn(column, F.lit(int(number)))
    writer = placed.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(column).parquet(parent)
    return Landed(told.get["rows"], told.get["bad"])


def _counted(frame: DataFrame) -> Landed:
    [row] = frame.agg(*_counts(frame)).collect()
    return Landed(row.rows, row.bad)


def _counts(frame: DataFrame) -> list[Column]:
    bad = F.col("bad_record") if "bad_record" in frame.columns else F.lit(None)
    return [F.count(F.lit(1)).alias("rows"), F.count(bad).alias("bad")]


def _check(landed: Landed, rows: int, place: Place) -> None:
    if landed.rows != rows:
        raise JobFailed(
            f"number {place.number} has {rows:,} rows and {landed.rows:,} were read; nothing was settled, run it again"
        )
