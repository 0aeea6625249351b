"""The listening sockets of a server of several processes. One process binds them for all."""

from __future__ import annotations

import socket
from itertools import chain
from typing import Any

from penstock.edge.listener import ACCEPT_BACKLOG
from penstock.server.config import Config
from penstock.server.front import cannot_listen


def bind(config: Config) -> list[list[socket.socket]]:
    """The listening sockets of each edge: one for each address that the host stands for. Each edge has its own, and the
    kernel deals connections out among them."""
    bound: list[list[socket.socket]] = [[] for _ in range(config.workers)]
    try:
        addresses = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        port = config.port
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            if not _is_known(family, kind, protocol) and len(addresses) > 1:
                continue
            for sockets in bound:
                place = (address[0], port, *address[2:])
                one = _bound(family, kind, protocol, place, shared=sockets is not bound[0])
                sockets.append(one)
                one.listen(ACCEPT_BACKLOG)
                # The first alone: sockets that share a port would also share it with another server.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                port = one.getsockname()[1]
    except OSError as error:
        for one in chain.from_iterable(bound):
            one.close()
        raise cannot_listen(config, error) from error
    return bound


def _is_known(family: int, kind: int, protocol: int) -> bool:
    """Whether the system speaks this family of addresses."""
    try:
        socket.socket(family, kind, protocol).close()
    except OSError:
        return False
    return True


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
