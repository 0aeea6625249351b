"""HTTP connections to one server for the tasks of one event loop: what `transport` is for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, cast

from penstock.client.address import FOREIGN, Address, Answer, Doing
from penstock.client.requests import Request
from penstock.client.response import Response
from penstock.client.transport import MOST_IDLE, is_stale


class AsyncPool:
    def __init__(self, address: Address) -> None:
        self.address = address
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[AsyncConnection] = []
        self._closings = 0

    async def close(self) -> None:
        """Connections in use are closed when their answers are here. The next request opens a new one."""
        idle, self._idle = self._idle, []
        self._closings += 1
        if self._loop is asyncio.get_running_loop():
            for connection in idle:
                await connection.close()

    async def ask(self, request: Request[Any], *, fresh: bool = False) -> Answer:
        """As `AsyncConnection.ask`, over a connection that was kept, unless a `fresh` one is wanted or needed."""
        connection = None if fresh else self._kept()
        if connection is None:
            connection = await AsyncConnection.open(self.address)
        closings = self._closings
        answer = await connection.ask(request)
        if closings == self._closings and connection.is_usable and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    def _kept(self) -> AsyncConnection | None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Another loop's connections, maybe of the process that this one was forked from, are left alone.
            self._loop, self._idle = loop, []
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None


class AsyncConnection(asyncio.Protocol):
    """For one request at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._response: Response | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._timeout_s = address.timeout_s
        self._deadline: asyncio.Timeout | None = None

    @classmethod
    async def open(cls, address: Address) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(address.timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(address), address.host, address.port, ssl=address.tls
                )
        except OSError as error:
            raise address.translated(error, Doing.CONNECTING) from error
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether it may be asked (again): it is open and nothing of an earlier request is left."""
        transport, response = self._transport, self._response
        if transport is None or transport.is_closing() or (response is not None and not response.reusable):
            return False
        # Its end may have come while the program kept the loop from looking.
        sock = transport.get_extra_info("socket")
        return transport.get_write_buffer_size() == 0 and not is_stale(sock)

    async def ask(self, request: Request[Any]) -> Answer:
        """The answer, whatever its status. What is left unread of it, even after a cancellation, goes with the
        connection."""
        address = self._address
        if self._transport is None:
            gone = ConnectionResetError("the server closed the connection")
            raise address.translated(gone, Doing.CONNECTING)
        kept = self._response is not None
        self._timeout_s = address.timeout_s + request.wait_s
        self._response = Response()
        self._answered = self._loop.create_future()
        try:
            async with asyncio.timeout(self._timeout_s) as self._deadline:
                self._transport.write(_head(address, request) + (request.body or b""))
                return await self._answered
        except FOREIGN as error:
            raise address.translated(error, Doing.ASKING, self._timeout_s, kept=kept) from error
        finally:
            self._deadline = self._answered = None
            if not self._response.reusable:
                self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        self.abort()
        await self._gone

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            # Nothing was asked.
            self.abort()
            return
        # The time is for the next piece: a long answer may take long, as long as it comes.
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(self._loop.time() + self._timeout_s)
        response = self._response
        self._read(response, lambda: response.feed(data))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._response is not None:
            self._read(self._response, self._response.end)
            self._fail(error or ConnectionResetError("the server closed it"))
        self._gone.set_result(None)

    def _read(self, response: Response, step: Callable[[], None]) -> None:
        try:
            step()
        except HTTPException as error:
            self._fail(error)
            self.abort()
            return
        if response.answer is not None and self._answered is not None and not self._answered.done():
            self._answered.set_result(response.answer)

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


def _head(address: Address, request: Request[Any]) -> bytes:
    lines = [f"{request.method} {address.prefix}{request.path} HTTP/1.1", f"Host: {address.authority}"]
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(request.body or b'')}")
    lines += [f"{name}: {value}" for name, value in address.headers_with(request.headers).items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
