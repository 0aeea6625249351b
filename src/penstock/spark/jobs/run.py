"""How every job runs, and what it gives back: a summary."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.spark.session import ANY, Start, has_session, open_session
from penstock.spark.source import register
from penstock.spark.tasks import is_connect
from penstock.terminal import Progress, Quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLD_MS = 60 * 60 * 1000
# A Spark Connect server does not tell.
_UNKNOWN_CORES = 4


@dataclass(frozen=True)
class Run:
    """How a job runs: in the caller's session or in one of its own, on `master` or a Spark Connect server at `remote`;
    whom it tells how far it is; and whether it only says what it would do.

    `partitions` is how many tasks a job has at once: one for each core, unless it is given. More would only be more
    Python processes to feed. `log` is a file for what Spark and its
    workers have to say in a session of the job's own, which goes to standard error otherwise.
    """

    spark: SparkSession | None = None
    master: str | None = None
    remote: str | None = None
    progress: Progress = field(default_factory=Quiet)
    dry_run: bool = False
    partitions: int | None = None
    log: str | None = None

    @contextmanager
    def session(self, name: str, start: Start = ANY) -> Iterator[SparkSession]:
        """The caller's, or a new one that is stopped at the end and was opened with what `start` says. One that this
        process has open already is taken as well, and stays open."""
        if self.spark is not None:
            if start.source:
                register(self.spark)
            yield self.spark
            return
        self.progress.begin("starting Spark")
        was_open = has_session()
        with _handlers_kept():
            opened = open_session(f"penstock {name}", self.master, self.remote, log=self.log, start=start)
        self.progress.begin("")
        if was_open:
            yield opened
            return
        try:
            yield opened
        except BaseException:
            with suppress(Exception):  # a Java that has ended cannot stop its session, and that is not the news
                opened.stop()
            raise
        opened.stop()

    def slices(self, spark: SparkSession) -> int:
        if self.partitions is not None:
            return self.partitions
        return _UNKNOWN_CORES if is_connect(spark) else max(1, spark.sparkContext.defaultParallelism)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """PySpark puts a handler of its own in the place of the program's, for Ctrl-C to cancel what runs. Here that ends
    the session, and with it all that runs in it."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


class Summary(Protocol):
    """What a job came to. A job's own fields tell the figures; `seconds` is how long it took."""

    seconds: float

    @property
    def problems(self) -> list[str]:
        """What the job found or hit. A job that has any did not do all it was to do."""
        return []

    def lines(self) -> list[str]:
        """For people."""
        ...


@contextmanager
def timed(summary: Summary) -> Iterator[None]:
    started_at = time.monotonic()
    yield
    summary.seconds = time.monotonic() - started_at


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, and afterwards as it was."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
