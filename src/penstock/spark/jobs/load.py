"""`load`: the rows of files into a queue, each exactly once.

Every file is sent under a key of its own, made of its path, size, time of change, the queue and what becomes of its
rows. So the same files can be loaded again, after a failure or by mistake, and nothing is stored twice while the
server remembers the keys (30 days); a new or changed file is sent. The files stay as they are.

All files are one job of Spark's. A task reads its parts of files with Arrow and sends them; no row passes through the
JVM, which would cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from penstock.spark import folders
from penstock.spark.errors import JobFailed
from penstock.spark.folders import File
from penstock.spark.jobs.drafts import Drafting
from penstock.spark.jobs.parts import PACKED, parts_of
from penstock.spark.jobs.run import Run, Summary, timed
from penstock.spark.jobs.sends import Item, key_of, send_parts
from penstock.spark.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
# So many tasks for each core: what is left at the end, when some cores have nothing to do, is a small part.
_TASKS_PER_CORE = 8


@dataclass(frozen=True)
class Shape:
    """What becomes of a row: `body_column` alone, or all of it as one JSON object (a line of text or JSON as it
    is)."""

    format: str | None = None
    schema: str | None = None
    body_column: str | None = None
    content_type: str | None = None
    content_type_column: str | None = None
    attributes_column: str | None = None
    group_column: str | None = None
    dedup_id_column: str | None = None

    def named(self) -> list[str]:
        """The columns that it needs."""
        columns = (
            self.body_column,
            self.content_type_column,
            self.attributes_column,
            self.group_column,
            self.dedup_id_column,
        )
        return list(dict.fromkeys(name for name in columns if name is not None))

    def known(self) -> dict[str, str | None]:
        """By which a load is known again: a column that was not there from the beginning counts where it is named."""
        later = ("group_column", "dedup_id_column")
        return {name: value for name, value in asdict(self).items() if value is not None or name not in later}


@dataclass
class LoadSummary(Summary):
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
    server: Server,
    sources: Sequence[str],
    queue: str,
    *,
    shape: Shape = Shape(),
    create: bool = False,
    run: Run = Run(),
) -> LoadSummary:
    """Loads every file below `sources`: paths of any scheme, folders and wildcards included."""
    summary = LoadSummary(queue, run.dry_run)
    with timed(summary), server.client() as client, run.session("load") as session:
        summary.created = create and queue not in {it.name for it in client.queues(count=False)}
        if not summary.created:
            client.queue(queue)
        found = folders.files(session, *sources)
        summary.files, summary.bytes = len(found), sum(file.bytes for file in found)
        summary.paths = [file.path for file in found]
        items = _items(session, found, queue, shape)
        if not run.dry_run:
            if summary.created:
                client.ensure_queue(queue)
            run.progress.say(f"loading {summary.files:,} files ({summary.bytes:,} bytes) into {queue}")
            sent = send_parts(session, items, _TASKS_PER_CORE * run.slices(session), server, queue)
            summary.messages, summary.stored, summary.repeated = sent.messages, sent.stored, sent.repeated
    return summary


def format_of(path: str) -> str:
    endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
    while endings and endings[-1] in PACKED:
        endings.pop()
    if not endings or endings[-1] not in _ENDINGS:
        raise JobFailed(f"the name of {path} does not say its format: name one of {', '.join(FORMATS)}")
    return _ENDINGS[endings[-1]]


def _items(spark: SparkSession, files: Sequence[File], queue: str, shape: Shape) -> list[Item]:
    schema = None if shape.schema is None else spark.createDataFrame([], shape.schema).schema
    items = []
    for file in files:
        read = Drafting(shape.format or format_of(file.path), shape, schema).read
        key = key_of(file, queue, [shape.known()])
        items += [Item(part, read, key) for part in parts_of(file)]
    return items
