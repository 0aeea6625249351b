"""What an answer's headers become, whether they have been encoded before or not."""

from __future__ import annotations

import pytest

from penstock.edge.http import KEEP, Response, encode


def headers_of(*headers: tuple[bytes, bytes]) -> list[bytes]:
    head, _, body = encode(Response(200, b"abc", headers), KEEP, False).partition(b"\r\n\r\n")
    assert body == b"abc"
    # Behind the status, `Server` and `Date`, and before the length.
    return head.split(b"\r\n")[3:-1]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_headers_are_the_same_every_time(count: int):
    for value in (b"first", b"second"):
        headers = tuple((b"X-%d" % number, value) for number in range(count))
        for _ in range(3):
            assert headers_of(*headers) == [b"X-%d: %b" % (number, value) for number in range(count)]


def test_headers_that_differ_every_time_push_out_none():
    for number in range(2_000):
        assert headers_of((b"X-Id", b"%d" % number)) == [b"X-Id: %d" % number]
    for _ in range(3):
        assert headers_of((b"X-Same", b"1")) == [b"X-Same: 1"]


@pytest.mark.parametrize("count", [1, 2, 9])
def test_headers_of_one_answer_alone_look_the_same(count: int):
    headers = [(b"X-%d" % number, b"once") for number in range(count)]
    again, once = Response(200, b"abc", tuple(headers)), Response(200, b"abc", headers)
    assert encode(once, KEEP, False) == encode(again, KEEP, False)


@pytest.mark.parametrize("more", [0, 5])
@pytest.mark.parametrize(
    "header", [(b"X", b"a\r\nY: b"), (b"X", b"a\nb"), (b"X\r", b"a"), (b"X", b"\0"), (b"Content-Length", b"1")]
)
def test_headers_that_would_change_the_framing_are_refused(header: tuple[bytes, bytes], more: int):
    rest = [(b"X-%d" % number, b"1") for number in range(more)]
    for _ in range(3):
        with pytest.raises(ValueError, match=r"line end|framing"):
            headers_of(header, *rest)
