"""Many messages in one request: JSON lines, Arrow, and sends that are known again by their key."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
import pytest

from penstock import limits
from penstock.faces.native import arrow
from penstock.limits import Limits
from tests.faces.native.conftest import Native, bodies
from tests.servers import ThreadServer
from tests.talk import Reply
from tests.waiting import wait_until

ARROW = "application/vnd.apache.arrow.stream"
LINES = "application/x-ndjson"
MEGABYTE = 1024 * 1024
MAP = pa.map_(pa.string(), pa.string())


def stream(columns: dict[str, pa.Array], **options: Any) -> bytes:
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def table(reply: Reply) -> pa.Table:
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == ARROW
    return pa.ipc.open_stream(reply.body).read_all()


def send_arrow(native: Native, columns: dict[str, pa.Array], **headers: str) -> Reply:
    return native.talk("POST", "/v1/queues/q/messages", stream(columns), content_type=ARROW, **headers)


def send_lines(native: Native, *lines: object, **headers: str) -> Reply:
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return native.talk("POST", "/v1/queues/q/messages", body, content_type=LINES, **headers)


# JSON lines


def test_json_lines_are_sent_in_their_order(native: Native) -> None:
    reply = send_lines(native, {"body": "1"}, "", {"body": "2", "content_type": "a/b"}, {"body_base64": "/w=="}, "")
    assert (reply.status, reply.json) == (201, {"count": 3, "stored": 3, "repeated": False})
    first, second, third = native.claim(limit=10)
    assert (first["body"], second["body"], third["body_base64"]) == ("1", "2", "/w==")
    assert second["content_type"] == "a/b"


@pytest.mark.parametrize(
    "lines", ["", "\n\n", '{"body": "1"}\n{"body"', '{"body": 1}', '[{"body": "1"}]', '{"bdy": "1"}', "\xff"]
)
def test_one_bad_line_refuses_all(native: Native, lines: str) -> None:
    assert send_lines(native, lines).status == 400
    assert native.count()["total"] == 0


def test_as_many_lines_as_messages_are_allowed(native: Native) -> None:
    assert send_lines(native, *[{"body": "x"}] * limits.SEND_LIMIT).json["count"] == limits.SEND_LIMIT
    assert send_lines(native, *[{"body": "x"}] * (limits.SEND_LIMIT + 1)).status == 400
    assert send_lines(native, *[""] * (limits.SEND_LIMIT * 2 + 2)).status == 413


# Arrow


def test_arrow_is_sent_and_claimed_and_acked(native: Native, server: ThreadServer) -> None:
    sent = send_arrow(
        native,
        {
            "body": pa.array([b"1", b"\xff\x00"], pa.binary()),
            "content_type": pa.array(["a/b", None]),
            "attributes": pa.array([[("k", "v")], None], MAP),
        },
    )
    assert (sent.status, sent.json) == (201, {"count": 2, "stored": 2, "repeated": False})
    claimed = table(native.talk("POST", "/v1/queues/q/claim", {"limit": 10}, accept=ARROW))
    assert claimed.column("body").to_pylist() == [b"1", b"\xff\x00"]
    assert claimed.column("content_type").to_pylist() == ["a/b", None]
    assert claimed.column("attributes").to_pylist() == [[("k", "v")], []]
    assert claimed.column("receives").to_pylist() == [1, 1]
    assert claimed.column("queue").to_pylist() == ["q", "q"]
    assert claimed.schema.field("sent_at").type == pa.timestamp("ms", tz="UTC")
    assert all(round(at.timestamp() * 1000) <= server.clock() for at in claimed.column("sent_at").to_pylist())
    acked = native.talk(
        "POST", "/v1/queues/q/ack", stream({"receipt": claimed["receipt"].combine_chunks()}), content_type=ARROW
    )
    assert acked.json == {"done": [True, True]}


def test_strings_are_bodies_too(native: Native) -> None:
    for kind in (pa.string(), pa.large_string(), pa.large_binary()):
        assert send_arrow(native, {"body": pa.array(["ä"], kind)}).status == 201
    assert bodies(native.claim(limit=10)) == ["ä", "ä", "ä"]


def test_a_delay_comes_with_arrow(native: Native, server: ThreadServer) -> None:
    send_arrow(native, {"body": pa.array(["later", "now"]), "delay_ms": pa.array([60_000, None], pa.int64())})
    assert bodies(native.claim(limit=10)) == ["now"]
    server.clock.advance(61)
    assert "later" in bodies(native.claim(limit=10))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_groups_and_dedup_ids_come_with_arrow(native: Native, kind: pa.DataType) -> None:
    native.create("line", groups="fifo", dedup="window")
    columns = {
        "body": pa.array(["1", "2", "3", "4"]),
        "group": pa.array(["a", "a", None, "ü"], kind),
        "dedup_id": pa.array(["x", None, "x", "y"], kind),
    }
    reply = native.talk("POST", "/v1/queues/line/messages", stream(columns), content_type=ARROW)
    assert (reply.status, reply.json) == (201, {"count": 4, "stored": 3, "repeated": False})
    claimed = table(native.talk("POST", "/v1/queues/line/claim", {"limit": 1, "attempt": "a"}, accept=ARROW))
    assert (claimed["body"].to_pylist(), claimed["group"].to_pylist()) == ([b"1"], ["a"])
    assert claimed["first_claimed_at"].to_pylist() != [None]
    again = table(native.talk("POST", "/v1/queues/line/claim", {"limit": 1, "attempt": "a"}, accept=ARROW))
    assert again["receipt"].to_pylist() == claimed["receipt"].to_pylist()
    peeked = table(native.talk("GET", "/v1/queues/line/messages", accept=ARROW))
    assert peeked["body"].to_pylist() == [b"4", b"1", b"2"]
    assert [at.timestamp() > 0 for at in peeked["ready_at"].to_pylist()] == [False, True, False]
    assert [at is None for at in peeked["first_claimed_at"].to_pylist()] == [True, False, True]
    assert peeked.schema.field("first_claimed_at").type == pa.timestamp("ms", tz="UTC")


def test_peek_in_arrow_goes_on_after_its_cursor(native: Native) -> None:
    native.send("1", "2", "3")
    first = native.talk("GET", "/v1/queues/q/messages?limit=2", accept=ARROW)
    assert table(first).column("body").to_pylist() == [b"1", b"2"]
    rest = native.talk("GET", f"/v1/queues/q/messages?limit=2&after={first.headers['Penstock-After']}", accept=ARROW)
    assert table(rest).column("body").to_pylist() == [b"3"]
    end = native.talk("GET", f"/v1/queues/q/messages?limit=2&after={rest.headers['Penstock-After']}", accept=ARROW)
    assert table(end).num_rows == 0
    assert end.headers["Penstock-After"] is None


def test_a_server_without_arrow_says_so_and_claims_nothing(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arrow._arrow.cache_clear()
    native.send("1")
    reply = native.talk("POST", "/v1/queues/q/claim", {}, accept=ARROW)
    arrow._arrow.cache_clear()
    assert (reply.status, native.count()["ready"]) == (501, 1)
    assert "[arrow]'" in reply.json["error"]


def test_a_caller_that_does_not_ask_for_arrow_gets_json(native: Native) -> None:
    native.send("1")
    assert native.talk("POST", "/v1/queues/q/claim", {}, accept="text/html, */*").json["messages"]


@pytest.mark.parametrize(
    ("accept", "in_arrow"),
    [
        (ARROW, True),
        (ARROW.upper(), True),
        (f"{ARROW}, */*", True),
        (f"application/json, {ARROW}", True),
        (f"application/json;q=0.9,{ARROW};v=1;q=0.9", True),
        (f"application/json; q=0.5, {ARROW}", True),
        (f"{ARROW};q=0.001", True),
        (f"{ARROW};q=0", False),
        (f"{ARROW}; Q=0.000, application/json", False),
        (f"{ARROW};q=0.5, application/json", False),
        (f"{ARROW};q=0.5, application/*;q=0.6", False),
        (f"{ARROW};q=0.5, */*", False),
        (f"{ARROW};q=0.5, application/json;q=0.1, */*", True),
        (f"{ARROW};q=much", False),
        (f"{ARROW};q=nan", False),
        (f"{ARROW}-of-another-kind", False),
        (f"x{ARROW}", False),
        (f'text/plain;note="{ARROW}"', False),
        ("application/*", False),
        ("", False),
    ],
)
def test_arrow_comes_only_where_it_is_asked_for(native: Native, accept: str, in_arrow: bool) -> None:
    reply = native.talk("GET", "/v1/queues/q/messages", accept=accept)
    assert reply.headers["Content-Type"] == (ARROW if in_arrow else "application/json")


REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "no stream": b"\x00" * 100,
    "half a stream": stream({"body": pa.array(["x" * 1000])})[:500],
    "no body column": stream({"content_type": pa.array(["a/b"])}),
    "an unknown column": stream({"body": pa.array(["x"]), "colour": pa.array(["red"])}),
    "a null body": stream({"body": pa.array(["x", None])}),
    "numbers": stream({"body": pa.array([1, 2])}),
    "a dictionary, which a few bytes can blow up": stream({"body": pa.array(["x"]).dictionary_encode()}),
    "compressed buffers, which may be anything": stream({"body": pa.array(["x" * 1000] * 100)}, compression="zstd"),
    "attributes without a value": stream({"body": pa.array(["x"]), "attributes": pa.array([[("k", None)]], MAP)}),
    "attributes of another type": stream({"body": pa.array(["x"]), "attributes": pa.array(["k=v"])}),
    "a negative delay": stream({"body": pa.array(["x"]), "delay_ms": pa.array([-1], pa.int64())}),
    "an empty group": stream({"body": pa.array(["x"]), "group": pa.array([""])}),
    "a group that is too long": stream({"body": pa.array(["x"]), "group": pa.array(["x" * 129])}),
    "a group of two lines": stream({"body": pa.array(["x"]), "group": pa.array(["a\nb"])}),
    "a group that is a number": stream({"body": pa.array(["x"]), "group": pa.array([7])}),
    "bytes for a dedup id": stream({"body": pa.array(["x"]), "dedup_id": pa.array([b"x"])}),
    "an empty dedup id": stream({"body": pa.array(["x"]), "dedup_id": pa.array([""])}),
    "a content type of two lines": stream({"body": pa.array(["x"]), "content_type": pa.array(["a\nb"])}),
    "no rows": stream({"body": pa.array([], pa.binary())}),
    "JSON": b'{"messages": []}',
}


@pytest.mark.parametrize("what", REFUSED)
def test_arrow_that_is_refused(native: Native, what: str) -> None:
    reply = native.talk("POST", "/v1/queues/q/messages", REFUSED[what], content_type=ARROW)
    assert reply.status == 400, reply.body
    assert reply.json["error"]
    assert native.count()["total"] == 0


def test_arrow_over_a_limit(native: Native) -> None:
    too_long = {"body": pa.array([b"x" * (limits.BODY_BYTES + 1)], pa.binary())}
    assert send_arrow(native, too_long).status == 413
    assert send_arrow(native, {"body": pa.array(["x"] * (limits.SEND_LIMIT + 1))}).status == 413
    assert send_arrow(native, {"body": pa.array(["x"] * limits.SEND_LIMIT)}).json["count"] == limits.SEND_LIMIT


def test_flipped_bytes_are_refused_or_read_but_never_break_the_server(native: Native) -> None:
    good = stream({"body": pa.array([b"1", b"22"], pa.binary()), "attributes": pa.array([[("k", "v")], []], MAP)})
    for at in range(0, len(good), 7):
        bad = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
        assert native.talk("POST", "/v1/queues/q/messages", bad, content_type=ARROW).status in (201, 400, 413)


# Idempotency keys


def test_the_same_key_stores_nothing_twice(native: Native) -> None:
    columns = {"body": pa.array(["1", "2"])}
    first = send_arrow(native, columns, idempotency_key="load/1")
    again = send_arrow(native, columns, idempotency_key="load/1")
    assert (first.status, first.json) == (201, {"count": 2, "stored": 2, "repeated": False})
    assert (again.status, again.json) == (200, {"count": 2, "stored": 2, "repeated": True})
    assert native.count()["total"] == 2
    assert send_arrow(native, columns, idempotency_key="load/2").status == 201
    assert native.count()["total"] == 4


def test_a_key_works_for_json_and_lines_as_well(native: Native) -> None:
    for _ in range(2):
        native.talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "1"}]}, idempotency_key="a")
        send_lines(native, {"body": "2"}, idempotency_key="b")
    assert sorted(bodies(native.claim(limit=10))) == ["1", "2"]


def test_the_same_key_with_other_content_is_a_conflict(native: Native) -> None:
    assert send_lines(native, {"body": "1"}, idempotency_key="a").status == 201
    reply = send_lines(native, {"body": "2"}, idempotency_key="a")
    assert reply.status == 409
    assert "'a'" in reply.json["error"]
    assert bodies(native.claim(limit=10)) == ["1"]


def test_a_key_belongs_to_its_queue_and_to_its_time(native: Native, server: ThreadServer) -> None:
    native.create("r")
    send_lines(native, {"body": "1"}, idempotency_key="a")
    reply = native.talk("POST", "/v1/queues/r/messages", '{"body": "1"}', content_type=LINES, idempotency_key="a")
    assert reply.json["repeated"] is False
    server.clock.advance(Limits().idempotency_ms / 1000 + 1)
    assert send_lines(native, {"body": "1"}, idempotency_key="a").json["repeated"] is False


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tbed", "ä"])
def test_a_bad_key_is_refused(native: Native, key: str) -> None:
    assert send_lines(native, {"body": "1"}, idempotency_key=key).status == 400
    assert native.count()["total"] == 0


def test_a_send_with_a_key_wakes_who_waits(server: ThreadServer, native: Native) -> None:
    with server.talk() as other:
        other._connection.request("POST", "/v1/queues/q/claim", json.dumps({"wait_ms": 60_000}))
        wait_until(server.waiting_claims)
        send_lines(native, {"body": "1"}, idempotency_key="a")
        answer = json.loads(other._connection.getresponse().read())
    assert bodies(answer["messages"]) == ["1"]


def test_bulk_to_no_queue(native: Native) -> None:
    for headers in ({}, {"idempotency_key": "a"}):
        reply = native.talk("POST", "/v1/queues/none/messages", '{"body": "1"}', content_type=LINES, **headers)
        assert reply.status == 404
