"""`load`: the rows of files into a queue, each exactly once.

Every file is sent under a key of its own, made of its path, size, time of change, the queue and what becomes of its
rows. So the same files can be loaded again, after a failure or by mistake, and nothing is stored twice while the
server remembers the keys (30 days); a file that is new or has changed is sent. The files stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark import folders
from penstock.spark.folders import File
from penstock.spark.jobs.running import DEFAULT_URL, PATIENCE_S, JobFailed, session_of, settings
from penstock.spark.jobs.sending import NOTHING, STEADY, Sent, send
from penstock.spark.progress import Progress, Quiet
from penstock.spark.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

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
# Files at once: more than one keeps the cores busy while a small file is planned.
_AT_ONCE = 4
# Part of every key: whatever changes which rows are in which chunk must change it.
_WAY = 1


@dataclass(frozen=True)
class Shape:
    """What becomes of a row: `body_column` alone, or all of it as one JSON object (a line of text or JSON as it
    stands)."""

    format: str | None = None
    schema: str | None = None
    body_column: str | None = None
    content_type: str | None = None
    content_type_column: str | None = None
    attributes_column: str | None = None


@dataclass
class LoadSummary:
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

    @property
    def problems(self) -> list[str]:
        return []

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
    spark: SparkSession | None,
    sources: Sequence[str],
    queue: str,
    *,
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    shape: Shape | None = None,
    create: bool = False,
    patience_s: float = PATIENCE_S,
    dry_run: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> LoadSummary:
    """Loads every file below `sources`: paths of any scheme, folders and wildcards included."""
    shape = shape or Shape()
    progress = progress or Quiet()
    summary = LoadSummary(queue, dry_run)
    started_at = time.monotonic()
    with Wire(url, api_key, patience_s) as wire, session_of(spark, "load", master, remote) as session:
        summary.created = create and queue not in {it["name"] for it in wire.queues()}
        if not summary.created:
            wire.queue(queue)
        found = folders.files(session, *sources)
        formats = {file: shape.format or format_of(file.path) for file in found}
        summary.files, summary.bytes = len(found), sum(file.bytes for file in found)
        summary.paths = [file.path for file in found]
        if not dry_run:
            if summary.created:
                wire.create_queue(queue, {})
            with settings(session, STEADY):
                sent = send_files(
                    found,
                    lambda file: messages_of(session, file.path, formats[file], shape),
                    lambda file: key_of(file, queue, [shape.__dict__]),
                    wire,
                    queue,
                    progress,
                )
            summary.messages, summary.stored, summary.repeated = sent.messages, sent.stored, sent.repeated
    summary.seconds = time.monotonic() - started_at
    return summary


def send_files(
    files: Sequence[File],
    read: Callable[[File], DataFrame],
    key: Callable[[File], str],
    wire: Wire,
    queue: str,
    progress: Progress,
) -> Sent:
    """Each file on its own, since only then do its keys not depend on what lies beside it."""
    total = NOTHING
    done = 0
    everything = sum(file.bytes for file in files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(_send_file, file, read, key, wire, queue): file for file in files}
        try:
            for ended in as_completed(running):
                try:
                    total += ended.result()
                except JobFailed as error:
                    raise JobFailed(f"{running[ended].path}: {error}") from None
                done += running[ended].bytes
                progress.show(f"loading {queue}: bytes", done, everything)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    progress.end()
    return total


def _send_file(
    file: File, read: Callable[[File], DataFrame], key: Callable[[File], str], wire: Wire, queue: str
) -> Sent:
    return send(read(file), wire, queue, key(file))


def key_of(file: File, queue: str, more: Sequence[object]) -> str:
    """The same for the same file, whoever runs the job and on how many cores."""
    known = json.dumps([_WAY, queue, file.path, file.bytes, file.modified_at, *more], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()[:40]


def format_of(path: str) -> str:
    endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
    while endings and endings[-1] in _PACKED:
        endings.pop()
    if not endings or endings[-1] not in _ENDINGS:
        raise JobFailed(f"the name of {path} does not say its format: name one of {', '.join(FORMATS)}")
    return _ENDINGS[endings[-1]]


def messages_of(spark: SparkSession, path: str, format: str, shape: Shape) -> DataFrame:  # noqa: A002
    """The rows of one file as messages."""
    from penstock.spark.jobs.shaping import messages_from, whole_lines

    columns = (shape.body_column, shape.content_type_column, shape.attributes_column)
    if format == "text" or (format == "json" and columns == (None, None, None)):
        content_type = shape.content_type or ("application/json" if format == "json" else "text/plain")
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
