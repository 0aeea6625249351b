"""From ledger rows to the figures of a report: pure transforms of DataFrames.

Few passes over the rows, each over few columns. The widest, `histogram`, counts messages by queue, stretch of time and
how long they took, in steps of a sixteenth of a power of two. Everything else, percentiles included, is summed up from
these counts: they can be added, for all queues together or for the small ones as one, which percentiles cannot.
Nothing is cached, and nothing is collected here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.report.axis import Axis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OUTCOMES = ("processed", "dead-lettered", "failed", "expired", "purged", "moved", "collapsed")
PERCENTILES = (0.5, 0.95, 0.99)
# The queues that are not shown one by one. No queue can have this name.
OTHERS = ""
# A duration is off by half a step at most: 2^(1/32), that is 2.2 %.
_STEPS = 16
ACCURACY = 2 ** (1 / (2 * _STEPS)) - 1

# A counted thing is one number, `code` = ((stretch + 1) * _KINDS + kind) * _DURATIONS + duration: grouping by one
# number is much faster than by four. Stretch -1 is all the time before the first. Kind 0 is a send, the others an end:
# an outcome, again or not.
_KINDS = 32
_SENT = 0
_DURATIONS = 1024
_NO_DURATION = _DURATIONS - 1
_BEFORE = -1

# Orders by deliveries, and by age where they are equal; 2^40 ms are 34 years.
_AGE_ROOM = 2**40
_MOST_RECEIVES = 2**22


def within(rows: DataFrame, since_ms: int | None, until_ms: int | None, queue: str | None = None) -> DataFrame:
    """The rows that have a part in this time: sent before its end and not finished before its beginning."""
    if since_ms is not None:
        rows = rows.where(F.col("finished_at") >= F.timestamp_millis(F.lit(since_ms)))
    if until_ms is not None:
        rows = rows.where(F.col("sent_at") < F.timestamp_millis(F.lit(until_ms)))
    return rows if queue is None else rows.where(F.col("queue") == queue)


def totals(rows: DataFrame, most: int) -> DataFrame:
    """One row: how many rows and queues there are, the extent of their times in ms, and the `most` largest `queues`
    with their number of `messages`, largest first."""
    by_queue = rows.groupBy("queue").agg(
        F.count("*").alias("messages"),
        F.min("sent_at").alias("sent_from"),
        F.min("finished_at").alias("finished_from"),
        F.max("finished_at").alias("finished_to"),
    )
    largest_first = F.struct((-F.col("messages")).alias("fewer"), "queue", "messages")
    return by_queue.agg(
        F.coalesce(F.sum("messages"), F.lit(0)).alias("messages"),
        F.count("*").alias("distinct"),
        F.unix_millis(F.min("sent_from")).alias("sent_from"),
        F.unix_millis(F.min("finished_from")).alias("finished_from"),
        F.unix_millis(F.max("finished_to")).alias("finished_to"),
        F.slice(F.sort_array(F.collect_list(largest_first)), 1, most).alias("queues"),
    )


def histogram(rows: DataFrame, axis: Axis) -> DataFrame:
    """Columns queue, code, messages. A row counts twice: as a send, with its wait, in the stretch it was sent in; and
    as an end, with its handling, in the stretch it finished in."""
    wait = F.unix_micros("first_claimed_at") - F.unix_micros("sent_at")
    # Of a dead letter it would be how long the claim was, not how long the work.
    handling = F.when(F.col("outcome") == "processed", F.unix_micros("finished_at") - F.unix_micros("last_claimed_at"))
    sent_in, finished_in = _stretch("sent_at", axis), _stretch("finished_at", axis)
    sent = F.when(sent_in < axis.count, _code(sent_in, F.lit(_SENT), wait))
    finished = F.when(finished_in.between(0, axis.count - 1), _code(finished_in, _end(), handling))
    counted = rows.select("queue", F.explode(F.array(sent, finished)).alias("code"))
    return counted.where(F.col("code").isNotNull()).groupBy("queue", "code").agg(F.count("*").alias("messages"))


def figures(counts: DataFrame, told: Collection[str] | None = None) -> DataFrame:
    """Of a histogram: a row per queue and stretch, per queue (`stretch` is null), per stretch of all queues (`queue`
    is null), and one for everything. Queues that are not among those `told` are one, OTHERS.

    sent, finished, one column per outcome, redelivered, and arrays of PERCENTILES in ms, `wait` and `handling`.
    `backlog` is what had been sent and not finished at the end of the stretch. In stretch -1 is what was sent before
    the first.
    """
    queue = F.col("queue") if told is None else F.when(F.col("queue").isin(*told), F.col("queue")).otherwise(OTHERS)
    kind = F.floor(F.col("code") / _DURATIONS) % _KINDS
    duration = F.col("code") % _DURATIONS
    parts = counts.select(
        queue.alias("queue"),
        (F.floor(F.col("code") / (_DURATIONS * _KINDS)) - 1).cast("int").alias("stretch"),
        kind.cast("int").alias("kind"),
        F.when(duration != _NO_DURATION, _milliseconds(duration)).alias("took"),
        "messages",
    )
    # In two steps: adding up counts is fast, keeping percentiles is slow, so the second step gets few rows.
    kept: list[Column | str] = [F.col("kind"), F.col("took")]
    sets: list[list[Column | str]] = [["queue", "stretch", *kept], ["queue", *kept], ["stretch", *kept], kept]
    summed = parts.groupingSets(sets, F.col("queue"), F.col("stretch"), *kept).agg(
        F.sum("messages").alias("messages"), F.grouping("queue").alias("of_all")
    )
    grouped = summed.groupBy("queue", "stretch", "of_all").agg(
        _sum(F.col("kind") == _SENT).alias("sent"),
        _sum(F.col("kind") != _SENT).alias("finished"),
        *(_sum(_is_outcome(number)).alias(name) for number, name in enumerate(OUTCOMES)),
        _sum((F.col("kind") != _SENT) & (F.col("kind") % 2 == 0)).alias("redelivered"),
        _percentiles(F.col("kind") == _SENT).alias("wait"),
        _percentiles(F.col("kind") != _SENT).alias("handling"),
    )
    so_far = Window.partitionBy("queue", "of_all").orderBy("stretch").rowsBetween(Window.unboundedPreceding, 0)
    # The rows without a stretch come first in that order, and are not part of the sum.
    change = F.when(F.col("stretch").isNotNull(), F.col("sent") - F.col("finished"))
    return grouped.withColumn("backlog", F.sum(change).over(so_far))


def extremes(rows: DataFrame, most: int) -> DataFrame:
    """One row: the ledger numbers of the `slowest` processed messages from send to finish, and of the most
    `retried`."""
    age = F.floor((F.unix_micros("finished_at") - F.unix_micros("sent_at")) / 1000)
    fitting = F.least(F.greatest(age, F.lit(0)), F.lit(_AGE_ROOM - 1))
    retried = F.least(F.col("receives"), F.lit(_MOST_RECEIVES)).cast("bigint") * _AGE_ROOM + fitting
    return rows.agg(
        F.max_by("number", F.when(F.col("outcome") == "processed", age), most).alias("slowest"),
        F.max_by("number", F.when(F.col("receives") > 1, retried), most).alias("retried"),
    )


def looked_up(rows: DataFrame, numbers: Sequence[int], excerpt: int) -> DataFrame:
    """These rows of the ledger with all that a table shows of them, times in ms and at most the first bytes of a body.

    Asked for one by one and not as a list: Parquet's reader turns a long list into its range, and reads all that lies
    between.
    """
    wanted = reduce(or_, [F.col("number") == number for number in numbers], F.lit(False))
    times = ("sent_at", "first_claimed_at", "last_claimed_at", "finished_at")
    return rows.where(wanted).select(
        "number", "queue", "id", "receives", "outcome", "size", "content_type",
        *(F.unix_millis(name).alias(name) for name in times),
        F.substring("body", 1, excerpt).alias("body"),
    )  # fmt: skip


def _stretch(column: str, axis: Axis) -> Column:
    since = F.unix_micros(column) - axis.start_ms * 1000
    return F.when(since < 0, _BEFORE).otherwise((since / (axis.width_ms * 1000)).cast("int"))


def _end() -> Column:
    """1, 3, 5 … for the outcomes of a first delivery, 2, 4, 6 … for those of a later one. An outcome we do not know
    comes last."""
    first, *others = enumerate(OUTCOMES)
    number = F.when(F.col("outcome") == first[1], first[0])
    for value, name in others:
        number = number.when(F.col("outcome") == name, value)
    again = F.when(F.col("receives") > 1, 1).otherwise(0)
    return number.otherwise(len(OUTCOMES)) * 2 + 1 + again


def _is_outcome(number: int) -> Column:
    return F.col("kind").isin(2 * number + 1, 2 * number + 2)


def _code(stretch: Column, kind: Column, micros: Column) -> Column:
    duration = F.when(micros < 1000, 0).otherwise((F.log2(micros / 1000) * _STEPS + 1).cast("int"))
    return ((stretch.cast("bigint") + 1) * _KINDS + kind) * _DURATIONS + F.coalesce(duration, F.lit(_NO_DURATION))


def _milliseconds(duration: Column) -> Column:
    """The middle of the step; whole, which makes it exact where steps are finer than milliseconds."""
    return F.when(duration == 0, 0.0).otherwise(F.round(F.pow(F.lit(2.0), (duration - 0.5) / _STEPS)))


def _sum(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col("messages"))), F.lit(0))


def _percentiles(condition: Column) -> Column:
    return F.percentile(F.when(condition, F.col("took")), list(PERCENTILES), F.col("messages"))
