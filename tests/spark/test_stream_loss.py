"""What a stream does when the server no longer has what its checkpoint names: it fails with a choice, or goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, QueueNotFound, ShipmentConflict, ShipmentRef
from penstock.spark.errors import ShipmentGone
from tests.spark.conftest import Queue
from tests.spark.driven import Driven

CHOICE = r"onLostShipment=continue.*otherwise start the query with a new consumer and a new checkpoint"


def send(client: Client, *bodies: str, queue: str = "q") -> None:
    client.send_many(queue, list(bodies))


def release(client: Client, number: int) -> None:
    client.release_shipment(ShipmentRef("q", "c", number))


def create_again(client: Client) -> None:
    client.delete_queue("q")
    client.create_queue("q")


@pytest.fixture
def driven(client: Client) -> Driven:
    """One batch has been done and settled, and the next one is claimed and noted."""
    driven = Driven(client.url, queue="q")
    send(client, "a", "b")
    assert driven.batch() == ["q:a", "q:b"]
    send(client, "c")
    assert driven.plan()
    driven.end()
    return driven


def test_released_before_it_was_read(client: Client, driven: Driven, caplog: pytest.LogCaptureFixture) -> None:
    release(client, 2)
    with pytest.raises(ShipmentGone, match=f"shipment 2 of 'c' from 'q' .* it was released.*{CHOICE}") as failed:
        driven.run()
    assert "\n" not in str(failed.value)
    driven.options["onLostShipment"] = "continue"
    assert driven.run() == [[], ["q:c"]]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "it was released" in caplog.text
    assert driven.offset["q"]["shipment"] == 3


def test_released_after_it_was_processed(client: Client, driven: Driven, caplog: pytest.LogCaptureFixture) -> None:
    """Its messages come twice, and somebody has said that they may."""
    driven.begin()
    assert driven.process() == ["q:c"]
    release(client, 2)
    with pytest.raises(ShipmentGone, match=f"shipment 2 of 'q' was processed, but released.*{CHOICE}"):
        driven.plan()
    driven.end()
    driven.begin(onLostShipment="continue")
    assert driven.batch() == ["q:c"]
    assert driven.batch() == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    driven.end()


@pytest.mark.parametrize("more", [(), ("d", "e", "f")], ids=["empty", "with messages"])
def test_created_again(client: Client, driven: Driven, more: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    """Its numbers begin with 1 again."""
    create_again(client)
    send(client, *more)
    with pytest.raises(ShipmentGone, match=f"does not know shipment 2 .*created again.*{CHOICE}"):
        driven.run()
    driven.options["onLostShipment"] = "continue"
    assert driven.run() == [[], *([[f"q:{body}" for body in more]] if more else [])]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert driven.offset["q"]["shipment"] == (1 if more else 2)


def test_created_again_and_counted_up_to_the_same_number(client: Client, driven: Driven) -> None:
    """Another shipment of the same number is not the one that the checkpoint names: it is neither read nor settled."""
    create_again(client)
    for number in (1, 2):
        send(client, f"new {number}")
        assert client.claim_shipment(ShipmentRef("q", "c", number), 10, 3_600_000)
        if number == 1:
            client.settle_shipment(ShipmentRef("q", "c", 1))
    with pytest.raises(ShipmentGone, match="does not know shipment 2"):
        driven.run()
    assert client.shipment(ShipmentRef("q", "c", 2)).state == "open"
    driven.options["onLostShipment"] = "continue"
    assert driven.run() == [[], ["q:new 2"]]


def test_created_again_while_the_stream_runs(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    driven = Driven(client.url, queue="q", onLostShipment="continue")
    send(client, "a")
    assert driven.batch() == ["q:a"]
    assert driven.batch() == []
    client.delete_queue("q")
    assert driven.batch() == []
    assert driven.batch() == []
    client.create_queue("q")
    send(client, "b")
    assert driven.batch() == ["q:b"]
    assert driven.offset["q"]["shipment"] == 1
    assert driven.batch() == []
    send(client, "c")
    assert driven.batch() == ["q:c"]
    assert len(caplog.records) == 2
    driven.end()


def test_created_again_while_the_stream_runs_and_must_not_go_on(client: Client) -> None:
    driven = Driven(client.url, queue="q")
    send(client, "a")
    assert driven.batch() == ["q:a"]
    assert driven.batch() == []
    create_again(client)
    send(client, "b")
    with pytest.raises(ShipmentGone, match=f"does not know shipment 1 .*{CHOICE}"):
        driven.batch()
    driven.end()


def test_deleted(client: Client, driven: Driven) -> None:
    client.delete_queue("q")
    with pytest.raises(QueueNotFound, match=CHOICE):
        driven.run()
    driven.options["onLostShipment"] = "continue"
    assert driven.run() == [[]]
    client.create_queue("q")
    send(client, "d")
    assert driven.run() == [["q:d"]]


def test_deleted_among_several(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on, and the checkpoint forgets it."""
    monkeypatch.setattr("penstock.spark.queues._LISTED_S", 0)
    monkeypatch.setattr("penstock.spark.stream._PAUSE_S", 0)
    for queue in ("a-1", "a-2"):
        client.create_queue(queue)
        send(client, "x", queue=queue)
    driven = Driven(client.url, queues="a-*")
    assert driven.batch() == ["a-1:x", "a-2:x"]
    assert driven.batch() == []
    client.delete_queue("a-1")
    send(client, "y", queue="a-2")
    with pytest.raises(QueueNotFound, match=f"a-1.*{CHOICE}"):
        driven.batch()
    driven.end()
    driven.begin(onLostShipment="continue")
    assert driven.batch() == ["a-2:y"]
    assert list(driven.offset) == ["a-2"]
    client.create_queue("a-1")
    send(client, "z", queue="a-1")
    assert driven.batch() == ["a-1:z"]
    driven.end()


def test_purged(client: Client, driven: Driven, caplog: pytest.LogCaptureFixture) -> None:
    client.purge("q")
    with pytest.raises(ShipmentGone, match=f"it was purged.*{CHOICE}"):
        driven.run()
    send(client, "d")
    driven.options["onLostShipment"] = "continue"
    assert driven.run() == [[], ["q:d"]]
    assert "it was purged" in caplog.text


@pytest.mark.parametrize("choice", ["fail", "continue"])
def test_taken_by_another(client: Client, driven: Driven, choice: str) -> None:
    """Two queries with one consumer take each other's messages: no option makes that right."""
    driven.begin()
    assert driven.process() == ["q:c"]
    driven.end()
    client.settle_shipment(ShipmentRef("q", "c", 2))
    send(client, "d")
    assert client.claim_shipment(ShipmentRef("q", "c", 3), 10, 3_600_000)
    client.settle_shipment(ShipmentRef("q", "c", 3))
    driven.begin(onLostShipment=choice)
    with pytest.raises((ShipmentGone, ShipmentConflict), match="another query uses the consumer 'c'"):
        driven.plan()
    driven.end()


def test_a_first_run_without_its_queue(client: Client) -> None:
    with pytest.raises(QueueNotFound):
        Driven(client.url, queue="later").batch()
    driven = Driven(client.url, queue="later", onLostShipment="continue")
    assert driven.batch() == []
    client.create_queue("later")
    send(client, "a", queue="later")
    assert driven.batch() == ["later:a"]
    driven.end()


@pytest.mark.parametrize("lose", [lambda client: release(client, 1), create_again], ids=["released", "created again"])
def test_with_spark(queue: Queue, tmp_path: Path, lose: Callable[[Client], None]) -> None:
    """A query that failed for it goes on with its own checkpoint."""
    stored: dict[int, list[str]] = {}
    is_broken = True

    def store(batch: Any, number: int) -> None:
        if is_broken:
            raise RuntimeError("not now")
        stored[number] = sorted(bytes(row.body).decode() for row in batch.collect())

    def run(**options: str) -> None:
        writer = queue.stream(consumer="c", **options).writeStream.foreachBatch(store)
        writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()

    queue.send("a")
    with pytest.raises(Exception, match="not now"):
        run()
    is_broken = False
    lose(queue.client)
    queue.send("b")
    with pytest.raises(Exception, match=CHOICE):
        run()
    run(onLostShipment="continue")
    assert stored == {0: [], 1: ["a", "b"] if lose is not create_again else ["b"]}
    queue.send("c")
    run()
    assert stored[2] == ["c"]
