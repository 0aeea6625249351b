"""The document's dialogues about messages, over a real socket."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta

import pytest

from penstock import limits
from penstock.faces.answers import rfc3339
from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until

MEGABYTE = 1024 * 1024


def message_id(reply: Reply) -> str:
    return reply.headers["X-MQS-MESSAGE-ID"]


def test_send_receive_delete(talk: Talk, queue: str) -> None:
    sent = talk("POST", "/messages/q", b'{"any_json_data": "data"}', content_type="application/json")
    assert (sent.status, sent.body) == (201, b"")
    received = talk("GET", "/messages/q")
    assert received.status == 200
    assert received.body == b'{"any_json_data": "data"}'
    assert received.headers["Content-Type"] == "application/json"
    assert str(uuid.UUID(message_id(received))) == message_id(received)
    assert talk("DELETE", f"/messages/{message_id(received)}").status == 204
    assert talk("DELETE", f"/messages/{message_id(received)}").status == 404
    assert talk("GET", "/messages/q").status == 204


def test_receive_headers(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    received = talk("GET", "/messages/q")
    assert received.headers["X-MQS-MESSAGE-RECEIVES"] == "1"
    published, visible = (received.headers[f"X-MQS-MESSAGE-{name}"] for name in ("PUBLISHED-AT", "VISIBLE-AT"))
    for instant in (published, visible):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", instant)
    held = datetime.fromisoformat(visible) - datetime.fromisoformat(published)
    assert timedelta(seconds=30) <= held < timedelta(seconds=300)


@pytest.mark.parametrize(
    ("instant", "written"),
    [
        (0, b"1970-01-01T00:00:00.000Z"),
        (951_782_400_007, b"2000-02-29T00:00:00.007Z"),
        (1_772_357_400_999, b"2026-03-01T09:30:00.999Z"),
        (limits.NEVER, b"9999-12-31T23:59:59.000Z"),
    ],
)
def test_instants_have_milliseconds_and_end_in_z(instant: int, written: bytes) -> None:
    assert rfc3339(instant) == written


@pytest.mark.parametrize("body", [b"", b"\0\xff\r\n\r\n--\0", bytes(range(256)) * 64, b"x" * MEGABYTE])
def test_any_bytes_come_back_as_they_went(talk: Talk, queue: str, body: bytes) -> None:
    assert talk("POST", "/messages/q", body, content_type="application/x-own; a=1").status == 201
    received = talk("GET", "/messages/q")
    assert received.body == body
    assert received.headers["Content-Type"] == "application/x-own; a=1"


def test_the_content_type_defaults_to_octet_stream(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    assert talk("GET", "/messages/q").headers["Content-Type"] == "application/octet-stream"


def test_content_encoding_comes_back(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x", content_encoding="gzip")
    assert talk("GET", "/messages/q").headers["Content-Encoding"] == "gzip"


def test_a_message_past_1_mb_is_cut_off_and_the_answer_says_so(talk: Talk, queue: str) -> None:
    reply = talk("POST", "/messages/q", b"a" * MEGABYTE + b"b" * 1000)
    assert reply.status == 201
    assert reply.headers["X-MQS-MESSAGE-TRUNCATED"] == str(MEGABYTE)
    assert talk("GET", "/messages/q").body == b"a" * MEGABYTE
    assert "X-MQS-MESSAGE-TRUNCATED" not in talk("POST", "/messages/q", b"a" * MEGABYTE).headers


def test_a_setting_turns_cutting_off_into_413(tmp_path) -> None:
    server = ThreadServer(f"sqlite:///{tmp_path}/p.db", mqs_oversize="refuse")
    try:
        with server.talk() as talk:
            talk("PUT", "/queues/q", PLAIN)
            assert talk("POST", "/messages/q", b"a" * MEGABYTE).status == 201
        with server.talk() as talk:
            assert talk("POST", "/messages/q", b"a" * (MEGABYTE + 1)).status == 413
        with server.talk() as talk:
            assert talk("GET", "/queues/q").json["status"]["messages"] == 1
    finally:
        server.stop()


def test_unknown_queues_answer_404_whatever_else_is_wrong(talk: Talk) -> None:
    assert talk("POST", "/messages/nope", b"x").status == 404
    assert talk("GET", "/messages/nope").status == 404
    assert talk("GET", "/messages/nope", x_mqs_max_messages="many").status == 404
    assert talk("POST", "/messages/nope", b"x", content_type="multipart/mixed; boundary=b").status == 404


@pytest.mark.parametrize("text", ["1", "not-a-uuid", "q", "%00", "4ad814ab-213e-11e3-a9a3-0025904f6e0", "x" * 36])
def test_delete_wants_a_uuid(talk: Talk, text: str) -> None:
    reply = talk("DELETE", f"/messages/{text}")
    assert reply.status == 400
    assert reply.json["error"]


def test_delete_of_an_unknown_id_answers_404(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    received = message_id(talk("GET", "/messages/q"))
    foreign = received[:14] + ("7000-8000" if received[14:23] != "7000-8000" else "7001-8000") + received[23:]
    for unknown in (str(uuid.uuid4()), foreign, "00000000" + received[8:], received[:-1] + "9"):
        assert talk("DELETE", f"/messages/{unknown}").status == 404
    assert talk("DELETE", f"/messages/{received.upper()}").status == 204


def test_messages_come_oldest_first(talk: Talk, queue: str) -> None:
    for number in range(5):
        talk("POST", "/messages/q", str(number))
    assert [talk("GET", "/messages/q").body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_received_message_is_hidden_until_its_visibility_timeout(
    server: ThreadServer, talk: Talk, queue: str
) -> None:
    server.clock.stop()
    talk("POST", "/messages/q", b"x")
    first = talk("GET", "/messages/q")
    assert talk("GET", "/messages/q").status == 204
    server.clock.advance(30)
    again = talk("GET", "/messages/q")
    assert again.body == b"x"
    assert message_id(again) == message_id(first)
    assert again.headers["X-MQS-MESSAGE-RECEIVES"] == "2"


def test_visibility_timeout_zero_hides_nothing(talk: Talk) -> None:
    talk("PUT", "/queues/open", {**PLAIN, "visibility_timeout": 0})
    talk("POST", "/messages/open", b"x")
    assert [talk("GET", "/messages/open").headers["X-MQS-MESSAGE-RECEIVES"] for _ in range(3)] == [
        "1",
        "2",
        "3",
    ]


def test_a_delayed_message_appears_when_its_delay_is_over(server: ThreadServer, talk: Talk) -> None:
    server.clock.stop()
    talk("PUT", "/queues/later", {**PLAIN, "message_delay": 10})
    talk("POST", "/messages/later", b"x")
    assert talk("GET", "/messages/later").status == 204
    status = talk("GET", "/queues/later").json["status"]
    assert (status["messages"], status["visible_messages"]) == (1, 0)
    server.clock.advance(10)
    assert talk("GET", "/messages/later").body == b"x"


def test_a_lower_retention_deletes_nothing_before_the_next_receive(server: ThreadServer, talk: Talk) -> None:
    """In the document's words: not until you receive the message again. Two other queues show that sweeps have run."""

    def size(queue: str) -> int:
        return talk("GET", f"/queues/{queue}").json["status"]["messages"]

    for name, retention in (("first", 5), ("lowered", 600), ("last", 5)):
        talk("PUT", f"/queues/{name}", {**PLAIN, "retention_timeout": retention})
        talk("POST", f"/messages/{name}", b"x")
    assert talk("POST", "/queues/lowered", {**PLAIN, "retention_timeout": 5}).status == 200
    server.clock.advance(60)
    wait_until(lambda: not (size("first") or size("last")))
    assert size("lowered") == 1
    assert talk("POST", "/queues/lowered", PLAIN).status == 200
    assert talk("GET", "/messages/lowered").body == b"x"
    server.clock.advance(60)
    assert talk("POST", "/queues/lowered", {**PLAIN, "retention_timeout": 5}).status == 200
    assert talk("GET", "/messages/lowered").status == 204
    assert size("lowered") == 0


def test_a_message_past_its_retention_is_never_received(server: ThreadServer, talk: Talk) -> None:
    server.clock.stop()
    talk("PUT", "/queues/short", {**PLAIN, "retention_timeout": 5})
    for body in (b"old", b"older"):
        talk("POST", "/messages/short", body)
    server.clock.advance(5)
    talk("POST", "/messages/short", b"new")
    assert talk("GET", "/messages/short").body == b"new"
    assert talk("GET", "/messages/short").status == 204


def test_dedup_answers_200_and_stores_one(server: ThreadServer, talk: Talk) -> None:
    talk("PUT", "/queues/once", {**PLAIN, "message_deduplication": True, "retention_timeout": 100})
    assert talk("POST", "/messages/once", b"x").status == 201
    assert talk("POST", "/messages/once", b"x").status == 200
    received = talk("GET", "/messages/once")
    assert talk("POST", "/messages/once", b"x").status == 200  # claimed, but still in the queue
    talk("DELETE", f"/messages/{message_id(received)}")
    assert talk("POST", "/messages/once", b"x").status == 201
    server.clock.advance(100)
    assert talk("POST", "/messages/once", b"x").status == 201  # the earlier one is past its retention
    assert talk("GET", "/messages/once").body == b"x"
    assert talk("GET", "/messages/once").status == 204


def test_turning_dedup_on_does_not_look_at_what_is_there(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    talk("POST", "/queues/q", {**PLAIN, "message_deduplication": True})
    assert talk("POST", "/messages/q", b"x").status == 201
    assert talk("POST", "/messages/q", b"x").status == 200


def test_redrive_after_max_receives(server: ThreadServer, talk: Talk, queue: str) -> None:
    policy = {"max_receives": 2, "dead_letter_queue": "q"}
    talk("PUT", "/queues/source", {**PLAIN, "visibility_timeout": 1, "redrive_policy": policy})
    talk("POST", "/messages/source", b"poison")
    talk("POST", "/messages/source", b"good")
    first = message_id(talk("GET", "/messages/source"))
    server.clock.advance(1)
    assert message_id(talk("GET", "/messages/source")) == first
    server.clock.advance(1)
    assert talk("GET", "/messages/source").body == b"good"  # goes on to the next message
    dead = talk("GET", "/messages/q")
    assert dead.body == b"poison"
    assert dead.headers["X-MQS-MESSAGE-RECEIVES"] == "1"


def test_the_redrive_policy_is_the_one_at_receive(server: ThreadServer, talk: Talk, queue: str) -> None:
    talk("PUT", "/queues/source", {**PLAIN, "visibility_timeout": 1})
    talk("POST", "/messages/source", b"x")
    talk("GET", "/messages/source")
    policy = {"max_receives": 1, "dead_letter_queue": "q"}
    talk("POST", "/queues/source", {**PLAIN, "visibility_timeout": 1, "redrive_policy": policy})
    server.clock.advance(1)
    assert talk("GET", "/messages/source").status == 204
    assert talk("GET", "/messages/q").body == b"x"


@pytest.mark.parametrize("header", ["X-MQS-MAX-MESSAGES", "X-MQS-MAX-WAIT-TIME"])
@pytest.mark.parametrize("value", ["0", "-1", "1000", "two", "", "1.5", "99999999999999999999"])
def test_receive_headers_out_of_range_answer_400(talk: Talk, queue: str, header: str, value: str) -> None:
    reply = talk("GET", "/messages/q", **{header: value})
    assert reply.status == 400
    assert header in reply.json["error"]


def test_the_trace_id_is_echoed_and_travels_with_the_message(talk: Talk, queue: str) -> None:
    trace = str(uuid.uuid4())
    assert talk("POST", "/messages/q", b"x", x_trace_id=trace).headers["X-TRACE-ID"] == trace
    assert talk("GET", "/messages/q", x_trace_id="other").headers.get_all("X-TRACE-ID") == [trace]
    assert talk("GET", "/messages/q", x_trace_id="other").headers["X-TRACE-ID"] == "other"
    assert talk("GET", "/queues/nope", x_trace_id="t").headers["X-TRACE-ID"] == "t"
    assert "X-TRACE-ID" not in talk("GET", "/queues/q").headers
