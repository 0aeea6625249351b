"""Deadlines: no client holds a connection by being slow, and a long poll is never cut short.

The time limits are tiny, and each test waits for the close itself rather than for a time.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock.edge.http import Response, encode, set_date
from penstock.edge.limits import EdgeLimits, Timeouts

LONG = 60.0


@pytest.mark.parametrize("data", [b"G", b"GET /echo HTTP/1.1\r\nHost: x\r\nX-a: "])
async def test_half_a_head_is_answered_408(edge, data: bytes):
    client = await (await edge.start(Timeouts(0.1, LONG, LONG, LONG))).connect()
    reply = await client.ask(data)
    assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert await client.rest() == b""


async def test_dripping_a_head_does_not_buy_time(edge):
    client = await (await edge.start(Timeouts(0.2, LONG, LONG, LONG))).connect()
    assert (await client.ask(edge.get())).status == 200

    async def drip() -> None:
        client.send(b"GET /echo HTTP/1.1\r\nHost: x\r\n")
        while True:
            client.send(b"A: b\r\n")
            await asyncio.sleep(0.02)

    dripping = asyncio.ensure_future(drip())
    assert (await client.reply()).status == 408
    dripping.cancel()


async def test_half_a_head_behind_a_whole_request(edge):
    client = await (await edge.start(Timeouts(0.1, LONG, LONG, LONG))).connect()
    client.send(edge.get() + b"GE")
    assert [(await client.reply()).status for _ in range(2)] == [200, 408]


@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
async def test_half_a_body_is_answered_408(edge, framing: bytes):
    client = await (await edge.start(Timeouts(LONG, 0.1, LONG, LONG))).connect()
    assert (await client.ask(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n1\r\n")).status == 408
    assert await client.rest() == b""
    assert edge.seen == []


async def test_idle_connections_are_closed_silently(edge):
    await edge.start(Timeouts(LONG, LONG, 2.0, LONG))
    fresh, used = await edge.connect(), await edge.connect()
    assert (await used.ask(edge.get())).status == 200
    assert [await fresh.rest(), await used.rest()] == [b"", b""]


async def test_a_long_poll_outlasts_every_time_limit(edge):
    await edge.start()
    client = await edge.connect()
    client.send(edge.get("/wait") + b"GET /ec")
    await edge.until(lambda: len(edge.pending) == 1)
    edge.listener.adjust(Timeouts(0.05, 0.05, 0.05, 0.05), EdgeLimits())
    # Long enough for others to come and to be closed, one after the other.
    for _ in range(5):
        assert await (await edge.connect()).rest() == b""
    edge.pending[0].resolve(Response(200, b"late"))
    assert (await client.reply()).body == b"late"
    assert (await client.reply()).status == 408


async def deaf(edge) -> socket.socket:
    """A client that will not read."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setblocking(False)
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", edge.listener.port))
    return one


async def test_a_client_that_does_not_read_is_dropped(edge):
    await edge.start(Timeouts(LONG, LONG, LONG, 0.2))
    with await deaf(edge) as client:
        await asyncio.get_running_loop().sock_sendall(client, edge.get("/big?20000000") * 5)
        await edge.until(lambda: len(edge.seen) > 0)
        await edge.gone()
    # Not one more was started while the first could not be written.
    assert len(edge.seen) == 1


async def test_a_client_that_closes_but_does_not_read_is_dropped(edge):
    await edge.start(Timeouts(LONG, LONG, LONG, 0.2))
    with await deaf(edge) as client:
        await asyncio.get_running_loop().sock_sendall(client, edge.get("/big?20000000", "Connection: close"))
        await edge.until(lambda: len(edge.seen) > 0)
        await edge.gone()


async def test_a_slow_reader_is_served_as_long_as_it_reads(edge):
    await edge.start(Timeouts(LONG, LONG, LONG, 2.0))
    with await deaf(edge) as client:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, edge.get("/big?5000000") + edge.get("/echo", "Connection: close"))
        received = 0
        while data := await loop.sock_recv(client, 60_000):
            received += len(data)
            await asyncio.sleep(0.001)
    assert received > 5_000_000
    assert len(edge.seen) == 2


async def test_lingering_ends(edge):
    await edge.start(Timeouts(0.2, LONG, LONG, LONG))
    with await deaf(edge) as client:
        await asyncio.get_running_loop().sock_sendall(client, b"rubbish\r\n\r\n")
        await edge.until(lambda: edge.router.unmatched.statuses == {400: 1})
        await edge.gone()


def test_the_date_is_the_one_that_was_set():
    set_date(784111777)
    assert b"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n" in encode(Response(200), b"", False)
    set_date(784111778)
    assert b"\r\nDate: Sun, 06 Nov 1994 08:49:38 GMT\r\n" in encode(Response(200), b"", False)
