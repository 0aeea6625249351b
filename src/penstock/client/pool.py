"""Connections to one server, for any number of threads, and new ones in every process.

A thread has a connection to itself for as long as its request takes, so nobody reads the answer to another's request.
After a fork the child uses none of its parent's connections, and says nothing on them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from penstock.client.address import Address, Answer
from penstock.client.connection import Connection
from penstock.client.requests import Request

# How many connections wait for their next request at most; more are closed when they are done.
MOST_IDLE = 32


class Pool:
    def __init__(self, address: Address) -> None:
        self.address = address
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        _pools.add(self)

    def __del__(self) -> None:
        # A program that forgets a client should not be warned about its sockets.
        for connection in self.__dict__.get("_idle", ()):
            connection.close()

    def close(self) -> None:
        """Connections in use are closed when their answers are here. The next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._busy = set()
        for connection in idle:
            connection.close()

    def ask(self, request: Request[Any]) -> Answer:
        """As `Connection.ask`."""
        with self._lock:
            connection = self._idle.pop() if self._idle else Connection(self.address)
            self._busy.add(connection)
        try:
            return connection.ask(request)
        finally:
            self._put_back(connection)

    def _put_back(self, connection: Connection) -> None:
        with self._lock:
            # Not among the busy ones: the pool was closed meanwhile.
            keep = connection in self._busy and connection.is_open and len(self._idle) < MOST_IDLE
            self._busy.discard(connection)
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def start_again_after_fork(self) -> None:
        """The lock is new as well: a thread that held it does not exist in this process, and never lets go of it."""
        inherited = (*self._idle, *self._busy)
        self._start()
        for connection in inherited:
            connection.abandon()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.start_again_after_fork()


os.register_at_fork(after_in_child=_after_fork)
