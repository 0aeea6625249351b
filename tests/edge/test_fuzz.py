"""Bytes in any pieces mean the same, and no bytes at all bring the server down."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edge.wire import Served

STREAM = b"".join(
    (
        b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world",
        b"POST /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"5\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n",
        b"POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n12345678",
        b"POST /later HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n",
        b"Content-Length: 4\r\n\r\nbody",
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
        b"POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
        b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"z" * 5000,
        b"GET /now HTTP/1.0\r\n\r\n",
    )
)


def answers(pieces: list[tuple[bytes, bool]]) -> bytes:
    served = Served()
    for piece, settle in pieces:
        served.receive(piece)
        if settle:
            served.answer_all()
    return served.end()


WHOLE = answers([(STREAM, False)])


def test_the_stream_is_answered():
    assert WHOLE.count(b"HTTP/1.1 200 OK") == 8
    assert WHOLE.count(b"HTTP/1.1 404") == 1


def test_byte_by_byte():
    assert answers([(STREAM[at : at + 1], False) for at in range(len(STREAM))]) == WHOLE
    assert answers([(STREAM[at : at + 1], True) for at in range(len(STREAM))]) == WHOLE


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(STREAM)), st.booleans()), max_size=12))
def test_any_split_gives_the_same_answers(cuts: list[tuple[int, bool]]):
    places = sorted(cuts)
    pieces, start = [], 0
    for place, settle in [*places, (len(STREAM), False)]:
        pieces.append((STREAM[start:place], settle))
        start = place
    assert answers(pieces) == WHOLE


WORDS = st.sampled_from(
    (
        *(b"GET ", b"POST ", b"CONNECT ", b"HEAD ", b"/now", b"/later", b"/cut", b" HTTP/1.1", b"HTTP/1.0"),
        *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b":", b" ", b"abc", b"\0", b"%", b"Host: x"),
        *(b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Upgrade: h2c"),
        *(b"Connection: upgrade", b"Connection: close", b"0\r\n\r\n", b"3\r\nabc\r\n"),
        *(b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /later HTTP/1.1\r\nHost: x\r\n"),
    )
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS | st.binary(max_size=20), max_size=30), st.sets(st.integers(0, 30)))
def test_any_bytes_leave_the_connection_answered_or_waiting(words: list[bytes], settled: set[int]):
    served = Served()
    for number, word in enumerate(words):
        served.receive(word)
        if number in settled:
            served.answer_all()
    served.answer_all()
    # Whatever came, a deadline can end it: nothing stays forever.
    for _ in range(4):
        if not served.wire.closed:
            served.connection.expire()
    assert served.wire.closed
    served.end()


async def test_a_real_socket_takes_any_bytes_too(edge):
    await edge.start()
    for number in range(60):
        client = await edge.connect()
        noise = STREAM[number * 3 :][:200] + bytes((number * 37 + at * at) % 256 for at in range(100))
        client.send(noise)
        client.writer.write_eof()
        await client.rest()
        await client.close()
    await edge.gone()
    assert (await (await edge.connect()).ask(edge.get())).status == 200
