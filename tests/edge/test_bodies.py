"""Bodies that come slowly or without end: what all of them may hold together, and how far one is read."""

from __future__ import annotations

import asyncio

import pytest

from penstock.edge.http import Response
from penstock.edge.limits import BodyBudget, EdgeLimits, Timeouts
from penstock.edge.router import BodyRule, Route
from tests.edge.wire import Served

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20
LIMITS = EdgeLimits(body_bytes=2 * MEBIBYTE)
BODY = 300 * KIBIBYTE
LONG = 60.0


def held(edge) -> int:
    return edge.listener.body_bytes


def head(path: str, size: int | None) -> bytes:
    framing = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode()


async def hold_back(edge, size: int = BODY, path: str = "/echo"):
    """A client that has sent all but the last byte, and whether it may go on."""
    client = await edge.connect()
    before = held(edge)
    client.send(head(path, size) + bytes(size - 1))
    reply = asyncio.ensure_future(client.reply())
    await edge.until(lambda: reply.done() or held(edge) == before + size - 1)
    return client, reply


async def test_bodies_together_hold_no_more_than_their_budget(edge):
    await edge.start(limits=LIMITS)
    clients = []
    for _ in range(20):
        clients.append(await hold_back(edge))
        assert held(edge) <= LIMITS.body_bytes
    # An eighth is left for small ones.
    waiting = [(client, reply) for client, reply in clients if not reply.done()]
    assert len(waiting) == (LIMITS.body_bytes * 7 // 8) // BODY
    assert held(edge) == len(waiting) * (BODY - 1)
    for _, reply in clients:
        if reply.done():
            refusal = reply.result()
            assert (refusal.status, refusal.headers["retry-after"], refusal.headers["connection"]) == (
                503,
                "1",
                "close",
            )
    assert edge.seen == []

    # While they trickle, others get through, in one piece or in several.
    other = await edge.connect()
    assert (await other.ask(edge.post("/echo", bytes(60 * KIBIBYTE)))).status == 200
    small, reply = await hold_back(edge, 60 * KIBIBYTE)
    small.send(b"!")
    assert (await reply).body[-1:] == b"!"
    assert (await other.ask(edge.get())).status == 200

    for client, reply in waiting:
        client.send(b"!")
        assert len((await reply).body) == BODY
    await edge.until(lambda: held(edge) == 0)
    client, reply = await hold_back(edge)
    client.send(b"!")
    assert (await reply).status == 200


async def test_many_small_bodies_have_their_limit_too(edge):
    await edge.start(limits=EdgeLimits(body_bytes=MEBIBYTE))
    size = 60 * KIBIBYTE
    replies = [(await hold_back(edge, size))[1] for _ in range(20)]
    assert sum(not reply.done() for reply in replies) == MEBIBYTE // (size - 1)
    assert held(edge) <= MEBIBYTE
    # What arrives in one piece needs no place to wait.
    client = await edge.connect()
    assert (await client.ask(edge.post("/echo", bytes(2000)))).status == 200


async def test_a_body_counts_until_it_is_answered(edge):
    await edge.start(limits=LIMITS)
    client, reply = await hold_back(edge, path="/wait")
    client.send(b"!")
    await edge.until(lambda: len(edge.pending) == 1)
    assert held(edge) == BODY - 1
    edge.pending[0].resolve(Response(200))
    assert (await reply).status == 200
    assert held(edge) == 0


@pytest.mark.parametrize("path", ["/echo", "/fail", "/cut", "/nowhere"])
async def test_the_next_request_on_a_connection_starts_from_nothing(edge, path: str):
    routes = (Route("POST", "/fail", edge.fail, BodyRule(MEBIBYTE)),)
    client = await (await edge.start(limits=LIMITS, routes=routes)).connect()
    for _ in range(12):
        for part in (head(path, 60_000) + bytes(30_000), bytes(30_000)):
            client.send(part)
            await edge.read_all()
        assert (await client.reply()).status in (200, 500, 404)
        assert held(edge) == 0


async def test_a_client_that_leaves_gives_back(edge):
    await edge.start(limits=LIMITS)
    client, reply = await hold_back(edge)
    client.writer.transport.abort()
    await asyncio.wait([reply])
    await edge.gone()
    assert held(edge) == 0


async def test_a_client_that_is_too_slow_gives_back(edge):
    await edge.start(Timeouts(LONG, 0.3, LONG, LONG), LIMITS)
    _, reply = await hold_back(edge)
    assert (await reply).status == 408
    await edge.until(lambda: held(edge) == 0)


async def test_a_body_that_turns_out_wrong_gives_back(edge):
    await edge.start(limits=LIMITS)
    client = await edge.connect()
    client.send(head("/echo", None) + b"%x\r\n" % BODY + bytes(BODY))
    await edge.until(lambda: held(edge) == BODY)
    assert (await client.ask(b"rubbish")).status == 400
    assert held(edge) == 0


async def test_chunks_count_alike(edge):
    await edge.start(limits=LIMITS)
    client = await edge.connect()
    client.send(head("/echo", None))
    for _ in range(3):
        client.send(b"%x\r\n" % BODY + bytes(BODY) + b"\r\n")
    await edge.until(lambda: held(edge) == 3 * BODY)
    assert (await client.ask(b"0\r\n\r\n")).status == 200
    assert held(edge) == 0


def test_a_budget_gives_all_of_itself_and_no_more():
    budget = BodyBudget(8 * MEBIBYTE)
    assert not budget.grow(8 * MEBIBYTE, 8 * MEBIBYTE)
    assert budget.grow(7 * MEBIBYTE, 7 * MEBIBYTE)
    assert not budget.grow(MEBIBYTE, 1)
    assert all(budget.grow(64 * KIBIBYTE, 64 * KIBIBYTE) for _ in range(16))
    assert not budget.grow(1, 1)
    budget.free(64 * KIBIBYTE)
    assert budget.grow(1, 1)


SOURCE_MIB = 16


async def pour(client, mebibytes: int, chunked: bool) -> None:
    piece = bytes(MEBIBYTE)
    for _ in range(mebibytes):
        client.send(b"100000\r\n" + piece + b"\r\n" if chunked else piece)
        await client.writer.drain()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_cut_is_not_read_forever(edge, chunked: bool):
    client = await (await edge.start()).connect()
    # A gibibyte, says one; the other says nothing. Neither sends more than a part of it.
    client.send(head("/cut", None if chunked else 1 << 30))
    await pour(client, SOURCE_MIB + 1, chunked)
    reply = await client.reply()
    assert (reply.status, reply.body, reply.headers["connection"]) == (200, bytes(10), "close")
    assert edge.seen[0].cut
    assert await client.rest() == b""


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_cut_is_read_to_its_end_if_that_is_near(edge, chunked: bool):
    client = await (await edge.start()).connect()
    client.send(head("/cut", None if chunked else SOURCE_MIB * MEBIBYTE))
    await pour(client, SOURCE_MIB, chunked)
    if chunked:
        client.send(b"0\r\n\r\n")
    reply = await client.reply()
    assert (reply.status, reply.body) == (200, bytes(10))
    assert (await client.ask(edge.get())).status == 200


@pytest.mark.parametrize("path", ["/cut", "/small", "/nowhere"])
async def test_a_client_that_sends_without_end_is_answered_and_closed(edge, path: str):
    client = await (await edge.start(Timeouts(linger=2.0))).connect()
    client.send(head(path, None))

    async def pour_forever() -> None:
        while True:
            await pour(client, 1, chunked=True)

    pouring = asyncio.ensure_future(pour_forever())
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == ({"/cut": 200, "/small": 413}.get(path, 404), "close")
    await edge.gone()
    pouring.cancel()
    await asyncio.wait([pouring])


@pytest.mark.parametrize(("path", "status"), [("/cut", 200), ("/now", 413), ("/nowhere", 404)])
def test_a_client_that_sends_without_end_is_not_read_without_end(path: str, status: int):
    served = Served()
    served.receive(head(path, None))
    while b"HTTP/1.1 " not in served.wire.written:
        served.receive(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
    assert served.wire.written.startswith(b"HTTP/1.1 %d " % status)
    answered_after = served.taken
    assert answered_after <= 17 * MEBIBYTE
    while served.wire.reading:
        served.receive(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
    assert served.taken - answered_after <= 17 * MEBIBYTE
    served.connection.expire()
    assert served.wire.closed
    served.end()


def unreadable_routes(edge) -> tuple[Route, ...]:
    return (
        Route("POST", "/told", edge.echo, BodyRule(MEBIBYTE), unreadable=lambda reason: Response(400, reason.encode())),
    )


@pytest.mark.parametrize("body", [b"", b"1\r\n", b"1\r\na\r\n"])
@pytest.mark.parametrize("framing", [b"Content-Length: 50", b"Transfer-Encoding: chunked"])
async def test_a_route_may_answer_a_body_that_ends_too_early(edge, framing: bytes, body: bytes):
    await edge.start(routes=unreadable_routes(edge))
    client = await edge.connect()
    client.send(b"POST /told HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n" + body)
    client.writer.write_eof()
    reply = await client.reply()
    assert (reply.status, reply.body, reply.headers["connection"]) == (400, b"the body ended too early", "close")
    assert await client.rest() == b""
    await edge.gone()
    # Other routes say nothing, and so does this one to half a head.
    for data in (head("/echo", 50) + b"abc", b"POST /told HTTP/1.1\r\nHost"):
        client = await edge.connect()
        client.send(data)
        client.writer.write_eof()
        assert await client.rest() == b""
    assert edge.seen == []


async def test_a_route_may_answer_a_body_that_is_too_slow(edge):
    await edge.start(Timeouts(LONG, 0.2, LONG, LONG), routes=unreadable_routes(edge))
    client, other = await edge.connect(), await edge.connect()
    reply = await client.ask(head("/told", 5) + b"a")
    assert (reply.status, reply.body, reply.headers["connection"]) == (400, b"the body came too slowly", "close")
    assert (await other.ask(head("/echo", 5) + b"a")).status == 408
    assert await client.rest() == b""


async def test_a_body_that_ends_too_early_waits_for_the_answers_before_it(edge):
    await edge.start(limits=LIMITS, routes=unreadable_routes(edge))
    client = await edge.connect()
    client.send(edge.post("/told", b"whole") + head("/told", 60_000) + bytes(30_000))
    assert (await client.reply()).body == b"whole"
    await edge.until(lambda: held(edge) == 30_000)
    client.writer.write_eof()
    assert (await client.reply()).status == 400
    await edge.gone()
    assert held(edge) == 0


async def test_a_whole_body_before_the_end_is_served(edge):
    await edge.start(routes=unreadable_routes(edge))
    client = await edge.connect()
    client.send(edge.post("/told", bytes(100_000)))
    client.writer.write_eof()
    assert (await client.reply()).status == 200
    assert await client.rest() == b""
