"""A stream reader that is called as Spark calls it, without Spark: a run is a planner's life, from start to end."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, StringType, StructType

from penstock.spark.options import read_options
from penstock.spark.stream import StreamReader

_SCHEMA = StructType().add("queue", StringType()).add("body", BinaryType())


class Driven:
    """`noted` is the checkpoint: the offsets that Spark has written down, of which the last batch may not be done."""

    def __init__(self, url: str, **options: object) -> None:
        self.options = {"url": url, "consumer": "c", **{name: str(value) for name, value in options.items()}}
        self.noted: list[str] = []
        self.done = 0
        self.reader = self.begin()

    def begin(self, **options: object) -> StreamReader:
        """A new planner, after the old one has ended in whatever way. It has the same options, and these."""
        self.options |= {name: str(value) for name, value in options.items()}
        self.reader = StreamReader(read_options(self.options, {}), _SCHEMA)
        if not self.noted:
            self.noted.append(_text(self.reader.initialOffset()))
        return self.reader

    def end(self) -> None:
        self.reader.stop()

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Ask for the next batch, and note it if there is one."""
        start = self.noted[-1]
        found = _text(self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit()))
        if found == start:
            return False
        self.noted.append(found)
        return True

    def process(self) -> list[str]:
        """Read the batch that was noted last, each task with a copy of its own, and note it as done."""
        start, end = (json.loads(offset) for offset in self.noted[-2:])
        rows: list[str] = []
        for part in self.reader.partitions(start, end):
            for batch in self.reader.read(part):
                pairs = zip(batch["queue"].to_pylist(), batch["body"].to_pylist(), strict=True)
                rows += [f"{queue}:{body.decode()}" for queue, body in pairs]
        self.done = len(self.noted) - 1
        return rows

    def batch(self, limit: ReadLimit | None = None) -> list[str]:
        """What the next batch holds, by queue and then by position; nothing if there is none."""
        return self.process() if self.plan(limit) else []

    def run(self) -> list[list[str]]:
        """All there is now, with the trigger availableNow, in a planner of its own."""
        self.begin()
        self.reader.prepareForTriggerAvailableNow()
        batches = [] if self.done == len(self.noted) - 1 else [self.process()]
        while batch := self.batch():
            batches.append(batch)
        self.end()
        return batches

    @property
    def offset(self) -> Any:
        return json.loads(self.noted[-1])


def _text(offset: dict[str, Any]) -> str:
    return json.dumps(offset)
