"""A broker in memory, and one that is reached by a bridge to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.bridge.desk import Desk
from penstock.bridge.edge_end import EdgeEnd
from penstock.bridge.remote import RemoteBroker
from penstock.broker import LocalBroker
from penstock.clock import system_clock
from penstock.pending import Pending
from penstock.stores import open_store


async def result(pending: Pending):
    future = asyncio.get_running_loop().create_future()
    pending.listen(future.set_result, future.set_exception)
    return await future


class Bridged:
    """Both ends, and the sockets between them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.local = LocalBroker(open_store("memory://"), system_clock, self._loop)
        self.local.start()
        self.remote = RemoteBroker(20)
        self.gone: list[Desk] = []

    async def cross(self) -> None:
        one, other = socket.socketpair()
        self.desk = Desk(self.local, self._loop, self.gone.append)
        self.bridge = EdgeEnd(self._loop, self.remote.forget)
        self.edge_transport, _ = await self._loop.create_unix_connection(lambda: self.bridge, sock=one)
        self.desk_transport, _ = await self._loop.create_unix_connection(lambda: self.desk, sock=other)
        self.remote.bridge = self.bridge

    async def ended(self) -> None:
        """Until both ends know that the bridge has ended."""
        async with asyncio.timeout(60):
            while self.remote.bridge is not None or not self.gone:
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self.edge_transport.abort()
        self.desk_transport.abort()
        self.local.stop()
        await self.local.finish(1.0)


@pytest.fixture
async def bridged() -> AsyncIterator[Bridged]:
    both = Bridged()
    await both.cross()
    yield both
    await both.close()
