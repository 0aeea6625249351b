"""A drain into an object store dies between any two requests. A reader sees whole shipments only, and the next run
completes them."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from devtools.object_store import ObjectStore, environ_for
from devtools.programs import command_of, kill
from penstock.client import Client, Draft, ShipmentRef
from tests.servers import ThreadServer
from tests.spark.faults import task, truth
from tests.spark.faults.gate import Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_WRITE = "^(PUT|POST|DELETE) "


@pytest.fixture
def way(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """To the object store, by which this process goes as well."""
    way = Gate(object_store.url)
    for name, value in environ_for(way.url).items():
        monkeypatch.setenv(name, value)
    yield way
    way.close()


def seen_by_a_reader(store: ObjectStore, bucket: str) -> truth.Messages:
    """Every row of every object that is called Parquet."""
    found: truth.Messages = Counter()
    for name, data in store.objects(bucket).items():
        if name.endswith(".parquet"):
            rows = pq.read_table(io.BytesIO(data), columns=["id", "body"])
            found.update(zip(rows["id"].to_pylist(), rows["body"].to_pylist(), strict=True))
    return found


def writes(way: Gate) -> list[str]:
    return [asked for asked in way.seen if re.match(_WRITE, asked)]


@pytest.mark.parametrize(
    ("size", "least"),
    # A small shipment is one request; one of more than ten megabytes is sent in parts.
    [(10, 6), (1_040_000, 5)],
    ids=["small", "in parts"],
)
def test_a_task_dies_between_any_two_requests(
    size: int, least: int, server: ThreadServer, client: Client, object_store: ObjectStore, way: Gate, tmp_path: Path
) -> None:
    bucket = object_store.new_bucket()
    options: dict[str, Any] = {"url": server.url, "lake": f"s3://{bucket}/lake", "limit": 11}

    def send() -> None:
        client.send_many("q", [Draft(os.urandom(size)) for _ in range(11)])

    def settle(number: int) -> None:
        assert client.settle_shipment(ShipmentRef("q", "drain", number)).messages == 11

    send()
    task.start(tmp_path, "whole", environ_for(way.url), number=1, **options).finish()
    settle(1)
    asked = writes(way)
    # What follows the file is a manifest, which is small.
    points = len(asked) if size < 1000 else asked.index(next(it for it in asked if ".parquet" in it)) + 2
    assert points >= least
    drained = 11
    for point in range(points):
        send()
        number = point + 2
        held = way.hold(_WRITE, skip=point)
        program = task.start(tmp_path, f"task-{point}", environ_for(way.url), number=number, **options)
        held.wait(program)
        program.kill()
        held.cut()

        seen = seen_by_a_reader(object_store, bucket)
        assert seen.total() == len(seen), "no message is there twice"
        assert len(seen) in (drained, drained + 11), "a shipment is there as a whole, or not at all"

        task.land(number=number, **options)
        settle(number)
        drained += 11
        seen = seen_by_a_reader(object_store, bucket)
        assert len(seen) == seen.total() == drained
    assert [it for it in client.shipments("q") if not it.has_ended] == []
    manifests = [name for name in object_store.names(bucket) if name.endswith(".json")]
    assert len(manifests) == points + 1


@pytest.mark.parametrize(
    "point", ["PUT .*/shipment%3D2/.*parquet", "PUT .*/_manifests/.*/2-.*json"], ids=["file", "manifest"]
)
def test_all_of_a_drain_dies(
    point: str, server: ThreadServer, object_store: ObjectStore, way: Gate, start: Any
) -> None:
    truth.create(server.url)
    sent = truth.send(server.url, 3000)
    bucket = object_store.new_bucket()
    options = {"url": server.url, "lake": f"s3://{bucket}/lake", "limit": 1000}
    held = way.hold(point)
    driver = start("drain", environ=environ_for(way.url), **options)
    held.wait(driver)
    driver.kill()
    held.cut()
    seen = seen_by_a_reader(object_store, bucket)
    assert seen - sent == Counter()
    assert seen.total() in (1000, 2000)

    told = json.loads(start("drain_and_read", environ=environ_for(way.url), **options).finish())

    assert seen_by_a_reader(object_store, bucket) == sent
    assert Counter(told) == Counter(id_ for id_, _ in sent)
    assert truth.counters(server.url) == (3000, 3000, 0)


def test_a_task_of_a_drain_dies(server: ThreadServer, object_store: ObjectStore, way: Gate, start: Any) -> None:
    truth.create(server.url)
    sent = truth.send(server.url, 2000)
    bucket = object_store.new_bucket()
    options = {"url": server.url, "lake": f"s3://{bucket}/lake", "limit": 1000}
    held = way.hold("PUT .*/shipment%3D1/.*parquet")
    driver = start("drain_and_read", environ=environ_for(way.url), **options)
    held.wait(driver)
    pid = held.pid()
    assert "pyspark.daemon" in command_of(pid)
    kill(pid)
    held.cut()
    told = json.loads(driver.finish())
    assert len([it for it in way.seen if re.match("PUT .*/shipment%3D1/.*parquet", it)]) == 2, "it was not tried again"
    assert seen_by_a_reader(object_store, bucket) == sent
    assert Counter(told) == Counter(id_ for id_, _ in sent)
    assert truth.counters(server.url) == (2000, 2000, 0)


def test_every_job_in_an_object_store(
    server: ThreadServer, client: Client, object_store: ObjectStore, way: Gate, start: Any, tmp_path: Path
) -> None:
    """This Spark has no jars for S3: what reads the lake does so in tasks, with Arrow."""
    client.send_many("q", [Draft(body) for body in ('{"n": 1}', '{"n": 2}', '{"n": 2}', "broken")])
    lake = f"s3://{object_store.new_bucket()}/lake"
    program = start("others", environ=environ_for(way.url), url=server.url, folder=str(tmp_path), lake=lake)
    told = json.loads(program.finish())
    assert told == {
        "triaged": 4, "drained": 4, "bad": 1, "archived": 4, "kept": 3, "replayed": 4, "findings": [],
    }  # fmt: skip
    assert "<html" in (tmp_path / "page.html").read_text()
