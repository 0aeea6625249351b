"""One Spark session for all tests of a worker, a server for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from devtools.jvm import QUICK
from devtools.object_store import NotInstalled, ObjectStore
from tests.lacking import lacking
from tests.servers import ThreadServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.client import Client, Count


def pytest_itemcollected(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        # A time limit that strikes in a call to Java leaves nothing of the session for the tests after it.
        item.add_marker(pytest.mark.timeout(600))
        # PySpark says so of the pandas it finds, which nothing here uses.
        item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from penstock.spark import open_session

    # Two attempts: one is killed here and there, and a task that is to fail should not do so four times.
    session = open_session("tests", master="local[2,2]", settings={**QUICK, "spark.driver.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    try:
        store = ObjectStore(tmp_path_factory.mktemp("object-store"))
    except NotInstalled as error:
        lacking("there is no object store", str(error))
    yield store
    store.close()


@pytest.fixture
def client(server: ThreadServer) -> Iterator[Client]:
    """With a queue called q."""
    from penstock.spark.server import Server

    with Server(server.url).client() as client:
        client.create_queue("q")
        yield client


class Queue:
    """The queue "q" through the data source, in as many words as a test needs."""

    def __init__(self, spark: SparkSession, client: Client) -> None:
        self.spark = spark
        self.client = client
        self._sent = 0

    def send(self, *bodies: bytes | str, content_type: str | None = None, **attributes: str) -> None:
        import pyarrow as pa

        self._sent += 1
        columns: dict[str, Any] = {
            "body": pa.array([body.encode() if isinstance(body, str) else body for body in bodies], pa.binary()),
            "content_type": pa.array([content_type] * len(bodies), pa.string()),
            "attributes": pa.array([list(attributes.items())] * len(bodies), pa.map_(pa.string(), pa.string())),
        }
        self.client.arrow.send("q", pa.RecordBatch.from_pydict(columns), f"sent by the test {self._sent}")

    def options(self, **options: object) -> dict[str, str]:
        return {name: str(value) for name, value in {"url": self.client.url, "queue": "q", **options}.items()}

    def read(self, schema: str | None = None, **options: object) -> DataFrame:
        reader = self.spark.read.format("penstock").options(**self.options(**options))
        return (reader.schema(schema) if schema else reader).load()

    def stream(self, **options: object) -> DataFrame:
        return self.spark.readStream.format("penstock").options(**self.options(**options)).load()

    def write(self, frame: DataFrame, **options: object) -> None:
        frame.write.format("penstock").options(**self.options(**options)).mode("append").save()

    def bodies(self) -> list[bytes]:
        """What is in the queue, by the client and not by Spark."""
        found: list[bytes] = []
        after = None
        while True:
            peeked = self.client.arrow.peek("q", after=after)
            found += peeked.batch["body"].to_pylist()
            after = peeked.after
            if after is None:
                return found

    def count(self) -> Count:
        from penstock.spark.server import counted

        return counted(self.client, "q")[0]

    def tally(self) -> tuple[int, int]:
        from penstock.spark.server import counted

        tally = counted(self.client, "q")[1]
        return tally.arrived, tally.departed


@pytest.fixture
def queue(spark: SparkSession, client: Client) -> Queue:
    return Queue(spark, client)


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())
