"""What the edge turns away by itself: malformed heads, smuggling, limits, unwanted bodies."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from penstock.edge.http import Response
from penstock.edge.limits import EdgeLimits
from penstock.edge.router import BodyRule, Errors, Route
from tests.edge.wire import Served, post

HOST = b"Host: x\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

MALFORMED = {
    "repeated length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "two lengths": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "list of lengths": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na",
    "signed length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
    "negative length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na",
    "huge length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\na",
    "empty length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
    "length and chunked": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "chunked twice": CHUNKED.replace(b"chunked", b"chunked, chunked") + b"0\r\n\r\n",
    "chunked, then identity": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0 with keep-alive": b"POST /echo HTTP/1.0\r\nHost: x\r\nProxy-Connection: keep-alive\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size": CHUNKED + b"zz\r\na\r\n0\r\n\r\n",
    "chunk size 0x": CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    "chunk size with space": CHUNKED + b"1 \r\na\r\n0\r\n\r\n",
    "chunk size overflow": CHUNKED + b"fffffffffffffffff\r\na\r\n0\r\n\r\n",
    "chunk size ends in LF": CHUNKED + b"1\na\r\n0\r\n\r\n",
    "chunk longer than said": CHUNKED + b"1\r\nabc\r\n0\r\n\r\n",
    "line end in a chunk extension": CHUNKED + b'1;a="\n"\r\na\r\n0\r\n\r\n',
    "length in the trailers": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "host in the trailers": CHUNKED + b"0\r\nHost: x\r\n\r\n",
    "close in the trailers": CHUNKED + b"0\r\nConnection: close\r\n\r\n",
    "upgrade in the trailers": CHUNKED + b"0\r\nUpgrade: h2c\r\n\r\n",
    "LF after the request line": b"GET /echo HTTP/1.1\nHost: x\r\n\r\n",
    "LF after a header": b"GET /echo HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
    "LF at the end of the head": b"GET /echo HTTP/1.1\r\nHost: x\r\n\n",
    "CR in a header": b"GET /echo HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
    "NUL in a header": b"GET /echo HTTP/1.1\r\nHost: x\0\r\n\r\n",
    "space before the colon": b"GET /echo HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
    "folded header": b"GET /echo HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "header without a name": b"GET /echo HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
    "header without a colon": b"GET /echo HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n",
    "space before the first header": b"GET /echo HTTP/1.1\r\n Host: x\r\n\r\n",
    "no host": b"GET /echo HTTP/1.1\r\n\r\n",
    "no host, closing": b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two hosts": b"GET /echo HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    "version 0.9": b"GET /echo HTTP/0.9\r\nHost: x\r\n\r\n",
    "no version": b"GET /echo\r\n\r\n",
    "version 1.2": b"GET /echo HTTP/1.2\r\nHost: x\r\n\r\n",
    "version 2.0": b"GET /echo HTTP/2.0\r\nHost: x\r\n\r\n",
    "version 2.0, kept alive": b"GET /echo HTTP/2.0\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"FOO /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "method in lower case": b"get /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "target without a slash": b"GET echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "raw bytes in the target": b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
    "fragment": b"GET /echo#a HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_requests_are_refused_and_the_connection_closed(edge, data: bytes):
    client = await (await edge.start()).connect()
    reply = await client.ask(data + edge.get("/echo"))
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert await client.rest() == b""
    assert edge.seen == []


async def test_a_malformed_request_waits_for_the_answers_before_it(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait") + b"rubbish\r\n\r\n")
    await edge.until(lambda: len(edge.pending) == 1)
    edge.pending[0].resolve(Response(200, b"mine"))
    assert (await client.reply()).body == b"mine"
    assert (await client.reply()).status == 400
    assert await client.rest() == b""


def test_a_malformed_request_behind_more_than_is_held_back():
    served = Served()
    left = served.receive_while_reading(
        post("/later", b"") + post("/now", bytes(1000)) * 2000 + b"rubbish\r\n\r\n" + bytes(300_000)
    )
    assert left
    while left:
        served.answer_all()
        assert served.wire.reading
        left = served.receive_while_reading(left)
    written = served.end()
    assert written.count(b"HTTP/1.1 200 OK") == 2001
    assert written.count(b"HTTP/1.1 400 ") == 1
    assert written.rindex(b"HTTP/1.1 400 ") > written.rindex(b"HTTP/1.1 200 OK")


async def test_targets_are_remembered_in_bounds(edge):
    client = await (await edge.start()).connect()
    # Each twice: what is asked for once is not kept at all.
    asked = [number for start in range(0, 9000, 250) for number in 2 * list(range(start, start + 250))]
    for start in range(0, len(asked), 500):
        client.send(b"".join(edge.get(f"/queues/{number}") for number in asked[start : start + 500]))
        for number in asked[start : start + 500]:
            assert (await client.reply()).headers["x-path"] == f"/queues/{number}"
    assert 0 < len(edge.router.targets) <= 4096
    assert [request.params for request in edge.seen] == [(str(number),) for number in asked]


async def test_an_unsupported_coding_is_not_implemented(edge):
    client = await (await edge.start()).connect()
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
    assert (await client.reply()).status == 501
    assert await client.rest() == b""


LIMITS = EdgeLimits(header_bytes=1000, header_count=5, target_bytes=100)


@pytest.mark.parametrize("step", [7, 100_000])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /echo?" + b"a" * 95 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET /echo?" + b"a" * 5000, 414),
        (b"GET /echo HTTP/1.1\r\n" + HOST + b"A: " + b"a" * 1000 + b"\r\n\r\n", 431),
        (b"GET /echo HTTP/1.1\r\n" + HOST + b"A: " + b"a" * 9000, 431),
        (b"GET /echo HTTP/1.1\r\n" + HOST + b"".join(b"A%d: b\r\n" % n for n in range(5)) + b"\r\n", 431),
        (b"GET /echo HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 5 + b"\r\n", 431),
        (b"GET /echo HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 500, 431),
    ],
)
async def test_heads_have_limits(edge, data: bytes, status: int, step: int):
    client = await (await edge.start(limits=LIMITS)).connect()
    for start in range(0, len(data), step):
        client.send(data[start : start + step])
        await asyncio.sleep(0)
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == (status, "close")
    assert await client.rest() == b""
    assert edge.seen == []


async def test_a_head_within_the_limits_passes_however_it_arrives(edge):
    client = await (await edge.start(limits=LIMITS)).connect()
    data = edge.get("/echo?" + "a" * 94, "A: " + "a" * 700, "B: 1", "B: 2", "B: 3")
    for byte in data:
        client.send(bytes((byte,)))
        await asyncio.sleep(0)
    assert (await client.reply()).status == 200
    assert (await client.ask(data * 3)).status == 200


async def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_sent(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n")
    assert (reply.status, reply.headers["connection"]) == (413, "close")
    assert await client.rest() == b""
    assert edge.seen == []


async def test_a_body_that_turns_out_too_long_is_refused_at_once(edge):
    client = await (await edge.start()).connect()
    head = b"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await client.ask(head + b"a\r\n0123456789\r\n1\r\na")).status == 413
    assert await client.rest() == b""


async def test_a_refusal_reaches_a_client_that_goes_on_sending(edge):
    client = await (await edge.start()).connect()
    client.send(b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
    for _ in range(50):
        client.send(bytes(100_000))
        await asyncio.sleep(0)
    assert (await client.reply()).status == 413


@pytest.mark.parametrize("size", [0, 9, 10, 11, 4096, 300_000])
async def test_a_rule_may_cut(edge, size: int):
    client = await (await edge.start()).connect()
    body = b"0123456789" * 30_000
    for data in (edge.post("/cut", body[:size]), edge.chunked("/cut", *([body[:size]] if size else []))):
        assert (await client.ask(data)).body == body[: min(size, 10)]
        assert edge.seen[-1].cut == (size > 10)
    assert (await client.ask(edge.get())).status == 200


def test_what_is_cut_off_is_not_kept():
    served = Served()
    served.receive(b"POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
    served.receive(bytes(100_000))
    tracemalloc.start()
    try:
        for _ in range(19):
            served.receive(bytes(100_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50_000
    assert served.connections.bodies.held == 5
    served.receive(bytes(1_000_000))
    assert served.end().endswith(b"\r\n5 1 " + bytes(5))


async def test_bytes_around_chunks_are_limited(edge):
    client = await (await edge.start()).connect()
    client.send(CHUNKED + b"1;" + b"a" * 200_000)
    assert (await client.reply()).status == 400
    client = await edge.connect()
    client.send(CHUNKED + b"0\r\n" + b"A: b\r\n" * 50_000)
    assert (await client.reply()).status in (400, 431)
    assert edge.seen == []


@pytest.mark.parametrize("body", [b"x" * 100, b"x" * 60_000])
async def test_a_refused_request_with_a_short_body_keeps_its_connection(edge, body: bytes):
    client = await (await edge.start()).connect()
    for path, status in (("/nowhere", 404), ("/big", 405), ("/queues/%zz", 400)):
        for data in (edge.post(path, body), edge.chunked(path, body)):
            reply = await client.ask(data)
            assert (reply.status, reply.headers.get("connection")) == (status, None)
    assert (await client.ask(edge.post("/echo", b"still here"))).body == b"still here"


async def test_a_refused_request_with_a_long_body_is_answered_at_once(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n")
    assert (reply.status, reply.headers["connection"]) == (404, "close")
    assert await client.rest() == b""
    client = await edge.connect()
    head = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await client.ask(head + b"11170\r\n" + bytes(70000))).status == 404


async def test_continue_is_sent_when_the_body_is_wanted(edge):
    client = await (await edge.start()).connect()
    client.send(edge.post("/echo", b"", "Expect: 100-Continue").replace(b"Length: 0", b"Length: 3"))
    assert (await client.reply()).status == 100
    assert (await client.ask(b"abc")).body == b"abc"
    client.send(CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert (await client.reply()).status == 100
    assert (await client.ask(b"1\r\na\r\n0\r\n\r\n")).body == b"a"
    assert (await client.ask(edge.get("/echo", "Expect: 100-continue"))).status == 200


async def test_continue_waits_for_the_answers_before_it(edge):
    client = await (await edge.start()).connect()
    client.send(
        edge.get("/wait") + b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    )
    await edge.until(lambda: len(edge.pending) == 1)
    edge.pending[0].resolve(Response(200, b"first"))
    assert (await client.reply()).body == b"first"
    assert (await client.reply()).status == 100
    assert (await client.ask(b"abc")).body == b"abc"


async def test_no_continue_for_a_body_that_came_unasked(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait") + edge.post("/echo", b"abc", "Expect: 100-continue"))
    await edge.until(lambda: len(edge.pending) == 1)
    edge.pending[0].resolve(Response(200, b"first"))
    assert [(await client.reply()).body for _ in range(2)] == [b"first", b"abc"]
    assert (await client.ask(edge.get())).status == 200


@pytest.mark.parametrize(
    ("path", "size", "expect", "status"),
    [
        ("/small", 11, "100-continue", 413),
        ("/nowhere", 11, "100-continue", 404),
        ("/big", 11, "100-continue", 405),
        ("/echo", 11, "more", 417),
        ("/echo", 0, "more", 417),
    ],
)
async def test_no_continue_when_the_answer_is_no(edge, path: str, size: int, expect: str, status: int):
    client = await (await edge.start()).connect()
    client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\nExpect: {expect}\r\n\r\n".encode())
    assert (await client.reply()).status == status
    assert await client.rest() == b""


async def test_a_guard_is_asked_before_the_body_is_read(edge):
    asked = []

    def guard(request, route, client):
        asked.append((request.path, request.params, route.permission, request.body))
        return None if b"authorization" in request.headers else Response(401)

    private = Route("POST", "/private/{x}", edge.echo, BodyRule(100), permission="write")
    client = await (await edge.start(guard=guard, routes=(private,))).connect()
    reply = await client.ask(
        b"POST /private/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (reply.status, asked) == (401, [("/private/1", ("1",), "write", b"")])
    client = await edge.connect()
    assert (await client.ask(edge.post("/private/1", b"abc"))).status == 401
    assert (await client.ask(edge.post("/private/1", b"abc", "Authorization: me"))).body == b"abc"
    assert (await client.ask(edge.get("/nowhere"))).status == 404
    assert len(asked) == 3


async def test_a_guard_may_ask_for_the_address_of_the_client(edge):
    asked = []

    def guard(request, route, client):
        asked.append(client.address())

    client = await (await edge.start(guard=guard)).connect()
    assert (await client.ask(edge.post("/echo", b"abc"))).status == 200
    assert asked == ["127.0.0.1"]


async def test_a_failing_guard_lets_no_request_in(edge):
    def guard(request, route, client):
        raise RuntimeError("on purpose")

    client = await (await edge.start(guard=guard)).connect()
    assert (await client.ask(edge.post("/echo", b"abc"))).status == 500
    assert edge.seen == []


JAVA = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)


@pytest.mark.parametrize("step", [1, 3, 100_000])
async def test_upgrades_are_ignored(edge, step: int):
    client = await (await edge.start()).connect()
    head = "\r\n".join(("POST /echo HTTP/1.1", "Host: x", *JAVA, "Transfer-Encoding: chunked", "", "")).encode()
    data = (
        edge.get("/echo", *JAVA)
        + edge.post("/echo", b"one", *JAVA)
        + head
        + b"3\r\ntwo\r\n0\r\n\r\n"
        + edge.post("/small", b"three", *JAVA)
        + edge.get("/queues/a")
    )
    for start in range(0, len(data), step):
        client.send(data[start : start + step])
        await asyncio.sleep(0)
    assert [(await client.reply()).body for _ in range(5)] == [b"", b"one", b"two", b"three", b""]
    assert (await client.ask(edge.post("/nowhere", b"body", *JAVA))).status == 404
    assert (await client.ask(edge.post("/small", bytes(11), *JAVA))).status == 413
    assert await client.rest() == b""


async def test_a_request_behind_an_upgrade_is_refused_for_its_own_fault(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/echo", *JAVA) + b"GET /echo HTTP/1.1\r\n\r\n")
    assert (await client.reply()).status == 200
    refused = await client.reply()
    assert (refused.status, b"Host is missing" in refused.body) == (400, True)


async def test_a_length_with_more_digits_than_can_be_read(edge):
    client = await (await edge.start()).connect()
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: "
    assert (await client.ask(head + b"0" * 20 + b"3\r\n\r\nabc")).body == b"abc"
    assert (await client.ask(head + b"0" * 5_000 + b"3\r\n\r\nabc")).status == 400


async def test_blanks_around_a_value_are_not_part_of_it(edge):
    client = await (await edge.start()).connect()
    assert (await client.ask(b"GET /echo HTTP/1.1\r\nHost: \t x \t\r\nA:b \r\nA: c\t\r\n\r\n")).status == 200
    assert edge.seen[-1].headers == {b"host": b"x", b"a": b"b, c"}


async def test_connect_is_not_served(edge):
    client = await (await edge.start()).connect()
    reply = await client.ask(b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\nabc")
    assert (reply.status, reply.headers["connection"], reply.headers["allow"]) == (405, "close", "")
    assert await client.rest() == b""


async def test_unusual_targets(edge):
    client = await (await edge.start()).connect()
    assert (await client.ask(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")).status == 404
    assert (await client.ask(b"OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n")).headers["allow"] == "GET, HEAD, POST"
    assert (await client.ask(b"PURGE /echo HTTP/1.1\r\nHost: x\r\n\r\n")).status == 405
    assert (await client.ask(edge.get("http://x:80/queues/a?b=/c"))).headers["x-path"] == "/queues/a"
    assert edge.seen[-1].query == "b=/c"
    assert (await client.ask(edge.get("http://x?b"))).status == 404
    assert (await client.ask(edge.get("HTTP://x"))).status == 404


async def test_refusals_in_the_words_of_a_face(edge):
    def refused(request, status, reason):
        return Response(status, f"{request and request.path} {reason}".encode())

    client = await (await edge.start(errors=Errors(refused=refused))).connect()
    assert (await client.ask(edge.post("/small", bytes(11)))).body == b"/small the body is longer than 10 bytes"
