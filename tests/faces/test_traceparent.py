"""A trace that a send brings is kept with its messages and handed back, through whichever API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.faces.traceparent import is_valid, trace_of
from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Talk

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
SENT = {"traceparent": PARENT, "tracestate": STATE}


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        (PARENT, True),
        (PARENT[:-2] + "ff", True),
        (f"{PARENT}-more", False),
        ("cc" + PARENT[2:], True),
        ("cc" + PARENT[2:] + "-what.comes.later", True),
        ("cc" + PARENT[2:] + ".no", False),
        ("ff" + PARENT[2:], False),
        (PARENT.upper(), False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", False),
        (PARENT[:-1], False),
        (f" {PARENT}", False),
        ("", False),
    ],
)
def test_what_is_valid(given: str, valid: bool) -> None:
    assert is_valid(given.encode()) == valid
    assert trace_of({b"traceparent": given.encode()}) == ({"traceparent": given} if valid else None)


@pytest.mark.parametrize("state", ["", "x" * 513, "tab\t", "\xe4"])
def test_a_state_that_is_not_plain_is_left_out(state: str) -> None:
    headers = {b"traceparent": PARENT.encode(), b"tracestate": state.encode("latin-1")}
    assert trace_of(headers) == {"traceparent": PARENT}


def test_a_state_alone_is_nothing() -> None:
    assert trace_of({b"tracestate": STATE.encode()}) is None


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    server = ThreadServer(f"sqlite:///{tmp_path}/p.db")
    with server.talk() as talk:
        assert talk("PUT", "/queues/q", PLAIN).status in (200, 201)
        yield talk
    server.stop()


def claimed(talk: Talk, queue: str = "q") -> list[dict[str, str] | None]:
    messages = talk("POST", f"/v1/queues/{queue}/claim", {"limit": 10}).json["messages"]
    return [message["attributes"] for message in messages]


def test_native_keeps_it_for_each_message_without_one(talk: Talk) -> None:
    messages = [
        {"body": "1"},
        {"body": "2", "attributes": {"kind": "x"}},
        {"body": "3", "attributes": {"traceparent": OTHER}},
    ]
    assert talk("POST", "/v1/queues/q/messages", {"messages": messages}, **SENT).status == 201
    expected = [SENT, {"kind": "x", **SENT}, {"traceparent": OTHER}]
    assert [one["attributes"] for one in talk("GET", "/v1/queues/q/messages").json["messages"]] == expected
    assert claimed(talk) == expected


def test_lines_and_keyed_sends_keep_it_too(talk: Talk) -> None:
    line = b'{"body": "1"}\n'
    kind = {"content_type": "application/x-ndjson"}
    assert talk("POST", "/v1/queues/q/messages", line, **SENT, **kind).status == 201
    assert talk("POST", "/v1/queues/q/messages", line, **SENT, **kind, idempotency_key="k").status == 201
    again = talk("POST", "/v1/queues/q/messages", line, traceparent=OTHER, **kind, idempotency_key="k")
    assert (again.status, again.json["repeated"]) == (200, True)
    assert claimed(talk) == [SENT, SENT]


def test_one_that_is_not_valid_is_no_reason_to_refuse(talk: Talk) -> None:
    wrong = {"traceparent": "00-zz", "tracestate": STATE}
    assert talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "1"}]}, **wrong).status == 201
    assert talk("POST", "/messages/q", "2", **wrong).status == 201
    assert talk("POST", "/queue/1/e/send", '"3"', content_type="application/json", **wrong).status == 200
    assert claimed(talk) + claimed(talk, "e") == [{}, {}, {}]


def test_it_is_left_out_where_the_attributes_have_no_room_for_it(talk: Talk) -> None:
    full = {"a": "x" * ((1 << 20) - 20)}
    messages = [{"body": "1", "attributes": full}, {"body": "2"}]
    assert talk("POST", "/v1/queues/q/messages", {"messages": messages}, **SENT).status == 201
    assert claimed(talk) == [full, SENT]


def test_an_attribute_of_the_message_is_not_replaced(talk: Talk) -> None:
    messages = [{"body": "1", "attributes": {"tracestate": "mine"}}]
    assert talk("POST", "/v1/queues/q/messages", {"messages": messages}, **SENT).status == 201
    assert claimed(talk) == [{"traceparent": PARENT, "tracestate": "mine"}]


def test_sqs_keeps_an_attribute_of_that_name_as_it_was_sent(talk: Talk) -> None:
    own = {"tracestate": {"DataType": "Number", "StringValue": "7"}}
    sqs(talk, "SendMessage", {"MessageBody": "1", "MessageAttributes": own}, **SENT)
    received = sqs(talk, "ReceiveMessage", {"MessageAttributeNames": ["All"]})
    assert received["Messages"][0]["MessageAttributes"]["tracestate"] == own["tracestate"]  # type: ignore[index]


def test_mqs_hands_it_back_as_headers(talk: Talk) -> None:
    sent = talk("POST", "/messages/q", "hello", **SENT, X_TRACE_ID="t1", content_encoding="gzip")
    assert sent.status == 201
    got = talk("GET", "/messages/q")
    assert (got.headers["traceparent"], got.headers["tracestate"]) == (PARENT, STATE)
    assert (got.headers["x-trace-id"], got.headers["content-encoding"]) == ("t1", "gzip")
    talk("POST", "/messages/q", "plain")
    plain = talk("GET", "/messages/q")
    assert plain.headers["traceparent"] is plain.headers["tracestate"] is None


def test_each_part_of_mqs_has_its_own_or_that_of_the_request(talk: Talk) -> None:
    body = f"--b\r\ntraceparent: {OTHER}\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b--\r\n"
    assert talk("POST", "/messages/q", body, content_type="multipart/mixed; boundary=b", **SENT).status == 201
    assert claimed(talk) == [{"traceparent": OTHER}, SENT]


def test_emodb_keeps_it_for_others_to_see(talk: Talk) -> None:
    kind = {"content_type": "application/json"}
    assert talk("POST", "/queue/1/e/send", '"1"', **kind, **SENT).status == 200
    assert talk("POST", "/queue/1/e/sendbatch", '["2"]', **kind, **SENT).status == 200
    assert talk("POST", "/queue/1/_sendbatch", '{"e": ["3"]}', **kind, **SENT).status == 200
    assert [message["payload"] for message in talk("GET", "/queue/1/e/peek?limit=5").json] == ["1", "2", "3"]
    assert claimed(talk, "e") == [SENT] * 3


def sqs(talk: Talk, operation: str, asked: dict[str, object], **headers: str) -> dict[str, object]:
    headers |= {"X_Amz_Target": f"AmazonSQS.{operation}", "content_type": "application/x-amz-json-1.0"}
    reply = talk("POST", "/", json.dumps({"QueueUrl": f"{talk.url}/000000000000/q", **asked}), **headers)
    assert reply.status == 200, reply.body
    return reply.json


def test_sqs_hands_it_back_as_a_message_attribute(talk: Talk) -> None:
    own = {"traceparent": {"DataType": "String", "StringValue": OTHER}}
    plain = sqs(talk, "SendMessage", {"MessageBody": "1"}, **SENT)
    assert "MD5OfMessageAttributes" not in plain
    entries = [{"Id": "a", "MessageBody": "2"}, {"Id": "b", "MessageBody": "3", "MessageAttributes": own}]
    sqs(talk, "SendMessageBatch", {"Entries": entries}, **SENT)
    asked = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
    got = sqs(talk, "ReceiveMessage", asked)["Messages"]
    values = [{name: value["StringValue"] for name, value in one["MessageAttributes"].items()} for one in got]
    assert values == [SENT, SENT, {"traceparent": OTHER}]


def test_sqs_shows_it_only_to_those_who_ask(talk: Talk) -> None:
    sqs(talk, "SendMessage", {"MessageBody": "1"}, **SENT)
    [got] = sqs(talk, "ReceiveMessage", {"MessageAttributeNames": ["other"]})["Messages"]
    assert "MessageAttributes" not in got


def test_the_client_sends_it_as_an_attribute(talk: Talk) -> None:
    with Client(talk.url) as client:
        client.send("q", "1", attributes={"traceparent": PARENT})
        talk("POST", "/messages/q", "2", **SENT)
        mine, others = client.claim("q", 2)
        assert (mine.attributes, others.attributes) == ({"traceparent": PARENT}, SENT)
