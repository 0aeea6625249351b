"""A listener on a port of its own, and a client that speaks bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pytest
import uvloop

from penstock.edge.http import Request, Response
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.listener import Listener
from penstock.edge.router import BodyRule, Errors, Guard, Route, Router
from penstock.pending import Pending
from penstock.server.board import Board
from penstock.server.config import Config
from penstock.server.workers.listening import bind
from tests.edge.wire import post
from tests.servers import WORKERS


def pytest_asyncio_loop_factories(config, item):
    # The program runs on uvloop; the other loop shows that we ask for no more than asyncio promises.
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self, head: bool = False) -> Reply:
        async with asyncio.timeout(60):
            block = await self.reader.readuntil(b"\r\n\r\n")
            line, *lines = block[:-4].decode("latin-1").split("\r\n")
            headers = {}
            for one in lines:
                name, _, value = one.partition(": ")
                headers[name.lower()] = value
            length = 0 if head else int(headers.get("content-length", 0))
            return Reply(int(line.split(" ")[1]), headers, await self.reader.readexactly(length))

    async def ask(self, data: bytes, head: bool = False) -> Reply:
        self.send(data)
        return await self.reply(head)

    async def rest(self) -> bytes:
        """Everything until the server closes; a reset counts as closing."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


class Edge:
    """The server under test. `seen` are the requests that reached a handler."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.pending: list[Pending[Response]] = []
        self.router = Router(())
        self.listener: Listener | None = None
        self.clients: list[Client] = []

    def echo(self, request: Request) -> Response:
        self.seen.append(request)
        return Response(200, request.body, ((b"X-Path", request.path.encode()),))

    def fail(self, request: Request) -> Response:
        raise RuntimeError("on purpose")

    def wait(self, request: Request) -> Pending[Response]:
        self.seen.append(request)
        self.pending.append(Pending())
        return self.pending[-1]

    def big(self, request: Request) -> Response:
        self.seen.append(request)
        return Response(200, b"b" * int(request.query))

    @staticmethod
    def get(path: str = "/echo", *headers: str, version: str = "1.1") -> bytes:
        lines = [f"GET {path} HTTP/{version}", "Host: x", *headers]
        return "\r\n".join((*lines, "", "")).encode()

    post = staticmethod(post)

    @staticmethod
    def chunked(path: str, *chunks: bytes, trailers: bytes = b"") -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        return head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + b"0\r\n" + trailers + b"\r\n"

    def routes(self) -> Iterable[Route]:
        return (
            Route("GET", "/echo", self.echo, head=True),
            Route("POST", "/echo", self.echo, BodyRule(1 << 20)),
            Route("POST", "/small", self.echo, BodyRule(10)),
            Route("POST", "/cut", self.echo, BodyRule(10, cut=True)),
            Route("GET", "/fail", self.fail),
            Route("GET", "/wait", self.wait),
            Route("POST", "/wait", self.wait),
            Route("GET", "/big", self.big),
            Route("GET", "/queues/{name}", self.echo),
        )

    async def start(
        self,
        timeouts: Timeouts | None = None,
        limits: EdgeLimits | None = None,
        guard: Guard | None = None,
        errors: Errors | None = None,
        tls: ssl.SSLContext | None = None,
        routes: Iterable[Route] = (),
    ) -> Edge:
        self.router = Router((*self.routes(), *routes), errors or Errors(), guard)
        if WORKERS == 1:
            self.listener = Listener(self.router, timeouts, limits)
            await self.listener.start("127.0.0.1", 0, tls)
        else:
            # As in one of several processes: on a socket that was made before, and with numbers that others share.
            self.listener = Listener(self.router, timeouts, limits, Board(["edge-1", "edge-2"]).place("edge-2").gauges)
            [sockets] = bind(Config(port=0))
            await self.listener.start_on(sockets, tls)
        return self

    async def connect(self, tls: ssl.SSLContext | None = None, buffer: int = 1 << 16) -> Client:
        assert self.listener is not None
        streams = await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=tls, limit=buffer)
        client = Client(*streams)
        self.clients.append(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.005)

    async def read_all(self) -> None:
        """Until the server has read what was sent before: its loop serves this client no sooner."""
        client = await self.connect()
        for _ in range(2):
            assert (await client.ask(self.get("/nowhere"))).status == 404
        await client.close()

    def handshakes(self) -> int:
        """How many have begun and not ended."""
        assert self.listener is not None
        assert self.listener._connections is not None
        return len(self.listener._connections._handshakes)

    async def gone(self) -> None:
        """Until no connection is left."""
        listener = self.listener
        assert listener is not None
        await self.until(lambda: listener.connections == 0)


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    edge = Edge()
    yield edge
    for client in edge.clients:
        await client.close()
    if edge.listener is not None:
        await edge.listener.stop(0)
        assert edge.listener.connections == 0
