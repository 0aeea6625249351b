"""What peers say is understood: whole replies, and the names in them."""

from __future__ import annotations

import struct

import pytest

from bench.peers import beanstalkd, nats, penstock, postgresql, rabbitmq, redis
from bench.peers.peer import first
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


def test_beanstalkd_answers_a_batch_job_by_job():
    jobs = b"".join(b"RESERVED %d 200\r\n%s\r\n" % (number, b"x" * 200) for number in range(beanstalkd.BATCH - 1))
    assert beanstalkd.are_answered(jobs + b"TIMED_OUT\r\n")
    assert not beanstalkd.are_answered(jobs)
    assert not beanstalkd.are_answered(jobs + b"RESERVED 1000 200\r\n")
    step = ask(beanstalkd.Tubes().claim_batches(0), jobs + b"TIMED_OUT\r\n")
    assert step.request.startswith(b"delete 0\r\ndelete 1\r\n")
    assert step.done == beanstalkd.BATCH - 1
    with pytest.raises(StopIteration):
        ask(beanstalkd.Tubes().claim_batches(0), b"TIMED_OUT\r\n" * beanstalkd.BATCH)


def test_nats_asks_whether_we_live_in_between():
    reply = b'MSG _INBOX.0.a 1 22\r\n{"stream":"Q","seq":1}\r\n'
    assert nats.told(1)(reply)
    assert nats.told(1)(b"PING\r\n" + reply)
    assert not nats.told(1)(b"PING\r\n")
    assert not nats.told(1)(reply[:-2])
    message = b"MSG q 1 $JS.ACK.Q.W.1.7.7.170.0 5\r\nhello\r\n"
    step = ask(nats.JetStream().cycle(3), reply, b"PING\r\n" + message)
    assert step.request == b"PUB $JS.ACK.Q.W.1.7.7.170.0 _INBOX.3.a 4\r\n+ACK\r\n"


def test_nats_says_where_a_batch_ends():
    message = b"MSG q 1 $JS.ACK.Q.W.1.7.7.170.0 5\r\nhello\r\n"
    end = b"HMSG _INBOX.0.a 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n"
    assert nats.has_batch(message * nats.BATCH)
    assert not nats.has_batch(message * 3)
    assert nats.has_batch(message * 3 + end)
    assert ask(nats.JetStream().claim_batches(0), message * 3 + end).done == 3


def test_rabbitmq_confirms_one_or_several_in_any_order():
    def confirm(tag: int, multiple: bool) -> bytes:
        return rabbitmq.method(60, 80, struct.pack(">Q?", tag, multiple))

    confirms = rabbitmq.Confirms()
    assert confirms.read(confirm(2, False)) == 1
    assert confirms.read(confirm(2, False) + confirm(5, False)) == 2
    assert confirms.read(confirm(3, True)) == 4
    assert confirms.read(confirm(5, True)) == 5
    assert rabbitmq.is_confirmed(confirm(1, False))
    assert not rabbitmq.is_confirmed(confirm(1, False)[:-1])


def test_rabbitmq_acks_with_its_next_message():
    worker = rabbitmq.Amqp().cycle(0)
    confirm = rabbitmq.method(60, 80, struct.pack(">Q?", 1, False))
    delivery = rabbitmq.frame(3, 1, rabbitmq.BODY)
    step = next(worker)
    assert not step.is_whole(confirm)
    assert not step.is_whole(delivery)
    assert step.is_whole(delivery + confirm)
    step = worker.send(confirm + delivery)
    assert step.request.startswith(rabbitmq.method(60, 80, struct.pack(">Q?", 1, False)))
    assert step.done == 1


def test_what_pgbench_prints():
    assert postgresql.tps("latency average = 6.1 ms\ntps = 10782.123456 (without initial connection time)\n") == (
        pytest.approx(10782.123456)
    )
    assert postgresql.logged("0 1 340 0 1790000000 5\n0 2 280 0 1790000000 300\n") == [0.00028, 0.00034]


def test_a_worker_may_be_cut_short():
    worker = first(beanstalkd.Tubes().send(0), 2)
    next(worker)
    worker.send(b"INSERTED 1\r\n")
    with pytest.raises(StopIteration):
        worker.send(b"INSERTED 2\r\n")
