"""The entrance of a listener that speaks TLS: who has connected and not yet agreed on it counts as a connection.

An event loop that accepts such clients by itself says nothing of them before the handshake is over. Any number could
stay there, up to the open files of the process, and no limit of ours would see them. So they are accepted here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl as tls
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.edge.connection import Connection
from penstock.edge.connections import Connections

log = logging.getLogger(__name__)

# In one turn of the event loop: clients that are served have their turn, too.
_MOST_AT_ONCE: Final = 128
# When the system has no place for another socket.
_PAUSE_S: Final = 0.5
_NO_PLACE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Handshake:
    """Of one client."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Entrance:
    """`seconds` are what a client may take for its handshake."""

    def __init__(
        self,
        listening: socket.socket,
        ssl: tls.SSLContext,
        connections: Connections,
        connect: Callable[[], Connection],
        seconds: Callable[[], float],
    ) -> None:
        self._listening = listening
        self._ssl = ssl
        self._connections = connections
        self._connect = connect
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _accept(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                client, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_PLACE:
                    raise
                log.error("no connection can be accepted: %s", error)
                self._loop.remove_reader(self._listening)
                self._pause = self._loop.call_later(_PAUSE_S, self._go_on)
                return
            handshake = Handshake()
            if self._connections.greet(handshake):
                handshake.task = self._loop.create_task(self._shake_hands(handshake, client))
            else:
                self._connections.part(handshake)
                client.close()

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)

    async def _shake_hands(self, handshake: Handshake, client: socket.socket) -> None:
        def connect() -> asyncio.BaseProtocol:
            # Called when the client is accepted; that it is connected is told when both have agreed.
            return self._connect()  # type: ignore[return-value]

        client.setblocking(False)
        try:
            with suppress(OSError):  # not TLS, too slow, or gone
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.connect_accepted_socket(
                    connect, client, ssl=self._ssl, ssl_handshake_timeout=self._seconds()
                )
        except asyncio.CancelledError:
            client.close()
        finally:
            self._connections.part(handshake)


def listen(host: str, port: int, backlog: int) -> list[socket.socket]:
    """On all addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(one := socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(backlog)
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets
