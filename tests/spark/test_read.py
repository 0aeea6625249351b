"""A read without a consumer looks at a queue and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException

from penstock.client import Draft
from tests.spark.conftest import Queue, bodies


def test_all_columns(queue: Queue) -> None:
    queue.send(b"one", content_type="text/plain", colour="red")
    [row] = queue.read().collect()
    assert bytes(row.body) == b"one"
    assert row.content_type == "text/plain"
    assert row.attributes == {"colour": "red"}
    assert row.receives == 0
    assert row.queue == "q"
    assert abs(row.sent_at.astimezone(UTC) - datetime.now(UTC)) < timedelta(minutes=5)
    [peeked] = queue.client.arrow.peek("q").batch.to_pylist()
    assert row.id == peeked["id"]


def test_schema(queue: Queue) -> None:
    assert queue.read().schema.simpleString() == (
        "struct<id:string,body:binary,content_type:string,attributes:map<string,string>,sent_at:timestamp,"
        "receives:int,queue:string,group:string,first_claimed_at:timestamp>"
    )
    assert "body:string" in queue.read(format="text").schema.simpleString()
    assert queue.read(format="json", bodySchema="a INT, b ARRAY<STRING>").schema["body"].dataType.simpleString() == (
        "struct<a:int,b:array<string>>"
    )
    assert queue.read(format="json", bodySchema="map<string,int>").schema["body"].dataType.simpleString() == (
        "map<string,int>"
    )


def test_what_a_message_lacks(queue: Queue) -> None:
    queue.send(b"")
    [row] = queue.read().collect()
    assert (bytes(row.body), row.content_type, row.attributes) == (b"", None, {})
    assert (row.group, row.first_claimed_at) == (None, None)


def test_groups_and_first_claims(queue: Queue) -> None:
    queue.client.create_queue("line", groups="fifo")
    queue.client.send_many("line", [Draft(text, group=group) for text, group in (("1", "a"), ("2", "a"), ("3", None))])
    [claimed] = queue.client.claim("line")
    rows = queue.read(queue="line", format="text").orderBy("body").collect()
    assert [(row.body, row.group, row.first_claimed_at is None) for row in rows] == [
        ("1", "a", False), ("2", "a", True), ("3", None, True),
    ]  # fmt: skip
    assert rows[0].first_claimed_at.timestamp() * 1000 == claimed.first_claimed_at
    queue.client.release("line", claimed)
    shipped = queue.read("`group` string, first_claimed_at timestamp", queue="line", consumer="c").collect()
    assert sorted(row.group or "" for row in shipped) == ["", "a", "a"]
    assert all(row.first_claimed_at is not None for row in shipped)


def test_peeking_changes_nothing(queue: Queue) -> None:
    queue.send(*(f"m{number}" for number in range(30)))
    [claimed] = queue.client.claim("q", hold_ms=3_600_000)
    before = queue.count(), queue.tally(), list(queue.client.shipments("q"))
    frame = queue.read()
    assert frame.count() == 30
    assert frame.count() == 30
    assert (queue.count(), queue.tally(), list(queue.client.shipments("q"))) == before
    assert queue.client.ack("q", claimed) == [True]


def test_more_than_one_page(queue: Queue) -> None:
    sent = [b"%06d" % number for number in range(10_500)]
    queue.send(*sent[:10_000])
    queue.send(*sent[10_000:])
    assert bodies(queue.read()) == sent


def test_an_empty_queue(queue: Queue) -> None:
    assert queue.read().collect() == []
    assert queue.read(consumer="c").collect() == []
    assert list(queue.client.shipments("q")) == []


def test_columns_by_the_readers_own_schema(queue: Queue) -> None:
    queue.send(b'{"a": 7}')
    frame = queue.read("queue string, body struct<a: bigint>, receives int")
    assert [tuple(row) for row in frame.collect()] == [("q", (7,), 0)]
    assert [tuple(row) for row in queue.read("body string").collect()] == [('{"a": 7}',)]
    assert [tuple(row) for row in queue.read("attributes map<string,string>").collect()] == [({},)]


def test_filters_and_projections(queue: Queue) -> None:
    queue.send("a", "b", "c")
    frame = queue.read(format="text")
    assert [row.body for row in frame.where("body > 'a'").select("body").collect()] == ["b", "c"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "queue 'nowhere' does not exist"),
        ({"queue": ""}, "the option queue is missing"),
        ({"format": "xml"}, "binary, text, json"),
        ({"limit": "0"}, "the option limit"),
        ({"partitions": "many"}, "the option partitions"),
        ({"shipment": "3"}, "needs the option consumer"),
        ({"api_key": "x"}, "did you mean apiKey"),
        ({"consumr": "x"}, "did you mean consumer"),
        ({"url": "localhost:80"}, "not a server's address"),
        ({"format": "text", "bodySchema": "a INT"}, "bodySchema is for format json"),
    ],
)
def test_options_that_make_no_sense(queue: Queue, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        queue.read(**options).collect()


def test_options_in_any_case_and_those_of_spark(queue: Queue) -> None:
    queue.send("x")
    frame = queue.read(FORMAT="text", PARTITIONS="2", mergeSchema="true", **{"spark.something": "else"})
    assert [row.body for row in frame.collect()] == ["x"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id string, colour string", "no column 'colour'"),
        ("id int", "the column id is string, not int"),
        ("body string not null", "may be null"),
        ("`group` string not null", "may be null"),
        ("first_claimed_at string", "the column first_claimed_at is timestamp, not string"),
        ("id string, bad_record binary", "goes with the column body"),
        ("body struct<a: interval day>", "cannot be read into"),
    ],
)
def test_columns_that_there_are_not(queue: Queue, schema: str, said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        queue.read(schema).collect()


def test_a_server_that_is_away(queue: Queue) -> None:
    with pytest.raises(PySparkException, match=r"cannot reach http://127\.0\.0\.1:1"):
        queue.read(url="http://127.0.0.1:1", patienceSeconds="0.2").collect()
