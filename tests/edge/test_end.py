"""How connections end: clients that leave, a listener that stops, too many at once, TLS."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import ssl
import struct
import subprocess

import pytest

from penstock.edge.connection import Connection
from penstock.edge.http import Response
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.listener import Listener
from penstock.edge.router import Router
from tests.lacking import not_installed


def open_connections() -> int:
    """How many exist in memory, whether or not anything still uses them."""
    return sum(isinstance(one, Connection) for one in gc.get_objects())


async def waiting(edge, cancels: bool | None):
    """A client whose request is with its handler; `cancels` is what calling it off returns."""
    client = await edge.connect()
    client.send(edge.get("/wait") + edge.get("/echo"))
    await edge.until(lambda: len(edge.pending) == 1)
    asked = []

    def on_cancel() -> bool:
        asked.append(True)
        return bool(cancels)

    if cancels is not None:
        edge.pending[0].on_cancel = on_cancel
    return client, asked


async def test_leaving_calls_the_work_off(edge):
    await edge.start()
    client, asked = await waiting(edge, True)
    client.writer.write_eof()
    assert await client.rest() == b""
    await edge.gone()
    assert asked == [True]
    edge.pending[0].resolve(Response(200))


@pytest.mark.parametrize("cancels", [False, None])
async def test_what_cannot_be_called_off_is_still_answered(edge, cancels: bool | None):
    await edge.start()
    client, asked = await waiting(edge, cancels)
    client.writer.write_eof()
    if cancels is not None:
        await edge.until(lambda: asked == [True])
    await edge.read_all()
    edge.pending[0].resolve(Response(200, b"done"))
    reply = await client.reply()
    assert (reply.body, reply.headers["connection"]) == (b"done", "close")
    assert await client.rest() == b""
    assert len(edge.seen) == 1


async def test_a_reset_calls_the_work_off_and_a_late_result_is_harmless(edge):
    await edge.start()
    client, asked = await waiting(edge, False)
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await edge.gone()
    assert asked == [True]
    edge.pending[0].resolve(Response(200, b"nobody reads this"))
    edge.pending[0].reject(RuntimeError("nor this"))


async def test_leaving_in_the_middle_of_a_request(edge):
    await edge.start()
    for data in (b"", b"GE", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na"):
        client = await edge.connect()
        client.send(data)
        client.writer.write_eof()
        assert await client.rest() == b""
    await edge.gone()
    assert edge.seen == []


async def test_a_half_closed_client_gets_what_it_asked_for(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get() * 3)
    client.writer.write_eof()
    assert (await client.rest()).count(b"HTTP/1.1 200 OK") == 3


async def test_a_lost_connection_is_freed_without_the_collector(edge):
    client = await (await edge.start()).connect()
    assert (await client.ask(edge.get())).status == 200
    gc.collect()
    gc.disable()
    try:
        assert open_connections() == 1
        await client.close()
        await edge.gone()
        await edge.until(lambda: open_connections() == 0)
    finally:
        gc.enable()


async def test_stop_answers_what_is_in_progress(edge):
    await edge.start()
    idle = await edge.connect()
    assert (await idle.ask(edge.get())).status == 200
    client, _ = await waiting(edge, False)
    half = await edge.connect()
    half.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
    head = await edge.connect()
    head.send(b"GET /echo HTTP/1.1\r\n")
    await edge.until(lambda: edge.listener.connections == 4)
    await edge.read_all()
    stopping = asyncio.ensure_future(edge.listener.stop(20))
    assert await idle.rest() == b""
    with pytest.raises(ConnectionError):
        await edge.connect()
    half.send(b"bc")
    head.send(b"Host: x\r\n\r\n")
    for one in (half, head):
        reply = await one.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await one.rest() == b""
    assert not stopping.done()
    edge.pending[0].resolve(Response(200, b"in time"))
    reply = await client.reply()
    assert (reply.body, reply.headers["connection"]) == (b"in time", "close")
    assert await client.rest() == b""
    await stopping


async def test_stop_ends_what_takes_longer_than_its_grace(edge):
    await edge.start()
    client, asked = await waiting(edge, False)
    await edge.listener.stop(0.05)
    assert edge.listener.connections == 0
    assert asked == [True]
    assert await client.rest() == b""


async def test_stop_may_come_twice_or_before_start(edge):
    early = Listener(Router(()))
    await early.stop(0)
    assert early.connections == 0
    await early.start("127.0.0.1", 0)
    assert early.port > 0
    await early.stop(0)

    client = await (await edge.start()).connect()
    assert (await client.ask(edge.get())).status == 200
    await edge.listener.stop(0)
    await edge.listener.stop(0)
    assert edge.listener.connections == 0
    assert await client.rest() == b""
    with pytest.raises(ConnectionError):
        await edge.connect()


async def test_too_many_connections(edge):
    await edge.start(limits=EdgeLimits(connections=3))
    inside = [await edge.connect() for _ in range(3)]
    for one in inside:
        assert (await one.ask(edge.get())).status == 200
    outside = await edge.connect()
    reply = await outside.reply()
    assert (reply.status, reply.headers["retry-after"], reply.headers["connection"]) == (503, "1", "close")
    assert await outside.rest() == b""
    await outside.close()
    await inside[0].close()
    await edge.until(lambda: edge.listener.connections == 2)
    assert (await (await edge.connect()).ask(edge.get())).status == 200


async def test_even_refusing_has_a_limit(edge):
    await edge.start(limits=EdgeLimits(connections=1))
    clients = [await edge.connect() for _ in range(30)]
    await edge.until(lambda: edge.listener.connections <= 10)
    assert (await clients[0].ask(edge.get())).status == 200


@pytest.mark.usefixtures("many_files")
async def test_many_idle_connections_keep_no_request_waiting(edge):
    await edge.start()
    await asyncio.gather(*(edge.connect() for _ in range(500)))
    await edge.until(lambda: edge.listener.connections == 500)
    client = await edge.connect()
    for _ in range(100):
        assert (await client.ask(edge.get())).status == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        not_installed("openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    subprocess.run([*command.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def contexts(certificate) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*certificate)
    client = ssl.create_default_context(cafile=certificate[0])
    client.check_hostname = False
    return server, client


async def test_tls(edge, contexts):
    server, trusting = contexts
    client = await (await edge.start(tls=server)).connect(trusting)
    assert (await client.ask(edge.post("/echo", b"secret"))).body == b"secret"
    assert (await client.ask(edge.post("/small", bytes(11)))).status == 413


async def test_leaving_over_tls_calls_the_work_off(edge, contexts):
    server, trusting = contexts
    client = await (await edge.start(tls=server)).connect(trusting)
    client.send(edge.get("/wait"))
    await edge.until(lambda: len(edge.pending) == 1)
    asked = []
    edge.pending[0].on_cancel = lambda: asked.append(True) is None
    await client.close()
    await edge.gone()
    assert asked == [True]


async def test_handshakes_that_go_on_count_as_connections(edge, contexts):
    """Each holds a socket. Those for whom there is no room are not even greeted."""
    server, trusting = contexts
    await edge.start(tls=server, limits=EdgeLimits(connections=2), timeouts=Timeouts(header=0.5))
    idle = [await edge.connect() for _ in range(40)]
    # Two, and those that would be told 503.
    await edge.until(lambda: edge.handshakes() == 2 + 8)
    ended = [asyncio.ensure_future(client.rest()) for client in idle]
    await edge.until(lambda: sum(one.done() for one in ended) >= 30)
    # A handshake has as long as the headers of a request.
    assert [await one for one in ended] == [b""] * 40
    await edge.until(lambda: edge.handshakes() == 0)
    client = await edge.connect(trusting)
    assert (await client.ask(edge.get())).status == 200


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(5_000)]
)
async def test_what_is_not_a_handshake_ends_the_connection(edge, contexts, noise: bytes, caplog):
    server, trusting = contexts
    await edge.start(tls=server)
    for client in [await edge.connect() for _ in range(5)]:
        client.send(noise)
        client.writer.write_eof()
        await client.rest()
    await edge.until(lambda: edge.handshakes() == 0)
    assert edge.listener.connections == 0
    assert (await (await edge.connect(trusting)).ask(edge.get())).status == 200
    assert not caplog.records


async def test_a_request_may_come_with_the_end_of_the_handshake(edge, contexts):
    """In TLS 1.3 a client is done first: both may be in one packet."""
    server, trusting = contexts
    await edge.start(tls=server)
    for number in range(20):
        client = await edge.connect(trusting)
        client.send(edge.post("/echo", b"%d" % number) * 3)
        assert [(await client.reply()).body for _ in range(3)] == [b"%d" % number] * 3


async def test_a_stop_does_not_wait_for_handshakes(edge, contexts):
    server, _ = contexts
    await edge.start(tls=server)
    idle = await edge.connect()
    await edge.until(lambda: edge.handshakes() == 1)
    await edge.listener.stop(60)
    assert await idle.rest() == b""
