"""Several messages in one request or answer."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidRequest
from penstock.faces.mqs.multipart import boundary_of, decode, encode
from tests.talk import Reply, Talk


def parts_of(reply: Reply) -> list:
    """As a MIME library that is not ours reads it."""
    head = f"Content-Type: {reply.headers['Content-Type']}\r\n\r\n".encode()
    return list(BytesParser(policy=HTTP).parsebytes(head + reply.body).iter_parts())


def test_several_messages_are_received_as_multipart_mixed(talk: Talk, queue: str) -> None:
    for number in range(5):
        talk("POST", "/messages/q", f"body {number}", content_type="text/plain")
    reply = talk("GET", "/messages/q", x_mqs_max_messages="3")
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("multipart/mixed; boundary=")
    parts = parts_of(reply)
    assert [part.get_content() for part in parts] == ["body 0", "body 1", "body 2"]
    for part in parts:
        assert part["Content-Type"] == "text/plain"
        assert part["X-MQS-MESSAGE-RECEIVES"] == "1"
        assert part["X-MQS-MESSAGE-PUBLISHED-AT"]
        assert talk("DELETE", f"/messages/{part['X-MQS-MESSAGE-ID']}").status == 204
    assert len(parts_of(talk("GET", "/messages/q", x_mqs_max_messages="999"))) == 2


def test_exactly_one_message_is_a_plain_body(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"alone", content_type="text/plain")
    reply = talk("GET", "/messages/q", x_mqs_max_messages="10")
    assert (reply.body, reply.headers["Content-Type"]) == (b"alone", "text/plain")
    assert talk("GET", "/messages/q", x_mqs_max_messages="10").status == 204


def test_several_messages_are_published_at_once(talk: Talk, queue: str) -> None:
    body = (
        b"ignored\r\n--b\r\nContent-Type: text/plain\r\nContent-Encoding: br\r\n\r\nfirst\r\n"
        b"--b\r\n\r\n\r\n\0\xff\r\n\r\n--b--ignored"
    )
    reply = talk("POST", "/messages/q", body, content_type='multipart/mixed; boundary="b"')
    assert reply.status == 201
    first, second = talk("GET", "/messages/q"), talk("GET", "/messages/q")
    assert (first.body, first.headers["Content-Type"], first.headers["Content-Encoding"]) == (
        b"first",
        "text/plain",
        "br",
    )
    assert (second.body, second.headers["Content-Type"]) == (b"\r\n\0\xff\r\n", "application/octet-stream")


def test_multipart_publish_and_dedup(talk: Talk) -> None:
    talk(
        "PUT",
        "/queues/once",
        {"retention_timeout": 900, "visibility_timeout": 900, "message_deduplication": True},
    )

    def publish(*bodies: bytes) -> int:
        body = encode([((), body) for body in bodies], b"b")
        return talk("POST", "/messages/once", body, content_type="multipart/mixed; boundary=b").status

    assert publish(b"a", b"a", b"b") == 201
    assert talk("GET", "/queues/once").json["status"]["messages"] == 2
    assert publish(b"a", b"b") == 200
    assert publish(b"a", b"c") == 201


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--b--",
        b"--b\r\n\r\nno end",
        b"--b\r\nno blank line\r\n--b--",
        b"--bogus\r\n\r\nx\r\n--b--\r\n",
        b"--b junk\r\n\r\nx\r\n--b--",
        b"--b\r\nbad header\r\n\r\nx\r\n--b--",
        b"--b\r\nX: a\nb\r\n\r\nx\r\n--b--",
    ],
)
def test_a_broken_multipart_answers_400_and_stores_nothing(talk: Talk, queue: str, body: bytes) -> None:
    reply = talk("POST", "/messages/q", body, content_type="multipart/mixed; boundary=b")
    assert reply.status == 400
    assert "multipart" in reply.json["error"]
    assert talk("GET", "/queues/q").json["status"]["messages"] == 0


def test_the_parts_together_may_be_longer_than_one_message(talk: Talk, queue: str) -> None:
    bodies = [bytes([65 + number]) * 800_000 for number in range(3)] + [b"z" * (1024 * 1024 + 5)]
    body = encode([((), body) for body in bodies], b"b")
    reply = talk("POST", "/messages/q", body, content_type="multipart/mixed; boundary=b")
    assert reply.status == 201
    assert reply.headers["X-MQS-MESSAGE-TRUNCATED"]
    assert [talk("GET", "/messages/q").body for _ in range(4)] == [*bodies[:3], b"z" * 1024 * 1024]


def test_a_multipart_body_past_its_limit_answers_413(talk: Talk, queue: str) -> None:
    body = encode([((), b"x" * 1024 * 1024)] * 17, b"b")
    assert talk("POST", "/messages/q", body, content_type="multipart/mixed; boundary=b").status == 413


def test_other_multipart_types_are_plain_messages(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"--b--", content_type="multipart/form-data; boundary=b")
    assert talk("GET", "/messages/q").body == b"--b--"


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_what_is_encoded_is_decoded(bodies: list[bytes]) -> None:
    boundary = b"0123456789abcdef0123456789abcdef"
    encoded = encode([(((b"Content-Type", b"a/b"),), body) for body in bodies], boundary)
    assert decode(encoded, boundary, 10) == [({b"content-type": b"a/b"}, body) for body in bodies]


@given(st.binary(max_size=200))
def test_decoding_never_fails_in_another_way(body: bytes) -> None:
    with suppress(InvalidRequest):
        decode(b"--b\r\n" + body, b"b", 10)


def test_more_parts_than_the_limit_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="at most 3"):
        decode(encode([((), b"")] * 4, b"b"), b"b", 3)
    assert len(decode(encode([((), b"")] * 3, b"b") + b"\r\n--b" * 9, b"b", 3)) == 3


def test_no_more_boundaries_are_looked_for_than_there_may_be_parts() -> None:
    """Every one would cost an object of its own: three million, in a body as long as the server takes."""
    body = b"--b\r\n\r\n\r\n" * 3 + b"--b\r\n" * 3_000_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="at most 3"):
            decode(body, b"b", 3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(body)


BLANKS = b" " * (8 * 1024 * 1024)


@pytest.mark.parametrize(
    "head",
    [
        b"X: a" + BLANKS + b"b",
        b"X:" + BLANKS + b"b",
        b"X: " + b"a \t" * 1_000_000,
        b"X: a\r\n" + BLANKS + b"b",
        b"X" * 8193 + b": b",
        BLANKS,
        b"a" * 8193,
    ],
    ids=["inside", "before", "many runs", "folded", "name", "only blanks", "no header"],
)
def test_the_head_of_a_part_has_a_length(head: bytes) -> None:
    """Hours of work, were the effort to grow with the square of a run of blanks."""
    with pytest.raises(InvalidRequest, match="at most 8192 bytes"):
        decode(b"--b\r\n" + head + b"\r\n\r\nbody\r\n--b--", b"b", 10)


def test_a_head_may_be_as_long_as_it_may_be() -> None:
    value = b"a" + b" " * 8187 + b"b"
    assert decode(b"--b\r\nX: " + value + b"\r\n\r\nbody\r\n--b--", b"b", 1) == [({b"x": value}, b"body")]


def test_a_part_has_a_hundred_headers_at_most() -> None:
    def part(count: int) -> bytes:
        return encode([(tuple((b"X-%d" % number, b"v") for number in range(count)), b"body")], b"b")

    [(headers, body)] = decode(part(100), b"b", 1)
    assert (len(headers), body) == (100, b"body")
    with pytest.raises(InvalidRequest, match="at most 100 headers"):
        decode(part(101), b"b", 1)


@pytest.mark.parametrize("blanks", [b" ", b"\t \t", b" \r\n "])
def test_a_line_of_blanks_is_not_a_header(blanks: bytes) -> None:
    assert decode(b"--b  \r\n" + blanks + b"\r\n\r\nbody\r\n--b--", b"b", 1) == [({}, b"body")]
    with_header = b"--b\r\nX: y \r\n" + blanks + b"\r\nZ:z\r\n\r\nbody\r\n--b--"
    assert decode(with_header, b"b", 1) == [({b"x": b"y", b"z": b"z"}, b"body")]


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/mixed; boundary=abc", b"abc"),
        ('multipart/mixed; boundary="a b"', b"a b"),
        ("Multipart/Mixed; charset=x; BOUNDARY=abc", b"abc"),
        ("multipart/mixed", None),
        ("multipart/mixed; boundary=", None),
        ("multipart/alternative; boundary=abc", None),
        ("text/plain; boundary=abc", None),
    ],
)
def test_boundary_of(content_type: str, boundary: bytes | None) -> None:
    assert boundary_of(content_type) == boundary
