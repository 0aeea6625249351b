"""What a client sends reaches the handler, and what the handler answers reaches the client."""

from __future__ import annotations

import pytest

from penstock.edge.http import Response
from penstock.edge.router import Errors, Route
from penstock.pending import Pending
from tests.edge.wire import Served, post


async def test_a_request_arrives_whole(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(
        b"POST /echo?a=1&a=2&b= HTTP/1.1\r\nHost: x\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 3\r\n\r\nabc"
    )
    assert (reply.status, reply.body) == (200, b"abc")
    request = edge.seen[0]
    assert (request.method, request.path, request.query) == ("POST", "/echo", "a=1&a=2&b=")
    assert request.query_params() == {"a": "2", "b": ""}
    assert request.headers == {b"host": b"x", b"x-one": b"1, 2", b"content-length": b"3"}
    assert (request.body, request.cut, request.params) == (b"abc", False, ())


async def test_an_answer_says_who_when_and_how_long(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(edge.get())
    assert reply.headers["server"] == "penstock"
    assert reply.headers["date"].endswith("GMT")
    assert reply.headers["content-length"] == "0"
    assert "connection" not in reply.headers


async def test_a_connection_serves_many_requests(edge):
    client = await (await edge.start()).connect()
    for number in range(50):
        assert (await client.ask(edge.post("/echo", b"%d" % number))).body == b"%d" % number


async def test_connection_close_is_obeyed_and_announced(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(edge.get("/echo", "Connection: close"))
    assert reply.headers["connection"] == "close"
    assert await client.rest() == b""


async def test_nothing_behind_connection_close_is_served(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/echo", "Connection: close") + edge.get("/echo"))
    assert (await client.reply()).status == 200
    assert await client.rest() == b""
    assert len(edge.seen) == 1


async def test_http_1_0_closes_unless_asked_to_stay(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(b"GET /echo HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
    assert (reply.status, reply.headers["connection"]) == (200, "keep-alive")
    reply = await client.ask(b"GET /echo HTTP/1.0\r\n\r\n")
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await client.rest() == b""


async def test_pipelined_requests_are_answered_in_order(edge):
    client = await (await edge.start()).connect()
    client.send(b"".join(edge.post("/echo", b"%d" % number) for number in range(500)))
    for number in range(500):
        assert (await client.reply()).body == b"%d" % number


async def test_a_pipelined_request_starts_after_the_answer_before_it(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait") + edge.get("/echo") + edge.post("/wait", b"two") + edge.get("/echo"))
    await edge.until(lambda: len(edge.seen) == 1)
    edge.pending[0].resolve(Response(200, b"one"))
    assert [(await client.reply()).body for _ in range(2)] == [b"one", b""]
    assert [request.path for request in edge.seen] == ["/wait", "/echo", "/wait"]
    edge.pending[1].resolve(Response(200, b"two"))
    assert [(await client.reply()).body for _ in range(2)] == [b"two", b""]


async def test_a_request_cut_in_two_waits_behind_a_pending_one(edge):
    client = await (await edge.start()).connect()
    whole = edge.post("/echo", b"abcdef")
    client.send(edge.get("/wait") + whole[:-3])
    await edge.until(lambda: len(edge.seen) == 1)
    client.send(whole[-3:])
    edge.pending[0].resolve(Response(200, b"first"))
    assert (await client.reply()).body == b"first"
    assert (await client.reply()).body == b"abcdef"


def test_bytes_of_later_requests_are_held_back_in_bounds():
    served = Served()
    left = served.receive_while_reading(post("/later", b"") + post("/now", bytes(1000)) * 4000)
    assert len(served.pending) == 1
    assert served.wire.written == b""
    assert served.taken < 200_000
    while left:
        served.answer_all()
        assert served.wire.reading
        left = served.receive_while_reading(left)
    written = served.end()
    assert written.count(b"HTTP/1.1 200 OK") == 4001
    assert written.count(b"\r\n1000 0 " + bytes(1000)) == 4000


async def test_a_client_that_sends_ahead_is_answered_in_order(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait") + b"".join(edge.post("/echo", bytes(1000)) for _ in range(4000)))
    await edge.until(lambda: len(edge.seen) == 1)
    edge.pending[0].resolve(Response(204))
    assert (await client.reply()).status == 204
    for _ in range(4000):
        assert len((await client.reply()).body) == 1000


@pytest.mark.parametrize("size", [0, 1, 200, 4095, 4096, 70_000, 1 << 20])
async def test_bodies_of_any_size(edge, size: int):
    client = await (await edge.start()).connect()
    body = bytes(range(256)) * (size // 256 + 1)
    assert (await client.ask(edge.post("/echo", body[:size]))).body == body[:size]
    assert (await client.ask(edge.chunked("/echo", *([body[:size]] if size else [])))).body == body[:size]
    assert (await client.ask(edge.get())).status == 200


async def test_chunks_are_joined_and_trailers_ignored(edge):
    client = await (await edge.start()).connect()
    data = edge.chunked("/echo", b"a", b"bc", b"def", trailers=b"X-Trailer: 1\r\nX-Trailer: 2\r\n")
    for _ in range(2):
        assert (await client.ask(data)).body == b"abcdef"
    assert b"x-trailer" not in edge.seen[0].headers
    assert edge.seen[1].headers == edge.seen[0].headers


async def test_head_has_the_length_and_no_body(edge):
    route = Route("GET", "/page", lambda _: Response(200, b"12345"), head=True)
    client = await (await edge.start(routes=(route,))).connect()
    reply = await client.ask(b"HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n", head=True)
    assert (reply.status, reply.headers["content-length"]) == (200, "5")
    reply = await client.ask(b"HEAD /fail HTTP/1.1\r\nHost: x\r\n\r\n", head=True)
    assert (reply.status, reply.headers["allow"]) == (405, "GET")
    assert (await client.ask(edge.get())).status == 200


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_have_no_length(edge, status: int):
    route = Route("GET", "/none", lambda _: Response(status, b"never sent"))
    client = await (await edge.start(routes=(route,))).connect()
    assert "content-length" not in (await client.ask(edge.get("/none"))).headers
    assert (await client.ask(edge.get())).status == 200


async def test_large_answers(edge):
    client = await (await edge.start()).connect(buffer=1 << 24)
    assert len((await client.ask(edge.get("/big?5000000"))).body) == 5_000_000
    assert (await client.ask(edge.get())).status == 200


async def test_a_failing_handler_is_a_500_and_the_connection_lives(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(edge.get("/fail"))
    assert (reply.status, reply.body) == (500, b'{"error": "internal error"}')
    assert (await client.ask(edge.get())).status == 200


async def test_a_rejected_pending_is_a_500(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait"))
    await edge.until(lambda: len(edge.pending) == 1)
    edge.pending[0].reject(RuntimeError("on purpose"))
    assert (await client.reply()).status == 500
    assert (await client.ask(edge.get())).status == 200


async def test_failing_error_answers_still_answer(edge):
    def broken(*_: object) -> Response:
        raise RuntimeError("twice")

    client = await (await edge.start(errors=Errors(broken, broken, broken, broken))).connect()
    for path in ("/fail", "/nowhere", "/queues/%zz"):
        assert (await client.ask(edge.get(path))).status == 500
    assert (await client.ask(edge.post("/small", bytes(11)))).status == 500


@pytest.mark.parametrize(
    "response",
    [
        Response(200, b"", ((b"X", b"a\r\nSet-Cookie: b"),)),
        Response(200, b"", ((b"X", b"a\0"),)),
        Response(200, b"", ((b"X\n", b"a"),)),
        Response(200, b"", ((b"Content-Length", b"7"),)),
        Response(99999),
        None,
        Pending,
    ],
)
async def test_a_response_that_cannot_be_sent_is_a_500(edge, response):
    client = await (await edge.start(routes=(Route("GET", "/bad", lambda _: response),))).connect()
    assert (await client.ask(edge.get("/bad"))).status == 500
    assert (await client.ask(edge.get())).status == 200


async def test_a_pending_that_is_resolved_already(edge):
    ready: Pending[Response] = Pending()
    ready.resolve(Response(200, b"ready"))
    client = await (await edge.start(routes=(Route("GET", "/ready", lambda _: ready),))).connect()
    client.send(edge.get("/ready") * 200 + edge.get("/echo"))
    for _ in range(200):
        assert (await client.reply()).body == b"ready"
    assert (await client.reply()).status == 200
