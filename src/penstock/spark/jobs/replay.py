"""`replay`: messages from the lake, or from a dead-letter queue, into a queue; filtered, and only after a look.

From the lake the files stay as they are, and each is sent under a key of its own, as `load` does it. From a queue
the messages move:

- all of them, by shipments: a shipment is sent under keys made of its number, and settled when all of it is sent;
- some of them, by claims: each message that matches is sent under a key made of its id, then acked; the others are
  released, the same as before but for one receive more.

Either way a replay that was cut short is finished by running it again, and nothing is sent twice while the server
remembers the keys.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.jobs.running import DEFAULT_URL, PATIENCE_S, JobFailed, session_of, settings
from penstock.spark.jobs.sending import STEADY
from penstock.spark.lake import Lake
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT = 100_000


@dataclass
class ReplaySummary:
    source: str
    to: str
    where: str | None = None
    dry_run: bool = True
    looked_at: int = 0
    matched: int = 0
    sent: int = 0
    repeated: int = 0
    left: int = 0
    unfinished: int = 0
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        if self.unfinished:
            return [f"{self.unfinished:,} messages were sent, but their claims had ended: run the same replay again"]
        return []

    def lines(self) -> list[str]:
        chosen = f" where {self.where}" if self.where else ""
        if self.dry_run:
            of = f"{self.matched:,} of {self.looked_at:,} messages"
            return [f"would replay {of} of {self.source}{chosen} to {self.to}", "nothing was sent; --yes sends"]
        lines = [f"replayed {self.sent:,} messages of {self.source}{chosen} to {self.to} in {self.seconds:.1f} s"]
        if self.repeated:
            lines.append(f"{self.repeated:,} messages had been sent before and were not stored again")
        if self.left:
            lines.append(f"{self.left:,} messages do not match and stay where they are")
        return lines


def replay(
    spark: SparkSession | None,
    to: str,
    *,
    lake: str | None = None,
    queue: str | None = None,
    where: str | None = None,
    yes: bool = False,
    label: str = "",
    limit: int = LIMIT,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    patience_s: float = PATIENCE_S,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> ReplaySummary:
    """Without `yes` it only counts. `where` is SQL over id, sent_at, content_type, attributes, receives, queue and
    body as text. The same replay from the lake sends nothing again, unless it has another `label`."""
    if (lake is None) == (queue is None):
        raise JobFailed("replay from a lake or from a queue: name one of them")
    if queue == to:
        raise JobFailed(f"{to} cannot be replayed to itself")
    summary = ReplaySummary(lake or queue or "", to, where, dry_run=not yes)
    progress = progress or Quiet()
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire:
        wire.queue(to)
        if queue is not None:
            wire.queue(queue)
        with session_of(spark, "replay", master, remote) as session, settings(session, STEADY):
            from penstock.spark.jobs import replaying

            _check(session, where)
            job = replaying.Replaying(session, wire, summary, progress, api_key)
            if summary.dry_run:
                job.count(_from(session, lake, queue, url, api_key))
            elif lake is not None:
                job.from_lake(Lake(session, lake), label)
            elif queue is not None and where is None:
                job.all_of(queue, limit)
            elif queue is not None:
                job.some_of(queue)
    summary.seconds = time.monotonic() - started_at
    return summary


def _from(spark: SparkSession, lake: str | None, queue: str | None, url: str, api_key: str | None) -> DataFrame:
    from penstock.spark.jobs.queues import peeked

    return Lake(spark, lake).read_messages() if lake is not None else peeked(spark, url, api_key, str(queue))


def _check(spark: SparkSession, where: str | None) -> None:
    """A filter that Spark does not understand is refused before anything is claimed."""
    from pyspark.errors import AnalysisException

    from penstock.spark.jobs.replaying import VIEW

    if where is not None:
        try:
            spark.createDataFrame([], VIEW).where(where)
        except AnalysisException as error:
            raise JobFailed(f"the filter is not understood: {str(error).splitlines()[0]}") from None
