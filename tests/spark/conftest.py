"""One Spark session for all tests of a worker, a server for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import ThreadServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.wire import Wire


def pytest_itemcollected(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        # A time limit that strikes in a call to Java leaves nothing of the session for the tests after it.
        item.add_marker(pytest.mark.timeout(600))
        # PySpark says so of the pandas it finds, which nothing here uses.
        item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from penstock.spark import open_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        # Every query here is new and small: compiling it well takes longer than running it.
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    session = open_session("tests", master="local[2,4]", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def wire(server: ThreadServer) -> Iterator[Wire]:
    """With a queue called q."""
    from penstock.spark.wire import Wire

    with Wire(server.url, patience_s=20) as wire:
        wire.create_queue("q", {})
        yield wire


class Queue:
    """The queue "q" through the data source, in as many words as a test needs."""

    def __init__(self, spark: SparkSession, wire: Wire) -> None:
        self.spark = spark
        self.wire = wire
        self._sent = 0

    def send(self, *bodies: bytes | str, content_type: str | None = None, **attributes: str) -> None:
        import pyarrow as pa

        self._sent += 1
        columns: dict[str, Any] = {
            "body": pa.array([body.encode() if isinstance(body, str) else body for body in bodies], pa.binary()),
            "content_type": pa.array([content_type] * len(bodies), pa.string()),
            "attributes": pa.array([list(attributes.items())] * len(bodies), pa.map_(pa.string(), pa.string())),
        }
        self.wire.send("q", pa.RecordBatch.from_pydict(columns), f"sent by the test {self._sent}")

    def options(self, **options: object) -> dict[str, str]:
        return {name: str(value) for name, value in {"url": self.wire.url, "queue": "q", **options}.items()}

    def read(self, schema: str | None = None, **options: object) -> DataFrame:
        reader = self.spark.read.format("penstock").options(**self.options(**options))
        return (reader.schema(schema) if schema else reader).load()

    def stream(self, **options: object) -> DataFrame:
        return self.spark.readStream.format("penstock").options(**self.options(**options)).load()

    def write(self, frame: DataFrame, **options: object) -> None:
        frame.write.format("penstock").options(**self.options(**options)).mode("append").save()

    def bodies(self) -> list[bytes]:
        """What is in the queue, by the wire and not by Spark."""
        found: list[bytes] = []
        after = None
        while True:
            batch, after = self.wire.peek("q", after=after)
            found += batch["body"].to_pylist()
            if after is None:
                return found

    def count(self) -> dict[str, int]:
        return self.wire.queue("q")["count"]

    def tally(self) -> tuple[int, int]:
        tally = self.wire.queue("q")["tally"]
        return tally["arrived"], tally["departed"]


@pytest.fixture
def queue(spark: SparkSession, wire: Wire) -> Queue:
    return Queue(spark, wire)


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())
