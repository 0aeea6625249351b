"""What peers say is understood: whole replies, and the names in them."""

from __future__ import annotations

import pytest

from bench.peers import penstock, redis
from bench.wire import Step, Worker


def entries(count: int) -> bytes:
    one = redis.command(b"body", b"x" * 200)
    listed = b"".join(b"*2\r\n$3\r\n%d-0\r\n%s" % (number + 1, one) for number in range(count))
    return b"*1\r\n*2\r\n$1\r\ns\r\n*%d\r\n%s" % (count, listed)


@pytest.mark.parametrize("count", [1, 3, 11])
def test_redis_tells_how_many_entries_follow(count):
    reply = entries(count)
    assert redis.has_all_entries(reply)
    assert not any(redis.has_all_entries(reply[:cut]) for cut in range(len(reply)))


def test_redis_has_nothing_left():
    assert redis.has_all_entries(b"*-1\r\n")


def ask(worker: Worker, *replies: bytes) -> Step:
    step = next(worker)
    for reply in replies:
        assert step.is_whole(reply)
        step = worker.send(reply)
    return step


def test_redis_acks_what_it_claimed():
    step = ask(redis.Resp().cycle(0), b"$3\r\n7-0\r\n", entries(1))
    assert step.request == redis.command(b"XACK", b"s", b"g", b"1-0") + redis.command(b"XDEL", b"s", b"1-0")
    assert step.done == 1
    step = ask(redis.Resp().claim_batches(0), entries(2))
    assert step.request == (
        redis.command(b"XACK", b"s", b"g", b"1-0", b"2-0") + redis.command(b"XDEL", b"s", b"1-0", b"2-0")
    )
    assert step.done == 2
    with pytest.raises(StopIteration):
        ask(redis.Resp().claim_batches(0), b"*-1\r\n")


def http(status: str, body: bytes, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def test_an_answer_over_http_is_as_long_as_it_says():
    reply = http("200 OK", b"content-length: 7")
    assert penstock.is_whole(reply)
    assert not any(penstock.is_whole(reply[:cut]) for cut in range(len(reply)))
    assert penstock.is_whole(b"HTTP/1.1 204 No Content\r\n\r\n")


def test_receipts_are_acked_in_json():
    claimed = http("200 OK", b'{"messages":[{"receipt":"01-1.1"},{"receipt":"01-2.1"}]}')
    step = ask(penstock.Native().claim_batches(0), claimed)
    assert step.request.endswith(b'\r\n\r\n{"receipts":["01-1.1","01-2.1"]}')
    assert step.done == 2
    with pytest.raises(StopIteration):
        ask(penstock.Native().claim_batches(0), http("200 OK", b'{"messages":[]}'))


def test_receipts_are_acked_in_arrow():
    pa = pytest.importorskip("pyarrow")
    claimed = http("200 OK", penstock.stream(receipt=pa.array(["01-1.1", "01-2.1"])))
    step = ask(penstock.Native(arrow=True).claim_batches(0), claimed)
    sent = pa.ipc.open_stream(step.request.partition(b"\r\n\r\n")[2]).read_all()
    assert sent.to_pydict() == {"receipt": ["01-1.1", "01-2.1"]}
    assert step.done == 2
