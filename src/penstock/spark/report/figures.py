"""From ledger rows to the figures of a report: pure transforms of DataFrames.

Few passes over the rows, each over few columns. The widest, `histogram`, counts messages by queue, stretch of time and
how long they took, in steps of a sixteenth of a power of two. Nearly everything, percentiles included, is summed up
from these counts: they can be added, for all queues together or for the small ones as one, which percentiles cannot.
Nothing is cached, and nothing is collected here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.report.axis import DAY_MS, Axis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OUTCOMES = ("processed", "dead-lettered", "failed", "expired", "purged", "moved", "collapsed")
# Ends that a team looks into.
LOST = ("dead-lettered", "failed", "expired")
# From here on, it does not matter how often a message was handed out in vain: one more stands for all of them.
RECEIVES_TOLD = 10
PERCENTILES = (0.5, 0.95, 0.99)
# The queues that are not shown one by one. No queue can have this name.
OTHERS = ""
# A duration is off by half a step at most: 2^(1/32), that is 2.2 %.
_STEPS = 16
ACCURACY = 2 ** (1 / (2 * _STEPS)) - 1
# Spark's `log2` takes two logarithms, and each is slow. Rounding must not put what begins a step below it.
_STEPS_PER_LN = _STEPS / math.log(2)
_ROUNDING = 1e-9
# Up to here a step holds at most one whole number of milliseconds.
_FINE_MS = 1 / (2 ** (1 / _STEPS) - 1)

# A counted thing is one number, `code`: its queue, stretch, kind and duration, in this order of weight. Grouping by one
# number is much faster than by four, and than by a text. Queue 0 stands for all that are not told one by one. Stretch
# -1 is all the time before the first, and one past the last all the time after it. Kind 0 is a send with its wait; then
# the ends with their handling, one kind for each outcome, again or not; then an end once more with its latency; and
# last an end that came too late to be counted.
_KINDS = 32
_SENT = 0
_FIRST_END, _LAST_END = 1, 2 * len(OUTCOMES) + 2
_LATENCY = _LAST_END + 1
_LATER = _LAST_END + 2
_DURATIONS = 1024
_NO_DURATION = _DURATIONS - 1
_BEFORE = -1

# Orders by deliveries, and by age where they are equal; 2^40 ms are 34 years.
_AGE_ROOM = 2**40
_MOST_RECEIVES = 2**22
# Beside a size, which is at most some MiB.
_NUMBER_ROOM = 2**38


def within(rows: DataFrame, since_ms: int | None, until_ms: int | None, queue: str | None = None) -> DataFrame:
    """The rows that have a part in this time: sent before its end and not finished before its beginning."""
    if since_ms is not None:
        rows = rows.where(F.col("finished_at") >= F.timestamp_millis(F.lit(since_ms)))
    if until_ms is not None:
        rows = rows.where(F.col("sent_at") < F.timestamp_millis(F.lit(until_ms)))
    return rows if queue is None else rows.where(F.col("queue") == queue)


def finished_in(rows: DataFrame, axis: Axis) -> DataFrame:
    """Those that ended in the time that the axis shows."""
    return rows.where(_between("finished_at", axis.from_ms, axis.to_ms))


def known_to(rows: DataFrame) -> DataFrame:
    """One row: the instant up to which the archive tells what has finished, in ms; null where it is empty. That is when
    its last rows were exported, if they say so."""
    exported, finished = (F.unix_millis(F.max(name)) for name in ("exported_at", "finished_at"))
    return rows.agg(F.greatest(exported, finished + 1).alias("known_to"))


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


def histogram(rows: DataFrame, axis: Axis, told: Sequence[str], *, wait_where_finished: bool = False) -> DataFrame:
    """Columns code, messages, oldest, again, bytes: by queue where it is among those `told`. A row counts as a send,
    with its wait, in the stretch it was sent in; and as an end, once with its handling and once with its latency, in
    the stretch it finished in. The last three columns are the first `sent_at` in ms, the deliveries after the first,
    and the sizes.

    With `wait_where_finished`, a send counts in the stretch in which the message finished.
    """
    sent_at, finished_at = F.unix_micros("sent_at"), F.unix_micros("finished_at")
    processed = F.col("outcome") == "processed"
    # In two steps, because Java does not compile what becomes one very long function.
    measured = rows.select(
        F.array_position(F.array(*map(F.lit, told)), F.col("queue")).alias("queue"),
        F.unix_millis("sent_at").alias("sent_at"),
        F.greatest(F.col("receives") - 1, F.lit(0)).alias("again"),
        "size",
        # Where clocks disagree, nothing is sent after it has finished: a backlog would fall below zero.
        _stretch(finished_at if wait_where_finished else F.least(sent_at, finished_at), axis).alias("sent_in"),
        _stretch(finished_at, axis).alias("finished_in"),
        _end().alias("end"),
        _duration(F.unix_micros("first_claimed_at") - sent_at).alias("wait"),
        # Of a dead letter it would be how long the claim was, not how long the work.
        _duration(F.when(processed, finished_at - F.unix_micros("last_claimed_at"))).alias("handling"),
        F.when(processed, _duration(finished_at - sent_at)).alias("latency"),
    )
    sent_in, finished_in = F.col("sent_in"), F.col("finished_in")
    inside = finished_in.between(0, axis.count - 1)
    wait = F.when(sent_in >= 0, F.col("wait")).otherwise(_NO_DURATION)
    sent = F.when(sent_in < axis.count, _code(axis, sent_in, F.lit(_SENT), wait))
    ended = F.when(inside, _code(axis, finished_in, F.col("end"), F.col("handling")))
    later = _code(axis, finished_in, F.lit(_LATER), F.lit(_NO_DURATION))
    latent = F.when(inside, _code(axis, finished_in, F.lit(_LATENCY), F.col("latency")))
    codes = F.array(sent, F.coalesce(ended, later), latent)
    counted = measured.select("sent_at", "again", "size", F.explode(codes).alias("code"))
    return (
        counted.where(F.col("code").isNotNull())
        .groupBy("code")
        .agg(
            F.count("*").alias("messages"),
            F.min("sent_at").alias("oldest"),
            F.sum("again").alias("again"),
            F.sum("size").alias("bytes"),
        )
    )


def figures(counts: DataFrame, axis: Axis, told: Sequence[str]) -> DataFrame:
    """Of a histogram: a row per queue and stretch, per queue (`stretch` is null), per stretch of all queues (`queue`
    is null), and one for everything. Queues that were not `told` to the histogram are one, OTHERS.

    sent, finished, one column per outcome, redelivered, redeliveries, bytes, and arrays of PERCENTILES in ms, `wait`,
    `handling` and `latency`. `backlog` is what had been sent and not finished at the end of the stretch, and
    `sent_from` the first send of what finished in it, in ms. In stretch -1 is what was sent before the first, and in
    the one past the last the first send of what finished later.
    """
    stretch = F.floor(F.col("code") / (_DURATIONS * _KINDS))
    duration = F.col("code") % _DURATIONS
    parts = counts.select(
        F.floor(stretch / _stretches(axis)).cast("int").alias("queue"),
        (stretch % _stretches(axis) - 1).cast("int").alias("stretch"),
        (F.floor(F.col("code") / _DURATIONS) % _KINDS).cast("int").alias("kind"),
        F.when(duration != _NO_DURATION, _milliseconds(duration)).alias("took"),
        "messages", "oldest", "again", "bytes",
    )  # fmt: skip
    # In two steps: adding up counts is fast, keeping percentiles is slow, so the second step gets few rows.
    kept: list[Column | str] = [F.col("kind"), F.col("took")]
    sets: list[list[Column | str]] = [["queue", "stretch", *kept], ["queue", *kept], ["stretch", *kept], kept]
    summed = parts.groupingSets(sets, F.col("queue"), F.col("stretch"), *kept).agg(
        F.sum("messages").alias("messages"),
        F.min("oldest").alias("oldest"),
        F.sum("again").alias("again"),
        F.sum("bytes").alias("bytes"),
        F.grouping("queue").alias("of_all"),
    )
    grouped = summed.groupBy("queue", "stretch", "of_all").agg(
        _sum("messages", F.col("kind") == _SENT).alias("sent"),
        _sum("messages", _is_end()).alias("finished"),
        *(_sum("messages", _is_outcome(number)).alias(name) for number, name in enumerate(OUTCOMES)),
        _sum("messages", _is_end() & (F.col("kind") % 2 == 0)).alias("redelivered"),
        _sum("again", _is_end()).alias("redeliveries"),
        _sum("bytes", _is_end()).alias("bytes"),
        F.min(F.when(_is_end() | (F.col("kind") == _LATER), F.col("oldest"))).alias("sent_from"),
        _percentiles(F.col("kind") == _SENT).alias("wait"),
        _percentiles(_is_end()).alias("handling"),
        _percentiles(F.col("kind") == _LATENCY).alias("latency"),
    )
    so_far = Window.partitionBy("queue", "of_all").orderBy("stretch").rowsBetween(Window.unboundedPreceding, 0)
    # The rows without a stretch come first in that order, and are not part of the sum.
    change = F.when(F.col("stretch").isNotNull(), F.col("sent") - F.col("finished"))
    names = F.array(F.lit(OTHERS), *map(F.lit, told))
    return grouped.withColumn("backlog", F.sum(change).over(so_far)).withColumn(
        "queue", F.when(F.col("of_all") == 0, F.element_at(names, F.col("queue") + 1))
    )


def days(rows: DataFrame, day_ms: int, until_ms: int, told: Sequence[str]) -> DataFrame:
    """The `figures` of what finished on a day up to an instant, in stretch 1, and on the day before up to the same time
    of the day, in stretch 0. Waits are those of the messages that finished there."""
    windows = [_between("finished_at", day_ms - back, until_ms - back) for back in (DAY_MS, 0)]
    axis = Axis(day_ms - DAY_MS, DAY_MS, 2)
    return figures(histogram(rows.where(reduce(or_, windows)), axis, told, wait_where_finished=True), axis, told)


def causes(rows: DataFrame, most: int) -> DataFrame:
    """The messages that were LOST, counted by all that the ledger tells about why: queue, outcome, how often they were
    handed out, and content type; with the first and the last finish in ms. The `most` frequent ones."""
    receives = F.least(F.col("receives"), F.lit(RECEIVES_TOLD + 1))
    grouped = rows.where(F.col("outcome").isin(*LOST)).groupBy(
        "queue", "outcome", receives.alias("receives"), "content_type"
    )
    counted = grouped.agg(
        F.count("*").alias("messages"),
        F.unix_millis(F.min("finished_at")).alias("first_at"),
        F.unix_millis(F.max("finished_at")).alias("last_at"),
    )
    return counted.orderBy(F.desc("messages"), "queue", "outcome", "receives", "content_type").limit(most)


def extremes(rows: DataFrame, most: int) -> DataFrame:
    """One row: the ledger numbers of the `slowest` processed messages from send to finish, of the most `retried`, and
    of the `largest`. Many have the same size: of these, the ones that finished first."""
    age = F.floor((F.unix_micros("finished_at") - F.unix_micros("sent_at")) / 1000)
    fitting = F.least(F.greatest(age, F.lit(0)), F.lit(_AGE_ROOM - 1))
    retried = F.least(F.col("receives"), F.lit(_MOST_RECEIVES)).cast("bigint") * _AGE_ROOM + fitting
    earlier = _NUMBER_ROOM - 1 - F.col("number") % _NUMBER_ROOM
    return rows.agg(
        F.max_by("number", F.when(F.col("outcome") == "processed", age), most).alias("slowest"),
        F.max_by("number", F.when(F.col("receives") > 1, retried), most).alias("retried"),
        F.max_by("number", F.col("size") * _NUMBER_ROOM + earlier, most).alias("largest"),
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


def _between(column: str, since_ms: int, until_ms: int) -> Column:
    first, end = (F.timestamp_millis(F.lit(ms)) for ms in (since_ms, until_ms))
    return (F.col(column) >= first) & (F.col(column) < end)


def _stretch(micros: Column, axis: Axis) -> Column:
    since = micros - axis.start_ms * 1000
    number = (since / (axis.width_ms * 1000)).cast("int")
    return F.when(micros < axis.from_ms * 1000, _BEFORE).when(micros >= axis.to_ms * 1000, axis.count).otherwise(number)


def _end() -> Column:
    """1, 3, 5 … for the outcomes of a first delivery, 2, 4, 6 … for those of a later one. An outcome we do not know
    comes last."""
    first, *others = enumerate(OUTCOMES)
    number = F.when(F.col("outcome") == first[1], first[0])
    for value, name in others:
        number = number.when(F.col("outcome") == name, value)
    again = F.when(F.col("receives") > 1, 1).otherwise(0)
    return number.otherwise(len(OUTCOMES)) * 2 + _FIRST_END + again


def _is_end() -> Column:
    return F.col("kind").between(_FIRST_END, _LAST_END)


def _is_outcome(number: int) -> Column:
    return F.col("kind").isin(2 * number + _FIRST_END, 2 * number + _FIRST_END + 1)


def _code(axis: Axis, stretch: Column, kind: Column, duration: Column) -> Column:
    place = F.col("queue") * _stretches(axis) + stretch + 1
    return (place * _KINDS + kind) * _DURATIONS + duration


def _stretches(axis: Axis) -> int:
    """With one before and one after."""
    return axis.count + 2


def _duration(micros: Column) -> Column:
    step = F.when(micros < 1000, 0).otherwise((F.ln(micros / 1000) * _STEPS_PER_LN + (1 + _ROUNDING)).cast("int"))
    return F.coalesce(step, F.lit(_NO_DURATION))


def _milliseconds(duration: Column) -> Column:
    """The middle of the step; whole where steps are finer than milliseconds, which makes it exact."""
    middle = F.pow(F.lit(2.0), (duration - 0.5) / _STEPS)
    return F.when(duration == 0, 0.0).when(middle < _FINE_MS, F.round(middle)).otherwise(middle)


def _sum(name: str, condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(name))), F.lit(0))


def _percentiles(condition: Column) -> Column:
    return F.percentile(F.when(condition, F.col("took")), list(PERCENTILES), F.col("messages"))
