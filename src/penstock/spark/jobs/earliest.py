"""Keys of messages, and the earliest message of each key. Pure transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from penstock.spark.jobs.running import JobFailed
from penstock.spark.jobs.shaping import as_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY = "_key"
_RANK = "_rank"


def keyed(messages: DataFrame, by: str) -> DataFrame:
    """With a column for the key, null where a message has none."""
    kind, _, name = by.partition(":")
    body = body_bytes(messages)
    if by == "content":
        # Two hashes of bodies instead of the bodies: they are moved between machines to be compared.
        key = F.when(body.isNotNull(), F.concat_ws("-", F.sha2(body, 256), F.length(body)))
    elif kind == "attribute" and name:
        key = F.try_element_at("attributes", F.lit(name))
    elif kind == "json" and name:
        path = name if name.startswith("$") else f"$.{name}"
        key = F.get_json_object(body.cast("string"), path)
    else:
        raise JobFailed(f"{by!r} is no key: write content, attribute:<name> or json:<path>")
    return messages.withColumn(_KEY, key)


def earliest(marked: DataFrame) -> DataFrame:
    """One message per queue and key, the one that was sent first; those without a key all."""
    # A message without a key is alone with its id; the flag keeps an id from passing for a key.
    alone = F.col(_KEY).isNull()
    group = Window.partitionBy("queue", alone, F.coalesce(_KEY, "id")).orderBy("sent_at", "id", "consumer", "shipment")
    return marked.withColumn(_RANK, F.row_number().over(group)).where(F.col(_RANK) == 1).drop(_KEY, _RANK)


def counts(marked: DataFrame) -> tuple[int, int, int]:
    """Messages, those that are the earliest of their key, and those without a key."""
    alone = F.col(_KEY).isNull()
    groups = marked.groupBy("queue", alone.alias("alone"), F.coalesce(_KEY, "id")).agg(F.count(F.lit(1)).alias("n"))
    [row] = groups.agg(
        F.coalesce(F.sum("n"), F.lit(0)).alias("messages"),
        F.count(F.lit(1)).alias("kept"),
        F.coalesce(F.sum(F.when(F.col("alone"), F.col("n"))), F.lit(0)).alias("without_key"),
    ).collect()
    return row.messages, row.kept, row.without_key


def body_bytes(messages: DataFrame) -> Column:
    """The body as bytes, whichever way it was drained; a body that did not decode as it came."""
    kind = messages.schema["body"].dataType
    body = F.col("body") if isinstance(kind, BinaryType) else as_bytes(F.col("body"), kind)
    return F.coalesce(body, F.col("bad_record")) if "bad_record" in messages.columns else body
