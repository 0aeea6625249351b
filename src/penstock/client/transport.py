"""HTTP connections to one server, for any number of threads, and new ones in every process.

A request goes out, a status and its bytes come back; nothing here knows of queues. A thread has a connection to itself
for as long as its request takes, so that no thread reads the answer to another's request. Nothing is asked twice here:
a kept connection that turns out to be closed before a byte was sent is replaced, and for the rest `patience` decides.
After a fork the child uses none of its parent's connections, and says nothing on them.
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Protocol

from penstock.client.address import FOREIGN, Address, Answer, Doing
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

    def ask(self, request: Request[Any], *, fresh: bool = False) -> Answer:
        """As `Connection.ask`, over a connection that was kept, unless a `fresh` one is wanted or needed."""
        with self._lock:
            connection = self._idle.pop() if self._idle and not fresh else Connection(self.address)
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


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Connection:
    """For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http: HTTPConnection
        if address.tls is not None:
            self._http = HTTPSConnection(address.host, address.port, timeout=address.timeout_s, context=address.tls)
        else:
            self._http = HTTPConnection(address.host, address.port, timeout=address.timeout_s)

    @property
    def is_open(self) -> bool:
        return self._http.sock is not None

    def close(self) -> None:
        self._http.close()

    def abandon(self) -> None:
        """For a child process that inherited the connection: the parent keeps it, and the server hears nothing.

        This side of the socket goes, so that the server sees when the parent is done. No buffer is closed on the way:
        a thread that exists in the parent only may have locked it forever.
        """
        sock = self._http.sock
        if sock is not None:
            descriptor = sock.detach()
            if descriptor >= 0:
                os.close(descriptor)

    def ask(self, request: Request[Any]) -> Answer:
        """The answer, whatever its status."""
        address = self._address
        headers = address.headers_with(request.headers)
        if self._http.sock is not None and is_stale(self._http.sock):
            self._http.close()
        kept = self._http.sock is not None
        if not kept:
            self._connect()
        finished = False
        timeout_s = address.timeout_s + request.wait_s
        try:
            self._http.sock.settimeout(timeout_s)
            # A server that refuses a body early answers before it closes; that answer may be here already.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._http.request(request.method, address.prefix + request.path, request.body, headers)
            with self._http.getresponse() as response:
                answer = Answer(response.status, response.read(), response.headers)
            finished = True
            return answer
        except FOREIGN as error:
            raise address.translated(error, Doing.ASKING, timeout_s, kept=kept) from error
        finally:
            # What is left unread, even after an interrupt, must never pass for the next request's answer.
            if not finished:
                self._http.close()

    def _connect(self) -> None:
        self._http.timeout = self._address.timeout_s
        try:
            self._http.connect()
        except OSError as error:
            self._http.close()
            raise self._address.translated(error, Doing.CONNECTING) from error


def is_stale(sock: HasDescriptor) -> bool:
    """Between requests a server has nothing to say: whatever is readable is the end of the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
