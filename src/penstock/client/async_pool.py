"""Connections to one server for the tasks of one event loop: what `pool` is for threads."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.client.address import Address, Answer, Lost
from penstock.client.async_connection import AsyncConnection
from penstock.client.pool import MOST_IDLE
from penstock.client.requests import Request


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

    async def ask(self, request: Request[Any]) -> Answer:
        """The answer, whatever its status. A request is repeated only where that cannot do anything twice: when a kept
        connection breaks, and the request is repeatable."""
        kept = self._kept()
        if kept is not None:
            try:
                return await self._ask(kept, request)
            except Lost:
                # A connection that was just opened does not go stale: then the server itself is in trouble.
                if not request.repeatable:
                    raise
        connection = await AsyncConnection.open(self.address)
        return await self._ask(connection, request)

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

    async def _ask(self, connection: AsyncConnection, request: Request[Any]) -> Answer:
        closings = self._closings
        answer = await connection.ask(request)
        if closings == self._closings and connection.is_usable and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.abort()
        return answer
