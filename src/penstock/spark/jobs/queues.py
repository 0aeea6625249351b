"""A queue as a DataFrame, through the data source: all its messages, or one shipment of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def peeked(spark: SparkSession, url: str, api_key: str | None, queue: str) -> DataFrame:
    """Every message, without claiming any."""
    return source(spark, url, api_key, queue)


def source(spark: SparkSession, url: str, api_key: str | None, queue: str, **more: object) -> DataFrame:
    options: dict[str, Any] = {"url": url, "queue": queue, **more}
    if api_key is not None:
        options["apiKey"] = api_key
    return spark.read.format("penstock").options(**options).load()
