"""Bodies that are out of bounds: how they are refused, and that too many items are never built."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock import limits
from penstock.edge.http import Request
from penstock.errors import CallerError, InvalidRequest, TooLarge
from penstock.faces.bodies import beginning, items_of
from penstock.faces.emodb import bodies
from penstock.faces.mqs import queues as mqs_queues
from penstock.faces.native import messages, moves, queues, receipts
from penstock.faces.native.send import LINES, read_drafts

MEBIBYTE = 1 << 20


def send(body: bytes) -> list:
    return read_drafts(Request("POST", "/v1/queues/q/messages", body=body))


def send_lines(body: bytes) -> list:
    return read_drafts(Request("POST", "/v1/queues/q/messages", headers={b"content-type": LINES}, body=body))


def filled(start: bytes, item: bytes, end: bytes, size: int = 16 * MEBIBYTE) -> bytes:
    return start + item * (size // len(item)) + end


def many_queues() -> bytes:
    return b"{" + b",".join(b'"%d":[]' % number for number in range(1_200_000)) + b"}"


TOO_MANY: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "objects": (send, filled(b'{"messages":[', b"{},", b"{}]}")),
    "objects with blanks": (send, filled(b'{"messages":[', b"{} , ", b"{}]}")),
    "two lists of objects": (send, filled(b'{"messages":[],"messages":[', b"{},", b"{}]}")),
    "messages": (send, filled(b'{"messages":[', b'{"body":""},', b'{"body":""}]}')),
    "lines": (send_lines, filled(b"", b"{}\n", b"")),
    "lines that do not end": (send_lines, filled(b"", b"{}", b"")),
    "lines that do not end, with blanks": (send_lines, filled(b"", b"{} ", b"")),
    "emodb numbers": (bodies.read_messages, filled(b"[", b"0,", b"0]")),
    "emodb objects": (bodies.read_messages, filled(b"[", b"{},", b"{}]")),
    "emodb of a queue": (bodies.read_messages_by_queue, filled(b'{"a":[', b"0,", b"0]}")),
    "emodb of a second queue": (bodies.read_messages_by_queue, filled(b'{"b":[1],"a":[', b"0,", b"0]}")),
    "emodb of one queue, many times": (bodies.read_messages_by_queue, filled(b'{"a":[]', b',"a":[]', b"}")),
    "emodb of many queues": (bodies.read_messages_by_queue, many_queues()),
    "emodb ids": (bodies.read_ids, filled(b"[", b'"",', b'""]', MEBIBYTE)),
    "receipts": (receipts._read_receipts, filled(b'{"receipts":[', b'"",', b'""]}', MEBIBYTE)),
    "receipts to release": (receipts._read_release, filled(b'{"receipts":[', b'"",', b'""]}', MEBIBYTE)),
    "receipts to renew": (receipts._read_renew, filled(b'{"hold_ms":1,"receipts":[', b'"",', b'""]}', MEBIBYTE)),
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_what_is_too_many_is_not_built(what: str) -> None:
    read, body = TOO_MANY[what]
    tracemalloc.start()
    try:
        with pytest.raises(CallerError):
            read(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The first time, the shapes themselves are made; and EmoDB's text is checked to be text.
    assert peak < 2 * len(body) + 16 * MEBIBYTE


def test_as_many_as_allowed_whatever_is_in_them() -> None:
    braces = json.dumps({"body": '{"a": {"b": [1, 2]}}', "attributes": {"k": "{,}"}})
    allowed = limits.SEND_LIMIT
    assert len(send(f'{{"messages":[{",".join([braces] * allowed)}]}}'.encode())) == allowed
    with pytest.raises(InvalidRequest, match="between 1 and 10000"):
        send(f'{{"messages":[{",".join([braces] * (allowed + 1))}]}}'.encode())
    assert len(send_lines("\n\n".join([braces] * allowed).encode())) == allowed
    with pytest.raises(InvalidRequest, match="between 1 and 10000"):
        send_lines("\n".join([braces] * (allowed + 1)).encode())
    assert len(bodies.read_messages(f"[{','.join([braces] * allowed)}]".encode())) == allowed
    with pytest.raises(TooLarge):
        bodies.read_messages(f"[{','.join([braces] * (allowed + 1))}]".encode())
    half = f"[{','.join([braces] * (allowed // 2))}]"
    by_queue = bodies.read_messages_by_queue(f'{{"a":{half},"b":{half},"c":[]}}'.encode())
    assert {queue: len(of_one) for queue, of_one in by_queue.items()} == {"a": allowed // 2, "b": allowed // 2, "c": 0}
    with pytest.raises(TooLarge):
        bodies.read_messages_by_queue(f'{{"a":{half},"b":{half},"c":[null]}}'.encode())
    assert len(bodies.read_ids(json.dumps(["i"] * limits.ACK_LIMIT).encode())) == limits.ACK_LIMIT
    with pytest.raises(TooLarge):
        bodies.read_ids(json.dumps(["i"] * (limits.ACK_LIMIT + 1)).encode())


def test_a_long_send_is_refused_in_the_same_words_as_a_short_one() -> None:
    for last in ('{"body": 1}', '{"bdy": ""}', "null", "1"):
        long = ",".join([json.dumps({"body": "{{"})] * 9999 + [last])
        for of_many in (last, long):
            with pytest.raises(InvalidRequest, match=r"the body does not parse: .* at `\$\.messages\[\d+\]"):
                send(f'{{"messages":[{of_many}]}}'.encode())
        with pytest.raises(InvalidRequest, match="the lines do not parse"):
            send_lines(long.replace("},{", "}\n{").encode())
    with pytest.raises(InvalidRequest, match="unknown field `more`"):
        send(f'{{"more":[{",".join(["{}"] * 20_000)}]}}'.encode())


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text(max_size=4), max_size=8), st.integers(0, 8))
def test_the_beginning_of_a_list_is_the_list_as_far_as_it_goes(values: list, limit: int) -> None:

    read = msgspec.json.Decoder(beginning(Raw, limit)).decode(json.dumps(values).encode())
    assert [json.loads(bytes(item)) for item in items_of(read)] == values[: limit + 1]


BOUNDS: list[tuple[Callable[[bytes], object], str, str]] = [
    (messages._read_claim, '{"limit": 0}', "limit must be between 1 and 10000"),
    (messages._read_claim, '{"limit": 10001}', "limit must be between 1 and 10000"),
    (messages._read_claim, '{"limit": 1000000000000000000000}', "limit must be between 1 and 10000"),
    (messages._read_claim, '{"hold_ms": -1}', "hold_ms must be between 0 and 2147483647000"),
    (messages._read_claim, '{"wait_ms": 60001}', "wait_ms must be between 0 and 60000"),
    (receipts._read_receipts, '{"receipts": []}', "the number of receipts must be between 1 and 10000"),
    (receipts._read_renew, '{"receipts": ["a"], "hold_ms": -1}', "hold_ms must be between 0 and 2147483647000"),
    (send, '{"messages": []}', "the number of messages must be between 1 and 10000"),
    (send, '{"messages": [{"body": ""}, {"delay_ms": -1}]}', "delay_ms must be between 0 and 2147483647000"),
    (send_lines, '{"body": ""}\n{"delay_ms": -1}', "delay_ms must be between 0 and 2147483647000"),
    (
        send,
        '{"messages": [%s{"delay_ms": -1}]}' % ('{"body": "{{"},' * 6_000),
        "delay_ms must be between 0 and 2147483647000",
    ),
    (send_lines, '{"body": "{{"}\n' * 6_000 + '{"delay_ms": -1}', "delay_ms must be between 0 and 2147483647000"),
    (queues._read_change, '{"retention_ms": 0}', "retention_ms must be between 1 and 2147483647000"),
    (
        queues._read_change,
        '{"redrive": {"max_receives": 0, "dead_letter_queue": "d"}}',
        "redrive.max_receives must be between 1 and 2147483647",
    ),
    (
        queues._read_change,
        '{"backoff": {"first_ms": 0, "most_ms": 1}}',
        "backoff.first_ms must be between 1 and 2147483647000",
    ),
    (
        moves._read_move,
        '{"source": "q", "filter": {"min_receives": -1}}',
        "filter.min_receives must be between 0 and 2147483647",
    ),
    (moves._read_move, '{"source": "q", "filter": {"text": ""}}', "filter.text has 1 to 1000 characters"),
    (moves._read_move, '{"source": "q", "per_second": 0}', "per_second must be between 1 and 1000000"),
    (
        mqs_queues._read_settings,
        '{"retention_timeout": 0, "visibility_timeout": 0, "message_deduplication": false}',
        "retention_timeout must be between 1 and 2147483647",
    ),
]


@pytest.mark.parametrize(("read", "body", "error"), BOUNDS, ids=[error for _, _, error in BOUNDS])
def test_what_is_out_of_bounds_is_refused_in_these_words(
    read: Callable[[bytes], object], body: str, error: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(body.encode())
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "body", ['{"limit": 1.5}', '{"limit": "1"}', '{"limits": 1}', "[]", "{", "\udcff", "[" * 100_000]
)
def test_what_does_not_parse_is_refused_as_such(body: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^the body does not parse: "):
        messages._read_claim(body.encode("utf-8", "surrogateescape"))
