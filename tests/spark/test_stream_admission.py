"""How much a micro-batch holds, and when it begins."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.client import Client
from penstock.spark.admission import Admission
from penstock.spark.errors import InvalidOption
from penstock.spark.options import read_options
from tests.spark.driven import Driven


class Clock:
    """Time that passes when a test says so, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def admission(clock: Clock, **options: object) -> Admission:
    given = {"url": "http://127.0.0.1:1", "queue": "q", **{name: str(value) for name, value in options.items()}}
    return Admission(read_options(given, {}), clock, clock.sleep)


def send(client: Client, start: int, stop: int, size: int = 0) -> None:
    client.send_many("q", [f"{number:03}".encode().ljust(size, b".") for number in range(start, stop)])


def test_messages(client: Client) -> None:
    send(client, 0, 25)
    driven = Driven(client.url, queue="q", maxMessagesPerTrigger=10)
    assert driven.reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert [len(driven.batch()) for _ in range(4)] == [10, 10, 5, 0]
    driven.end()


def test_bytes(client: Client) -> None:
    send(client, 0, 10, size=100)
    driven = Driven(client.url, queue="q", maxBytesPerTrigger=350)
    assert [len(driven.batch()) for _ in range(5)] == [3, 3, 3, 1, 0]
    driven.end()


def test_bytes_in_a_run_that_ends(client: Client) -> None:
    send(client, 0, 10, size=100)
    driven = Driven(client.url, queue="q", maxBytesPerTrigger=500, maxMessagesPerTrigger=4)
    assert [len(batch) for batch in driven.run()] == [4, 4, 2]


def test_a_message_larger_than_a_batch(client: Client) -> None:
    """It comes alone: else nothing would come ever after."""
    send(client, 0, 2, size=100)
    assert [len(batch) for batch in Driven(client.url, queue="q", maxBytesPerTrigger=1).run()] == [1, 1]


def test_bytes_of_several_queues(client: Client) -> None:
    """Each has its share of them, and what one leaves goes to those after it."""
    client.create_queue("r")
    client.send_many("r", [b"x" * 100] * 1)
    send(client, 0, 10, size=100)
    driven = Driven(client.url, queues="q,r", maxBytesPerTrigger=600)
    assert sorted(row[0] for row in driven.batch()) == ["q"] * 5 + ["r"]
    driven.end()


def test_spark_may_want_everything(client: Client) -> None:
    send(client, 0, 25)
    few = {"maxBytesPerTrigger": 5, "minMessagesPerTrigger": 10, "maxMessagesPerSecond": 1}
    driven = Driven(client.url, queue="q", maxMessagesPerTrigger=10, **few)
    assert len(driven.batch(ReadAllAvailable())) == 25
    send(client, 25, 27)
    assert len(driven.batch(ReadAllAvailable())) == 2
    driven.end()


def test_a_minimum(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.stream._PAUSE_S", 0)
    driven = Driven(client.url, queue="q", minMessagesPerTrigger=5, maxTriggerDelay="1h")
    send(client, 0, 4)
    assert driven.batch() == []
    send(client, 4, 6)
    assert len(driven.batch()) == 6
    driven.end()


def test_a_minimum_that_is_not_reached_in_time(client: Client) -> None:
    send(client, 0, 2)
    driven = Driven(client.url, queue="q", minMessagesPerTrigger=5, maxTriggerDelay="0s")
    assert len(driven.batch()) == 2
    driven.end()


def test_a_minimum_does_not_keep_a_run_from_its_end(client: Client) -> None:
    send(client, 0, 2)
    assert Driven(client.url, queue="q", minMessagesPerTrigger=5).run() == [["q:000", "q:001"]]


def test_a_minimum_does_not_hide_what_is_open(client: Client) -> None:
    """Claimed by a planner that ended before Spark noted it: nothing is ready, and the messages are in no batch."""
    send(client, 0, 6)
    driven = Driven(client.url, queue="q", minMessagesPerTrigger=5)
    driven.reader.latestOffset({}, driven.reader.getDefaultReadLimit())
    driven.end()
    driven.begin()
    assert len(driven.batch()) == 6
    driven.end()


def test_the_delay_begins_with_the_first_message_that_waits() -> None:
    clock = Clock()
    waits = admission(clock, minMessagesPerTrigger=10, maxTriggerDelay="1m")
    clock.now += 3600
    assert waits.hold_back(0)
    assert waits.hold_back(1)
    clock.now += 59
    assert waits.hold_back(9)
    clock.now += 1
    assert not waits.hold_back(9)
    waits.note({"q": 9})
    assert waits.hold_back(1)
    assert not waits.hold_back(10)
    clock.now += 3600
    assert waits.hold_back(0), "others have taken it"
    assert waits.hold_back(1)


def test_a_rate() -> None:
    """After a batch as long a pause as its messages are worth, counted from when it began."""
    clock = Clock()
    paced = admission(clock, maxMessagesPerSecond=100, maxMessagesPerTrigger=1000)
    limit = paced.default_limit()
    assert paced.allow(limit) is not None
    paced.note({"a": 300, "b": 200})
    assert paced.allow(limit) is None
    clock.now += 4.9
    assert paced.allow(limit) is None
    clock.now += 0.2
    assert paced.allow(limit) is not None


def test_a_rate_in_a_run_that_ends() -> None:
    """Without a batch Spark would end it, so it waits instead; and does not when there is nothing to come."""
    clock = Clock()
    paced = admission(clock, maxMessagesPerSecond=10)
    paced.end_with({"a": 60})
    paced.note({"a": 50})
    assert paced.allow(paced.default_limit()) is not None
    assert clock.now == 1005.0
    paced.note({"a": 10})
    paced.allow(paced.default_limit())
    assert clock.now == 1005.0


def test_a_rate_in_a_stream(client: Client) -> None:
    send(client, 0, 20)
    driven = Driven(client.url, queue="q", maxMessagesPerTrigger=10, maxMessagesPerSecond=0.01)
    assert len(driven.batch()) == 10
    assert driven.batch() == []
    assert [shipment.state for shipment in client.shipments("q", "c")] == ["settled"]
    driven.end()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": "5"}, "a stream has maxMessagesPerTrigger"),
        ({"shipment": "5"}, "a stream goes from one to the next"),
        ({"maxMessagesPerTrigger": "5", "minMessagesPerTrigger": "6"}, "is more than maxMessagesPerTrigger"),
        ({"maxTriggerDelay": "15"}, "maxTriggerDelay: '15' is not a duration"),
        ({"maxMessagesPerSecond": "0"}, "maxMessagesPerSecond is a number"),
        ({"maxOffsetsPerTrigger": "5"}, "maxMessagesPerTrigger is the one of this source"),
        ({"failOnDataLoss": "false"}, "onLostShipment is the one of this source"),
        ({"onLostShipment": "ignore"}, "one of fail, continue, not 'ignore'"),
        ({"maxMessagePerTrigger": "5"}, "did you mean maxMessagesPerTrigger"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Driven("http://127.0.0.1:1", queue="q", **options)


def test_a_batch_read_has_a_limit() -> None:
    with pytest.raises(InvalidOption, match="a batch read has limit"):
        read_options({"url": "http://x", "queue": "q", "maxMessagesPerTrigger": "5"}, {}).check_batch()
