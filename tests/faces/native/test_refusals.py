"""What `/v1` refuses, and that nothing has happened when it does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import limits
from tests.faces.native.conftest import Native
from tests.talk import Talk

MEGABYTE = 1024 * 1024
RECEIPT = "0199a8c2-51f4-7abc-9def-00000000002a.1"

BAD: list[tuple[str, Any]] = [
    ("messages", {}),
    ("messages", {"messages": []}),
    ("messages", {"messages": {}}),
    ("messages", {"messages": ["x"]}),
    ("messages", {"messages": [{}]}),
    ("messages", {"messages": [{"body": "x", "body_base64": "eA=="}]}),
    ("messages", {"messages": [{"body": None}]}),
    ("messages", {"messages": [{"body": 1}]}),
    ("messages", {"messages": [{"body": {"a": 1}}]}),
    ("messages", {"messages": [{"body_base64": "eA="}]}),
    ("messages", {"messages": [{"body_base64": "e A=="}]}),
    ("messages", {"messages": [{"body_base64": "é==="}]}),
    ("messages", {"messages": [{"body_base64": "_-8="}]}),
    ("messages", {"messages": [{"body": "x", "content_type": 1}]}),
    ("messages", {"messages": [{"body": "x", "content_type": "a\r\nX-Evil: 1"}]}),
    ("messages", {"messages": [{"body": "x", "content_type": "a" * 256}]}),
    ("messages", {"messages": [{"body": "x", "attributes": {"a": 1}}]}),
    ("messages", {"messages": [{"body": "x", "attributes": {"a": None}}]}),
    ("messages", {"messages": [{"body": "x", "attributes": []}]}),
    ("messages", {"messages": [{"body": "x", "delay_ms": -1}]}),
    ("messages", {"messages": [{"body": "x", "delay_ms": limits.DURATION_MS + 1}]}),
    ("messages", {"messages": [{"body": "x", "delay_ms": 1.5}]}),
    ("messages", {"messages": [{"body": "x", "delay_ms": "1"}]}),
    ("messages", {"messages": [{"body": "x", "group": ""}]}),
    ("messages", {"messages": [{"body": "x", "group": 1}]}),
    ("messages", {"messages": [{"body": "x", "group": "x" * (limits.GROUP_LENGTH + 1)}]}),
    ("messages", {"messages": [{"body": "x", "group": "a\0b"}]}),
    ("messages", {"messages": [{"body": "x", "group": "a\r\nb"}]}),
    ("messages", {"messages": [{"body": "x", "dedup_id": ""}]}),
    ("messages", {"messages": [{"body": "x", "dedup_id": ["a"]}]}),
    ("messages", {"messages": [{"body": "x", "dedup_id": "x" * (limits.DEDUP_ID_LENGTH + 1)}]}),
    ("messages", {"messages": [{"body": "x", "dedup_id": "a\u2028b"}]}),
    ("messages", {"messages": [{"body": "good"}, {"body": "x", "group": "x" * 100_000}]}),
    ("messages", {"messages": [{"body": "x", "unknown": 1}]}),
    ("messages", {"messages": [{"body": "x"}], "unknown": 1}),
    ("messages", {"messages": [{"body": "good"}, {"body": 1}]}),
    ("claim", {"limit": 0}),
    ("claim", {"limit": limits.BULK_LIMIT + 1}),
    ("claim", {"limit": -1}),
    ("claim", {"limit": "1"}),
    ("claim", {"limit": 1.0}),
    ("claim", {"limit": True}),
    ("claim", {"limit": None}),
    ("claim", {"limit": 10**30}),
    ("claim", {"hold_ms": -1}),
    ("claim", {"hold_ms": limits.DURATION_MS + 1}),
    ("claim", {"wait_ms": -1}),
    ("claim", {"wait_ms": limits.WAIT_MS + 1}),
    ("claim", {"wait_ms": None}),
    ("claim", {"attempt": ""}),
    ("claim", {"attempt": 1}),
    ("claim", {"attempt": "x" * (limits.ATTEMPT_LENGTH + 1)}),
    ("claim", {"attempt": "a\0b"}),
    ("claim", {"attempt": "\x7f"}),
    ("claim", {"unknown": 1}),
    ("claim", []),
]
BAD += [("release", {"receipts": [RECEIPT], "delay_ms": delay}) for delay in (-1, limits.DURATION_MS + 1, "1", 1.5)]
for verb in ("ack", "release", "renew"):
    more = {"hold_ms": 1} if verb == "renew" else {}
    BAD += [
        (verb, {**more}),
        (verb, {**more, "receipts": []}),
        (verb, {**more, "receipts": "x"}),
        (verb, {**more, "receipts": [1]}),
        (verb, {**more, "receipts": [RECEIPT, RECEIPT + "x"]}),
        (verb, {**more, "receipts": [RECEIPT + ".1"]}),
        (verb, {**more, "receipts": [RECEIPT[:-1]]}),
        (verb, {**more, "receipts": [RECEIPT[:-1] + "-1"]}),
        (verb, {**more, "receipts": [RECEIPT[:-1] + "٣"]}),
        (verb, {**more, "receipts": [RECEIPT + "9" * 18]}),
        (verb, {**more, "receipts": [RECEIPT] * (limits.ACK_LIMIT + 1)}),
        (verb, {**more, "receipts": [RECEIPT], "unknown": 1}),
    ]
BAD += [
    ("renew", {"receipts": [RECEIPT]}),
    ("renew", {"receipts": [RECEIPT], "hold_ms": -1}),
    ("renew", {"receipts": [RECEIPT], "hold_ms": limits.DURATION_MS + 1}),
    ("renew", {"receipts": [RECEIPT], "hold_ms": None}),
]


@pytest.mark.parametrize(("verb", "body"), BAD, ids=lambda value: str(value)[:70])
def test_what_does_not_fit_is_refused_and_says_why(native: Native, verb: str, body: Any) -> None:
    reply = native.talk("POST", f"/v1/queues/q/{verb}", body)
    assert reply.status == 400, reply.body
    assert list(reply.json) == ["error"]
    assert reply.json["error"]
    assert native.count()["total"] == 0


NOT_JSON = [
    b"{",
    b"nonsense",
    b"{}{}",
    b"\xff\xfe",
    b'{"messages": [{"body": "\xff"}]}',
    b'{"messages": [{"body": "\\ud800"}]}',
    b'{"messages": [{"body": "x", "attributes": {"k": "\\udfff"}}]}',
    b"\xef\xbb\xbf{}",
    b"null",
    b"1",
    b"{'limit': 1}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"messages": [{"attributes": ' + b'{"a":' * 50_000 + b"}" * 50_000 + b"}]}",
    b'{"limit": ' + b"9" * 50_000 + b"}",
    b'{"limit": 1e999}',
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:40]))
@pytest.mark.parametrize("verb", ["messages", "claim", "ack", "renew", "release"])
def test_what_is_not_json_of_the_right_shape_is_refused(native: Native, verb: str, body: bytes) -> None:
    reply = native.talk("POST", f"/v1/queues/q/{verb}", body)
    assert reply.status == 400, reply.body
    assert json.loads(reply.body)["error"]


@pytest.mark.parametrize("body", NOT_JSON[:-2], ids=lambda body: repr(body[:40]))
def test_settings_that_are_not_json_of_the_right_shape_are_refused(native: Native, body: bytes) -> None:
    for method, path in (("PUT", "/v1/queues/new"), ("PATCH", "/v1/queues/q")):
        assert native.talk(method, path, body[:60_000]).status == 400


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"delay_ms": 1}),
        ("DELETE", "", None),
        ("POST", "/messages", {"messages": [{"body": "x"}]}),
        ("GET", "/messages", None),
        ("POST", "/claim", {}),
        ("POST", "/claim", {"wait_ms": 60_000}),
        ("POST", "/purge", None),
    ],
)
def test_an_unknown_queue_answers_404(talk: Talk, method: str, path: str, body: Any) -> None:
    reply = talk(method, f"/v1/queues/nowhere{path}", body)
    assert reply.status == 404
    assert reply.json == {"error": "queue 'nowhere' does not exist"}


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/queues/", "/v1/queues/q/", "/v1/queues/q/nope", "/v1/queues/q/claim/x", "/v1/queues//claim"],
)
def test_an_unknown_path_answers_404(native: Native, path: str) -> None:
    for method in ("GET", "POST"):
        assert native.talk(method, path, None if method == "GET" else {}).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/queues", {"GET", "HEAD"}),
        ("POST", "/v1/queues/q", {"DELETE", "GET", "HEAD", "PATCH", "PUT"}),
        ("DELETE", "/v1/queues/q/messages", {"GET", "HEAD", "POST"}),
        ("GET", "/v1/queues/q/claim", {"POST"}),
        ("HEAD", "/v1/queues/q/claim", {"POST"}),
        ("DELETE", "/v1/queues/q/ack", {"POST"}),
        ("PUT", "/v1/queues/q/renew", {"POST"}),
        ("GET", "/v1/queues/q/release", {"POST"}),
        ("GET", "/v1/queues/q/purge", {"POST"}),
    ],
)
def test_another_method_answers_405_and_changes_nothing(
    native: Native, method: str, path: str, allowed: set[str]
) -> None:
    native.send("x")
    reply = native.talk(method, path)
    assert reply.status == 405
    assert set(reply.headers["Allow"].split(", ")) == allowed
    assert native.count()["ready"] == 1


# Sizes


def test_a_body_past_its_limit_answers_413_and_nothing_of_the_batch_is_stored(native: Native) -> None:
    for body in ({"body": "x" * (MEGABYTE + 1)}, {"body": "é" * (MEGABYTE // 2) + "x"}):
        reply = native.talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "small"}, body]})
        assert reply.status == 413
        assert str(MEGABYTE) in reply.json["error"]
    assert native.count()["total"] == 0


def test_attributes_past_their_limit_answer_413(native: Native) -> None:
    largest = {"k": "x" * (limits.ATTRIBUTES_BYTES - len('{"k":""}'))}
    native.send({"body": "x", "attributes": largest})
    assert native.claim()[0]["attributes"] == largest
    reply = native.talk(
        "POST", "/v1/queues/q/messages", {"messages": [{"body": "x", "attributes": {"k": largest["k"] + "x"}}]}
    )
    assert reply.status == 413


def test_more_messages_than_a_send_takes_are_refused(native: Native) -> None:
    messages = [{"body": ""}] * (limits.SEND_LIMIT + 1)
    reply = native.talk("POST", "/v1/queues/q/messages", {"messages": messages})
    assert reply.status == 400
    assert native.count()["total"] == 0
    native.send(*messages[1:])
    assert native.count()["total"] == limits.SEND_LIMIT


@pytest.mark.parametrize(
    ("verb", "limit"), [("messages", 16 * MEGABYTE), ("claim", MEGABYTE), ("ack", MEGABYTE), ("purge", MEGABYTE)]
)
def test_a_request_past_its_limit_answers_413(native: Native, verb: str, limit: int) -> None:
    reply = native.talk("POST", f"/v1/queues/q/{verb}", b" " * (limit + 1))
    assert reply.status == 413
    assert reply.json["error"]


def test_as_many_receipts_as_an_ack_takes_fit_into_its_body(native: Native) -> None:
    assert native.done("ack", *([RECEIPT] * limits.ACK_LIMIT)) == [False] * limits.ACK_LIMIT
