"""Messages that other APIs have sent, polled through EmoDB, and the other way round: always valid JSON."""

from __future__ import annotations

import base64
import json

import pytest

from tests.faces.emodb.conftest import Emo
from tests.faces.mqs.conftest import PLAIN
from tests.talk import Talk


@pytest.fixture
def queue(talk: Talk) -> str:
    assert talk("PUT", "/queues/q", PLAIN).status == 201
    return "q"


@pytest.mark.parametrize(
    ("content_type", "body", "payload"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/json; charset=utf-8", b"[1]", [1]),
        ("application/vnd.api+json", b'"x"', "x"),
        ("text/plain", b"hello", "hello"),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/plain", 'é "\\ \n'.encode(), 'é "\\ \n'),
        ("application/octet-stream", b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        ("application/octet-stream", b"", ""),
        ("application/json", b"", ""),
        ("application/json", b'{"a": ', '{"a": '),
        ("application/json", b'1}, {"id": "forged", "payload": 2', '1}, {"id": "forged", "payload": 2'),
        ("application/json", b'"\xff"', base64.b64encode(b'"\xff"').decode()),
        ("application/json", b"[" * 900 + b"]" * 900, "[" * 900 + "]" * 900),
        ("application/json", b"[" * 5000 + b"]" * 5000, "[" * 5000 + "]" * 5000),
        ("application/x-ndjson", b"1\n2\n", "1\n2\n"),
    ],
)
def test_sent_through_mqs(plain: Emo, queue: str, content_type: str, body: bytes, payload: object) -> None:
    assert plain.talk("POST", "/messages/q", body, content_type=content_type).status == 201
    assert [message["payload"] for message in plain.peek("q")] == [payload]
    assert plain.payloads("q") == [payload]


def test_sent_through_the_native_api(plain: Emo, queue: str) -> None:
    messages = [
        {"body": "text"},
        {"body": '{"a":1}', "content_type": "application/json"},
        {"body_base64": base64.b64encode(b"\xfe").decode()},
        {"body": "\ud800", "content_type": "text/plain"},
    ]
    assert plain.talk("POST", "/v1/queues/q/messages", {"messages": messages}).status in (201, 400)
    plain.talk("POST", "/v1/queues/q/messages", {"messages": messages[:3]})
    payloads = plain.payloads("q")
    assert payloads[-3:] == ["text", {"a": 1}, base64.b64encode(b"\xfe").decode()]


def test_what_is_between_broken_messages_is_whole(plain: Emo, queue: str) -> None:
    for body in (b'["', b"1", b'"]', b"{", b"2", b"}"):
        plain.talk("POST", "/messages/q", body, content_type="application/json")
    assert plain.payloads("q") == ['["', 1, '"]', "{", 2, "}"]


def test_received_through_the_others(plain: Emo) -> None:
    plain.send("q", '{"b": 1, "a": 2}', "2")
    reply = plain.talk("GET", "/messages/q")
    assert (reply.body, reply.headers["Content-Type"]) == (b'{"b": 1, "a": 2}', "application/json")
    [message] = plain.talk("POST", "/v1/queues/q/claim", {}).json["messages"]
    assert (message["body"], message["content_type"]) == ("2", "application/json")
    plain.ack("q", [message, {"id": reply.headers["X-MQS-MESSAGE-ID"]}])
    assert plain.size("q") == 0


def test_an_mqs_queue_has_its_own_settings_through_emodb(plain: Emo) -> None:
    plain.talk("PUT", "/queues/once", {**PLAIN, "message_deduplication": True})
    plain.send("once", "1", "1")
    assert plain.size("once") == 1


def test_a_queue_made_by_a_first_send_is_an_ordinary_one(plain: Emo) -> None:
    plain.send("fresh", "1")
    described = plain.talk("GET", "/queues/fresh").json
    assert described["visibility_timeout"] == 30
    assert described["message_deduplication"] is False
    assert json.loads(plain.get("fresh/size").body) == 1


def test_the_queues_of_the_dedup_service_are_hidden_from_mqs(talk: Talk) -> None:
    talk("POST", "/dedupq/1/hidden/send", {"a": 1})
    assert talk("GET", "/v1/queues/dedupq%2Fhidden").status == 200
    for method, path in (
        ("GET", "/queues/dedupq%2Fhidden"),
        ("DELETE", "/queues/dedupq%2Fhidden"),
        ("POST", "/queues/dedupq%2Fhidden"),
        ("GET", "/messages/dedupq%2Fhidden"),
        ("POST", "/messages/dedupq%2Fhidden"),
    ):
        assert talk(method, path, b"{}" if method == "POST" else None).status == 404
    assert talk("PUT", "/queues/dedupq%2Fhidden", b"{}").status == 400
    assert talk("GET", "/dedupq/1/hidden/size").json == 1
