"""The API key of a read, a write or a job is in no plan, log line, progress report or error."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.client import Refused, ShipmentRef
from penstock.spark.errors import InvalidOption
from penstock.spark.jobs import Run, Source, load, replay, triage
from penstock.spark.options import read_options
from penstock.spark.secrets import HIDDEN, Redaction
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
    # At this level, py4j itself writes down every call from Python to Java, with all its arguments.
    caplog.set_level(logging.DEBUG)
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
    logged = [record.getMessage() for record in caplog.records]  # whichever formatter has seen them
    assert any(f"sapiKey\ns{HIDDEN}" in line for line in logged)  # and py4j has logged
    assert secret not in "\n".join([*texts, out, err, caplog.text, *logged])


def test_a_job_does_not_show_it(
    keyed: Queue, secret: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nor in base64, in which py4j has the functions that tasks run, with all that they hold."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "a.txt").write_text("a\nb\n")
    keyed.client.create_queue("other")
    server, run = Server(keyed.client.url, secret), Run(keyed.spark)
    assert load(server, [str(tmp_path / "a.txt")], "q", run=run).stored == 2
    assert len(triage(server, "q", run=run).clusters) == 1
    assert replay(server, Source(queue="q", where="body = 'a'"), "other", yes=True, run=run).sent == 1
    text = "\n".join([*capfd.readouterr(), caplog.text])
    coded = re.findall(r"[A-Za-z0-9+/]{40,}", text)
    assert any(b"penstock" in decoded(one, skip) for one in coded for skip in range(4))  # the functions are there
    assert secret not in text
    # Half of it is too much as well.
    half = secret[: len(secret) // 2].encode()
    assert not any(half in decoded(one, skip) for one in coded for skip in range(4))


def decoded(text: str, skip: int) -> bytes:
    some = text.rstrip("=")[skip:]
    return base64.b64decode(some[: len(some) // 4 * 4])


@pytest.mark.parametrize("before", [b"", b"x", b"xy"])
@pytest.mark.parametrize("after", [b"", b"z", b"zz"])
def test_it_is_found_in_base64(before: bytes, after: bytes) -> None:
    redaction = Redaction()
    redaction.hide("a-secret-of-some-length")
    coded = base64.b64encode(before + b"a-secret-of-some-length" + after).decode()
    record = logging.LogRecord("py4j", logging.DEBUG, "", 0, "Command: %s", (coded,), None)
    assert redaction.filter(record)
    assert HIDDEN in record.getMessage()
    left = record.getMessage().removeprefix("Command: ").split(HIDDEN)
    assert not any(b"cre" in decoded(part, skip) for part in left for skip in range(4))


def test_a_plan_of_spark_connect() -> None:
    redaction = Redaction()
    plan = 'options { key: "apiKey" value: "s3cr\\"3t" } options { key: "url" value: "http://x" }'
    record = logging.LogRecord("connect", logging.DEBUG, "", 0, plan, (), None)
    redaction.filter(record)
    assert "3t" not in record.getMessage()
    assert 'key: "url" value: "http://x"' in record.getMessage()
    plain = logging.LogRecord("connect", logging.DEBUG, "", 0, "100%s", ("%",), None)
    redaction.filter(plain)
    assert plain.getMessage() == "100%"


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
