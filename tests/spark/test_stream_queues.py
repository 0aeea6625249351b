"""Several queues in one stream: by name and by pattern, each with shipments of its own, none left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.spark.admission import shares
from penstock.spark.errors import InvalidOption
from penstock.spark.options import read_options
from tests.servers import ThreadServer
from tests.spark.conftest import Queue
from tests.spark.driven import Driven


@pytest.fixture
def made(server: ThreadServer, client: Client) -> Client:
    for name in ("orders-eu", "orders-us", "refunds"):
        client.create_queue(name)
    return client


def send(client: Client, queue: str, *bodies: object) -> None:
    client.send_many(queue, [str(body).encode() for body in bodies])


def tally(client: Client, queue: str) -> tuple[int, int]:
    told = client.queue(queue).tally
    assert told is not None
    return told.arrived, told.departed


def test_by_pattern_and_name(made: Client) -> None:
    for name in ("orders-us", "orders-eu", "refunds", "q"):
        send(made, name, 1, 2)
    driven = Driven(made.url, queues="orders-*, refunds")
    batch = driven.batch()
    assert sorted(batch) == sorted(f"{name}:{n}" for name in ("orders-eu", "orders-us", "refunds") for n in (1, 2))
    assert list(driven.offset) == ["orders-eu", "orders-us", "refunds"]
    assert driven.batch() == []
    assert [tally(made, name) for name in ("orders-eu", "orders-us", "refunds", "q")] == [(2, 2)] * 3 + [(2, 0)]
    driven.end()


def test_only_what_is_new_is_read(made: Client) -> None:
    send(made, "orders-eu", 1)
    driven = Driven(made.url, queues="orders-*")
    assert driven.batch() == ["orders-eu:1"]
    first = driven.offset
    send(made, "orders-us", 2)
    driven.begin()
    assert driven.batch() == ["orders-us:2"]
    assert driven.offset["orders-eu"] == first["orders-eu"]
    assert driven.offset["orders-us"]["shipment"] == 1
    driven.end()


def test_a_queue_that_is_made_while_the_stream_runs(made: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.queues._LISTED_S", 0)
    monkeypatch.setattr("penstock.spark.stream._PAUSE_S", 0)
    driven = Driven(made.url, queues="orders-*")
    assert driven.batch() == []
    made.create_queue("orders-asia")
    send(made, "orders-asia", 1)
    assert driven.batch() == ["orders-asia:1"]
    driven.end()


def test_a_pattern_does_not_mean_dead_letters(made: Client) -> None:
    made.create_queue("orders-dead")
    made.create_queue("orders-jp", redrive={"dead_letter_queue": "orders-dead", "max_receives": 3})
    send(made, "orders-dead", 1)
    assert Driven(made.url, queues="orders-*").run() == []
    assert Driven(made.url, queues="orders-*,orders-dead").run() == [["orders-dead:1"]]


def test_offsets_are_the_same_text_however_the_queues_are_found(made: Client) -> None:
    for name in ("refunds", "orders-us", "orders-eu"):
        send(made, name, 1)
    driven = Driven(made.url, queues="refunds,orders-us,orders-*")
    assert driven.plan()
    text = driven.noted[-1]
    assert text == json.dumps(json.loads(text), sort_keys=True)
    driven.process()
    assert not driven.plan()
    driven.end()


def test_a_batch_is_shared_out(made: Client) -> None:
    """A long queue does not keep the others waiting, and takes what they leave."""
    send(made, "orders-eu", *range(100))
    send(made, "orders-us", *range(3))
    driven = Driven(made.url, queues="orders-*", maxMessagesPerTrigger=10)
    batch = driven.batch()
    assert [sum(row.startswith(name) for row in batch) for name in ("orders-eu", "orders-us")] == [7, 3]
    assert len(driven.batch()) == 10
    driven.end()


@pytest.mark.parametrize(
    ("ready", "most", "found"),
    [
        ({"a": 5, "b": 5}, 20, {"a": 5, "b": 5}),
        ({"a": 100, "b": 2, "c": 100}, 20, {"a": 9, "b": 2, "c": 9}),
        ({"a": 1, "b": 9, "c": 1}, 2, {"a": 1, "b": 1}),
        ({}, 10, {}),
    ],
)
def test_shares(ready: dict[str, int], most: int, found: dict[str, int]) -> None:
    assert shares(ready, most) == found


def test_available_now_takes_each_queue_to_its_end(made: Client) -> None:
    send(made, "orders-eu", *range(25))
    send(made, "orders-us", *range(4))
    driven = Driven(made.url, queues="orders-*", maxMessagesPerTrigger=10)
    batches = driven.run()
    assert [len(batch) for batch in batches] == [10, 10, 9]
    assert len({row for batch in batches for row in batch}) == 29
    assert [tally(made, name) for name in ("orders-eu", "orders-us")] == [(25, 25), (4, 4)]


def test_available_now_leaves_what_comes_later(made: Client) -> None:
    send(made, "orders-eu", 1)
    driven = Driven(made.url, queues="orders-*")
    driven.reader.prepareForTriggerAvailableNow()
    assert driven.batch() == ["orders-eu:1"]
    made.create_queue("orders-later")
    for name in ("orders-later", "orders-us", "orders-eu"):
        send(made, name, 2)
    assert driven.batch() == []
    driven.end()


def test_a_planner_that_ends_after_some_of_the_claims(made: Client) -> None:
    """Spark has noted nothing. The next planner finds what is open, and no messages are ready."""
    send(made, "orders-eu", 1, 2)
    send(made, "orders-us", 3)
    driven = Driven(made.url, queues="orders-*")
    driven.reader.latestOffset({}, driven.reader.getDefaultReadLimit())
    driven.end()
    send(made, "orders-us", 4)
    driven.begin()
    assert driven.batch() == ["orders-eu:1", "orders-eu:2", "orders-us:3"]
    assert driven.batch() == ["orders-us:4"]
    driven.end()


def test_a_planner_that_ends_before_the_batch_is_done(made: Client) -> None:
    send(made, "orders-eu", 1, 2)
    send(made, "orders-us", 3)
    driven = Driven(made.url, queues="orders-*")
    assert driven.plan()
    driven.end()
    send(made, "orders-us", 4)
    assert driven.run() == [["orders-eu:1", "orders-eu:2", "orders-us:3"], ["orders-us:4"]]
    assert [tally(made, name) for name in ("orders-eu", "orders-us")] == [(2, 2), (2, 2)]


def test_the_slices_are_shared_out_as_well(made: Client) -> None:
    send(made, "orders-eu", *range(30))
    send(made, "orders-us", *range(10))
    driven = Driven(made.url, queues="orders-*", partitions=8)
    assert driven.plan()
    parts: Any = driven.reader.partitions({}, driven.offset)
    assert [(part.shipment.queue, part.stop - part.start) for part in parts] == [
        *[("orders-eu", 5)] * 6,
        *[("orders-us", 5)] * 2,
    ]
    driven.end()


def test_the_key_needs_no_more_than_the_pattern(made: Client) -> None:
    send(made, "orders-eu", 1)
    admin = made.create_key("admin", ["queue|*|*"]).secret
    with Client(made.url, admin) as keyed:
        secret = keyed.create_key("stream", ["queue|poll|orders-*", "queue|get_status|orders-*"]).secret
    assert Driven(made.url, queues="orders-*", apiKey=secret).run() == [["orders-eu:1"]]


def test_what_makes_no_sense(made: Client) -> None:
    with pytest.raises(InvalidOption, match="queue or the option queues, not both"):
        read_options({"url": made.url, "queue": "a", "queues": "b"})
    with pytest.raises(InvalidOption, match="has no names"):
        read_options({"url": made.url, "queues": " , "})
    with pytest.raises(InvalidOption, match="queues is for streams"):
        read_options({"url": made.url, "queues": "a"}).check_batch()


def test_with_spark(queue: Queue, tmp_path: Path) -> None:
    """Into a folder for each batch, in which the column tells the queues apart."""
    for name in ("orders-eu", "orders-us"):
        queue.client.create_queue(name)
        send(queue.client, name, *range(15))

    def store(batch: Any, number: int) -> None:
        batch.select("queue", "body").write.mode("overwrite").parquet(f"{tmp_path}/out/batch={number}")

    options = queue.options(queues="orders-*", consumer="c", maxMessagesPerTrigger=10)
    del options["queue"]
    stream = queue.spark.readStream.format("penstock").options(**options).load()
    writer = stream.writeStream.foreachBatch(store).option("checkpointLocation", f"{tmp_path}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = queue.spark.read.parquet(f"{tmp_path}/out").collect()
    assert sorted((row.queue, int(bytes(row.body))) for row in rows) == sorted(
        (name, n) for name in ("orders-eu", "orders-us") for n in range(15)
    )
    assert [sum(row.batch == batch for row in rows) for batch in range(3)] == [10, 10, 10]
    assert [tally(queue.client, name) for name in ("orders-eu", "orders-us")] == [(15, 15)] * 2
