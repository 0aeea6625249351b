"""A server with two queues, a lake of its own for each test, and the jobs with everything filled in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Draft
from penstock.spark.jobs import Body, Run, Server, Source, archive, audit, dedup, drain, load, replay, triage
from penstock.spark.lake import Lake
from tests.servers import ThreadServer


class Plant:
    """Everything that a job needs: a session, a server and a lake."""

    def __init__(self, spark: Any, server: ThreadServer, folder: Path) -> None:
        self.spark = spark
        self.server = Server(server.url)
        self.clock = server.clock
        self.folder = folder
        self.root = str(folder / "lake")
        self.lake = Lake(spark, self.root)
        self.client = self.server.client()

    def close(self) -> None:
        self.client.close()

    def send(self, queue: str, *bodies: bytes | str, **more: Any) -> None:
        self.client.send_many(queue, [Draft(body, **more) for body in bodies])

    def bodies(self, queue: str) -> list[bytes]:
        return sorted(message.body for message in self.client.peek(queue, 1000).messages)

    def drained(self, *columns: str) -> list[Any]:
        rows = self.lake.read_messages(*(columns or ("body",))).collect()
        return sorted(row[0] if len(row) == 1 else tuple(row) for row in rows)

    def load(self, *sources: object, queue: str = "q", **options: Any) -> Any:
        run = self._run(options)
        return load(self.server, [str(source) for source in sources], queue, run=run, **options)

    def drain(self, queue: str = "q", **options: Any) -> Any:
        run, lake = self._run(options), options.pop("lake", self.root)
        body = Body(options.pop("format", "binary"), options.pop("schema", None))
        return drain(self.server, queue, lake, body=body, run=run, **options)

    def archive(self, **options: Any) -> Any:
        run = self._run(options)
        return archive(self.server, self.root, run=run, **options)

    def triage(self, queue: str = "q", **options: Any) -> Any:
        run = self._run(options)
        return triage(self.server, queue, run=run, **options)

    def replay(self, to: str = "other", **options: Any) -> Any:
        run = self._run(options)
        source = {name: options.pop(name) for name in ("lake", "queue", "where", "label") if name in options}
        return replay(self.server, Source(**source), to, run=run, **options)

    def audit(self, **options: Any) -> Any:
        run = self._run(options)
        return audit(self.server, options.pop("lake", self.root), run=run, **options)

    def dedup(self, **options: Any) -> Any:
        run = self._run(options)
        return dedup(self.root, str(self.folder / "single"), run=run, **options)

    def _run(self, options: dict[str, Any]) -> Run:
        return Run(self.spark, dry_run=options.pop("dry_run", False))


@pytest.fixture
def plant(spark: Any, server: ThreadServer, tmp_path: Path) -> Iterator[Plant]:
    plant = Plant(spark, server, tmp_path)
    plant.client.create_queue("q")
    plant.client.create_queue("other")
    yield plant
    plant.close()
