"""The listening sockets of a server of several processes. One process binds them for all."""

from __future__ import annotations

import socket
from typing import Any

from penstock.edge.listener import ACCEPT_BACKLOG
from penstock.server.config import Config
from penstock.server.front import cannot_listen


def bind(config: Config) -> list[list[socket.socket]]:
    """The listening sockets of each edge: one for each address that the host stands for. Each edge has its own, and the
    kernel deals connections out among them."""
    try:
        addresses = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        port = config.port
        bound: list[list[socket.socket]] = [[] for _ in range(config.workers)]
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            # Alone at first: sockets that share a port would also share it with another server.
            with _bound(family, kind, protocol, (address[0], port, *address[2:]), shared=False) as probe:
                port = probe.getsockname()[1]
            for sockets in bound:
                one = _bound(family, kind, protocol, (address[0], port, *address[2:]), shared=True)
                one.listen(ACCEPT_BACKLOG)
                sockets.append(one)
    except OSError as error:
        raise cannot_listen(config, error) from error
    return bound


def _bound(family: int, kind: int, protocol: int, address: tuple[Any, ...], shared: bool) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except OSError:
        one.close()
        raise
    one.setblocking(False)
    return one
