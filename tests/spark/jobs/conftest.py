"""A server with two queues, a lake of its own for each test, and the jobs with everything filled in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, Draft
from penstock.spark.jobs import archive, audit, dedup, drain, load, replay, triage
from penstock.spark.lake import Lake
from penstock.spark.wire import Wire
from tests.servers import ThreadServer


class Plant:
    """Everything that a job needs: a session, a server and a lake."""

    def __init__(self, spark: Any, server: ThreadServer, folder: Path) -> None:
        self.spark = spark
        self.url = server.url
        self.clock = server.clock
        self.folder = folder
        self.root = str(folder / "lake")
        self.lake = Lake(spark, self.root)
        self.client = Client(server.url)
        self.wire = Wire(server.url, patience_s=20)

    def close(self) -> None:
        self.client.close()
        self.wire.close()

    def send(self, queue: str, *bodies: bytes | str, **more: Any) -> None:
        self.client.send_many(queue, [Draft(body, **more) for body in bodies])

    def bodies(self, queue: str) -> list[bytes]:
        return sorted(message.body for message in self.client.peek(queue, 1000).messages)

    def drained(self, *columns: str) -> list[Any]:
        rows = self.lake.read_messages(*(columns or ("body",))).collect()
        return sorted(row[0] if len(row) == 1 else tuple(row) for row in rows)

    def load(self, *sources: object, queue: str = "q", **options: Any) -> Any:
        return load(self.spark, [str(source) for source in sources], queue, url=self.url, **options)

    def drain(self, queue: str = "q", **options: Any) -> Any:
        return drain(self.spark, queue, options.pop("lake", self.root), url=self.url, **options)

    def archive(self, **options: Any) -> Any:
        return archive(self.spark, self.root, url=self.url, **options)

    def triage(self, queue: str = "q", **options: Any) -> Any:
        return triage(self.spark, queue, url=self.url, **options)

    def replay(self, to: str = "other", **options: Any) -> Any:
        return replay(self.spark, to, url=self.url, **options)

    def audit(self, **options: Any) -> Any:
        return audit(self.spark, options.pop("lake", self.root), url=self.url, **options)

    def dedup(self, **options: Any) -> Any:
        return dedup(self.spark, self.root, str(self.folder / "single"), **options)


@pytest.fixture
def plant(spark: Any, server: ThreadServer, tmp_path: Path) -> Iterator[Plant]:
    plant = Plant(spark, server, tmp_path)
    plant.client.create_queue("q")
    plant.client.create_queue("other")
    yield plant
    plant.close()
