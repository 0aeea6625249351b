"""Headers that come again are looked up; nothing else may be different for it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.edge.header_blocks import HeaderBlocks
from tests.edge.wire import Served, post

PLAIN = post("/now", b"hello", "Content-Type: text/plain")
TIMES = 3


def taught() -> Served:
    """A connection that has learnt the headers of `PLAIN`."""
    served = Served()
    for _ in range(TIMES):
        served.receive(PLAIN)
    assert len(served.connections.blocks.known) == 1
    served.wire.written = b""
    return served


def answered(served: Served, *pieces: bytes) -> tuple[bytes, bool]:
    for piece in pieces:
        served.receive(piece)
    served.answer_all()
    closed = served.wire.closed
    return served.end(), closed


def changed(position: int, removed: int, inserted: bytes) -> bytes:
    position %= len(PLAIN) + 1
    return PLAIN[:position] + inserted + PLAIN[position + removed :]


# What a change may put in: what HTTP gives a meaning to, and any byte.
SIGNS = [b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b":", b"\0", b"\xff", b"#", b"%", b"0", b"/later", b"HTTP/1.0"]
LINES = [b"Host: y\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n"]
PARTS = st.sampled_from([*SIGNS, *LINES]) | st.binary(min_size=1, max_size=3)


@given(st.integers(0, len(PLAIN)), st.integers(0, 4), PARTS | st.just(b""), st.booleans())
@example(0, 0, b"\r\n", False)
@example(0, 4, b"HEAD", False)
@example(0, PLAIN.index(b"\r\n") - 3, b"", False)  # a line that is shorter than a version
@example(0, 4, b"CONNECT", False)
@example(PLAIN.index(b"hello"), 1, b"", True)
@example(len(PLAIN), 0, b"more", True)
def test_a_taught_connection_answers_as_a_new_one(position, removed, inserted, followed):
    """Any request that is nearly like the one whose headers are known, alone or with another one behind it."""
    data = changed(position, removed, inserted)
    pieces = (data + PLAIN,) if followed else (data,)
    assert answered(taught(), *pieces) == answered(Served(), *pieces)


@given(st.integers(1, len(PLAIN) - 1))
def test_a_request_in_two_pieces_is_parsed_as_ever(cut):
    assert answered(taught(), PLAIN[:cut], PLAIN[cut:]) == answered(Served(), PLAIN)


def test_the_same_headers_serve_other_targets():
    served = taught()
    served.receive(PLAIN.replace(b"/now", b"/now?a=1"))
    served.receive(PLAIN.replace(b"/now", b"/nowhere"))
    written = served.end()
    assert (written.count(b"HTTP/1.1 200 "), written.count(b"HTTP/1.1 404 ")) == (1, 1)


def test_a_handler_that_takes_its_time_holds_the_next_request_back():
    served = taught()
    later = PLAIN.replace(b"/now", b"/later")
    served.receive(later)
    served.receive(PLAIN)
    assert served.wire.written == b""
    assert served.end().count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize(
    "head",
    [
        "Connection: close",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Accept: a\r\nAccept: b",
        "X-Long: " + "x" * 2_048,
    ],
)
def test_what_is_not_plain_is_not_learnt(head):
    served = Served()
    for _ in range(TIMES):
        served.receive(post("/now", b"hello", head))
    assert served.connections.blocks.known == {}
    served.end()


def test_chunked_bodies_are_not_learnt():
    served = Served()
    for _ in range(TIMES):
        served.receive(b"POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
    assert served.connections.blocks.known == {}
    assert served.end().count(b"HTTP/1.1 200 ") == TIMES


def test_an_old_version_is_not_learnt():
    served = Served()
    for _ in range(TIMES):
        served.receive(PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Host", b"Connection: keep-alive\r\nHost"))
    assert served.connections.blocks.known == {}
    served.end()


def test_a_listener_that_stops_closes_after_the_next_answer():
    served = taught()
    served.connections.persist = b"Connection: close\r\n"
    served.receive(PLAIN)
    assert b"Connection: close" in served.end()


def test_what_comes_once_is_not_kept_and_what_is_kept_is_bounded():
    blocks = HeaderBlocks()
    for number in range(5_000):
        data = b"GET / HTTP/1.1\r\nHost: %d\r\n\r\n" % number
        blocks.learn(data, {b"host": b"%d" % number}, 0)
        assert blocks.known.get(data[14:-4]) is None
        blocks.learn(data, {b"host": b"%d" % number}, 0)
        assert data[14:-4] in blocks.known
        assert len(blocks.known) <= 1_024


def test_headers_that_do_not_fit_their_block_are_not_kept():
    blocks = HeaderBlocks()
    for _ in range(TIMES):
        blocks.learn(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", {b"host": b"a", b"accept": b"b"}, 0)
        blocks.learn(b"\r\nHost: a\r\n\r\n", {b"host": b"a"}, 0)
        blocks.learn(b"GET / HTTP/1.1\r\nHost: a", {b"host": b"a"}, 0)
    assert blocks.known == {}
