"""A message sent through one API and claimed through another."""

from __future__ import annotations

import base64
import socket
from urllib.parse import urlsplit

import pytest

from tests.faces.native.conftest import Native
from tests.servers import ThreadServer


def test_from_mqs_to_native(native: Native) -> None:
    native.talk(
        "POST", "/messages/q", b"\xff\0", content_type="image/x-own; a=1", content_encoding="gzip", x_trace_id="t-1"
    )
    [message] = native.claim()
    assert base64.b64decode(message["body_base64"]) == b"\xff\0"
    assert message["content_type"] == "image/x-own; a=1"
    assert message["attributes"] == {"content_encoding": "gzip", "trace_id": "t-1"}
    assert native.done("ack", message["receipt"]) == [True]
    assert native.talk("GET", "/messages/q").status == 204


def test_from_native_to_mqs(native: Native) -> None:
    attributes = {"content_encoding": "gzip", "trace_id": "t-2", "other": "kept inside"}
    [sent] = native.send({"body": "é", "content_type": "text/x-own", "attributes": attributes})
    reply = native.talk("GET", "/messages/q")
    assert reply.body == "é".encode()
    assert reply.headers["X-MQS-MESSAGE-ID"] == sent["id"]
    assert reply.headers["Content-Type"] == "text/x-own"
    assert reply.headers["Content-Encoding"] == "gzip"
    assert reply.headers["X-TRACE-ID"] == "t-2"
    assert "other" not in str(reply.headers).lower()
    assert native.talk("DELETE", f"/messages/{sent['id']}").status == 204
    assert native.count()["total"] == 0


def test_a_message_without_a_type_has_mqs_default(native: Native) -> None:
    native.send("x", {"body": "y", "content_type": ""})
    for _ in range(2):
        assert native.talk("GET", "/messages/q").headers["Content-Type"] == "application/octet-stream"


def test_a_queue_of_mqs_is_a_queue_of_ours(native: Native) -> None:
    native.talk(
        "PUT",
        "/queues/theirs",
        {"retention_timeout": 600, "visibility_timeout": 3, "message_deduplication": True, "message_delay": 2},
    )
    settings = native.talk("GET", "/v1/queues/theirs").json["settings"]
    assert (settings["retention_ms"], settings["visibility_ms"], settings["delay_ms"]) == (600_000, 3_000, 2_000)
    assert settings["dedup"] == "send"


HOSTILE = [
    "a\r\nX-Evil: 1",
    "a\nX-Evil: 1",
    "a\rX-Evil: 1",
    "a\r\n\r\nHTTP/1.1 200 OK",
    "\0",
    "\x7f",
    "a\x0bb\x0cc\x1cd\x1de\x1ef",
    "\x85\u2028\u2029",
    "日本語 🐟",
    "é\u00a0\u00ad",
    "\U0010ffff\ufffe",
    " padded ",
    "\t",
    "x" * 30_000,
]


def raw_receive(server: ThreadServer, limit: int) -> tuple[bytes, bytes]:
    """Head and body of a receive, as they came over the wire."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(
            b"GET /messages/q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-MQS-MAX-MESSAGES: %d\r\n\r\n"
            % limit
        )
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def check_head(head: bytes) -> dict[bytes, bytes]:
    """The headers, none of them forged and none with a sign that ends a line."""
    lines = head.split(b"\r\n")
    assert not any(sign in line for line in lines for sign in (b"\r", b"\n", b"\0"))
    headers = dict(line.split(b": ", 1) for line in lines if b": " in line)
    assert b"X-Evil" not in headers
    return headers


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:30]))
@pytest.mark.parametrize("name", ["content_encoding", "trace_id"])
def test_no_attribute_breaks_or_forges_an_answer_of_mqs(
    server: ThreadServer, native: Native, name: str, text: str
) -> None:
    native.send({"body": "first", "attributes": {name: text}}, {"body": "second"})
    head, body = raw_receive(server, 1)
    assert head.startswith(b"HTTP/1.1 200 ")
    headers = check_head(head)
    assert headers[b"Content-Length"] == b"5"
    assert body == b"first"


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:30]))
def test_no_attribute_breaks_or_forges_a_part_of_mqs(server: ThreadServer, native: Native, text: str) -> None:
    native.send(
        {"body": "first", "attributes": {"content_encoding": text, "trace_id": text}},
        {"body": "second", "attributes": {"trace_id": text}},
    )
    head, body = raw_receive(server, 9)
    boundary = check_head(head)[b"Content-Type"].partition(b"boundary=")[2]
    _, first, second, rest = body.split(b"--" + boundary)
    assert rest == b"--\r\n"
    for part, expected in ((first, b"first"), (second, b"second")):
        part_head, _, part_body = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        assert part_body == expected + b"\r\n"
        assert b"X-MQS-MESSAGE-ID" in check_head(part_head)


@pytest.mark.parametrize("text", ["日本語", "text/plain; name=é", "a" * 255, "🐟" * 255, " ", ";;;"])
def test_a_type_that_is_taken_never_breaks_an_answer_of_mqs(server: ThreadServer, native: Native, text: str) -> None:
    native.send({"body": "first", "content_type": text})
    head, body = raw_receive(server, 1)
    assert head.startswith(b"HTTP/1.1 200 ")
    check_head(head)
    assert body == b"first"


def test_a_header_of_mqs_comes_back_byte_for_byte(native: Native) -> None:
    """Headers are bytes on the wire; UTF-8 in them must survive the way through."""
    value = 'text/x; name="à Š 日本"'
    native.talk("POST", "/messages/q", b"x", content_type=value.encode().decode("latin-1"))
    assert native.talk("GET", "/messages/q").headers["Content-Type"].encode("latin-1") == value.encode()
