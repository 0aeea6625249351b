"""The API key of a read or write is in no plan, log line, progress report or error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.client import Refused, ShipmentRef
from penstock.spark.errors import InvalidOption
from penstock.spark.options import read_options
from penstock.spark.server import Server
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer
from tests.spark.conftest import Queue


@pytest.fixture
def secret(tmp_path: Path) -> str:
    return KeyStore(tmp_path).create("spark", "queue|*|*")


@pytest.fixture
def keyed(secret: str, tmp_path: Path, spark: SparkSession) -> Iterator[Queue]:
    """The queue q on a server that asks for a key."""
    server = ThreadServer(KeyStore(tmp_path).url)
    with Server(server.url, secret).client() as client:
        client.create_queue("q")
        yield Queue(spark, client)
    server.stop()


def test_it_is_needed(keyed: Queue) -> None:
    with pytest.raises(PySparkException, match=r"(?i)key"):
        keyed.read().collect()


def test_it_shows_nowhere(
    keyed: Queue,
    secret: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Below this level, py4j itself writes down every call from Python to Java, with all its arguments.
    caplog.set_level(logging.INFO)
    keyed.send("a", "b")
    texts = []
    for frame in (keyed.read(apiKey=secret), keyed.read(apiKey=secret, consumer="c")):
        assert frame.count() == 2
        frame.explain("extended")
        frame.explain("formatted")
        texts += [repr(frame), frame._jdf.queryExecution().toString(), frame._jdf.queryExecution().stringWithStats()]

    keyed.write(keyed.read(apiKey=secret, consumer="c").select("body"), apiKey=secret)
    query = keyed.stream(apiKey=secret, consumer="s").select("body").writeStream.format("penstock")
    query = query.options(**keyed.options(apiKey=secret)).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    running.explain(True)
    texts += [progress.json for progress in running.recentProgress] + [running._jsq.toString()]
    texts += [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]

    failing = [
        lambda: keyed.read(apiKey=secret, queue="nowhere").collect(),
        lambda: keyed.read(apiKey=secret, limit="x").collect(),
        lambda: keyed.read("colour int", apiKey=secret).collect(),
        lambda: keyed.read(apiKey=secret, consumer="s", shipment=77).collect(),
        lambda: keyed.write(keyed.spark.sql("select 1 as colour"), apiKey=secret),
        lambda: keyed.write(keyed.spark.sql("select cast(null as string) as body"), apiKey=secret),
        lambda: keyed.stream(apiKey=secret).writeStream.format("noop").start().awaitTermination(),
        lambda: keyed.read(apiKey=secret, url="http://127.0.0.1:1", patienceSeconds=0).collect(),
    ]
    for fails in failing:
        with pytest.raises(PySparkException) as caught:
            fails()
        texts += [str(caught.value), repr(caught.value)]
    out, err = capfd.readouterr()
    assert "penstock" in out  # the plans were printed
    assert secret not in "\n".join([*texts, out, err, caplog.text])


def test_a_client_does_not_show_it(server: ThreadServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Server(server.url, "s3cr3t-key").client() as client:
        texts = [repr(client), str(client), repr(Server(server.url, "s3cr3t-key"))]
        for call in (
            lambda: client.queue("nowhere"),
            lambda: client.claim_shipment(ShipmentRef("nowhere", "c", 0), 0, 0),
        ):
            with pytest.raises(Refused) as caught:
                call()
            texts += [str(caught.value), repr(caught.value)]
    with pytest.raises(ValueError, match="printable") as invalid:
        Server(server.url, "s3cr3t-key\n").client()
    texts += [str(invalid.value), caplog.text]
    assert "s3cr3t" not in "".join(texts)


def test_options_do_not_show_it() -> None:
    options = read_options({"url": "http://x", "queue": "q", "apiKey": "s3cr3t"}, {})
    assert options.api_key == "s3cr3t"
    assert "s3cr3t" not in repr(options)
    with pytest.raises(InvalidOption) as caught:
        read_options({"url": "http://x", "queue": "q", "apiKey": "s3cr3t", "limit": "x"}, {})
    assert "s3cr3t" not in str(caught.value)


def test_the_environment_has_it_where_the_options_have_not() -> None:
    given = {"url": "http://x", "queue": "q"}
    assert read_options(given, {"PENSTOCK_API_KEY": "outer"}).api_key == "outer"
    assert read_options({**given, "apikey": "inner"}, {"PENSTOCK_API_KEY": "outer"}).api_key == "inner"
    assert read_options(given, {}).api_key is None
