"""One client, as its transport and the sweep see it.

It has no timers: the sweep reads its deadline. It never looks into a request.
"""

from __future__ import annotations

import asyncio
from array import array
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade

from penstock.edge.answering import ANSWERED, CHOKED, CLOSING, TURN, WAITING, Answerer
from penstock.edge.encoding import CLOSE
from penstock.edge.judging import BODY, DONE, HEAD, IDLE
from penstock.edge.sweep import NEVER


class Connection(Answerer, asyncio.Protocol):
    __slots__ = ()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        connections = self._sweep.connections
        connections.add(self)
        limit = self._sweep.limits.connections
        if len(connections) > limit:
            if len(connections) > limit + limit // 8 + 8:
                # Even saying no has a limit.
                self.abort()
                return
            self._turn_away(None, "too many connections")
        elif self._sweep.persist is CLOSE:
            self._close()

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase or self._held or len(data) > self._piece:
            self._receive(data)
            return
        try:
            self._feed(data)
        except HttpParserUpgrade as upgrade:
            self._skip_upgrade()
            self._receive(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._fail_parsing(error)
        else:
            if self._phase:
                self._check_progress(len(data))

    def eof_received(self) -> bool:
        transport = self._transport
        if transport is None or not self._held & WAITING:
            unreadable = self._unreadable("the body ended too early")
            if transport is not None and unreadable is not None and not self._backlog:
                self._drop_body(self._request)
                self._conclude(self._request, unreadable, lingers=False)
                # Not yet, if the client does not take the answers before this one. TLS cannot be half closed.
                return bool(self._queue) and transport.get_extra_info("sslcontext") is None
            # Answers already written are still flushed by the transport.
            self._held |= CLOSING
            self.deadline = self._sweep.write_until
            return False
        pending, self._pending = self._pending, None
        if pending is not None and pending.cancel():
            self._current = None
            self._held |= CLOSING
            self.deadline = self._sweep.write_until
            return False
        # TLS cannot be half closed; there the answer is lost with the connection.
        if transport.get_extra_info("sslcontext") is not None:
            return False
        self._phase = DONE
        self._queue.clear()
        self._backlog = b""
        self._current_persist = CLOSE
        return True

    def connection_lost(self, _exc: Exception | None) -> None:
        self._transport = None
        self._phase = DONE
        self._held |= CLOSING
        self._sweep.forget(self)
        pending, self._pending = self._pending, None
        self._queue.clear()
        self._backlog = b""
        self._rest = bytearray()
        self._free_body()
        self._request = self._upgrading = self._current = None
        # The parser holds our callbacks and we hold the parser: without this only the cycle
        # collector would free either.
        del self._parser, self._feed, self._write
        if pending is not None:
            pending.cancel()

    def pause_writing(self) -> None:
        self._held |= CHOKED
        self._sweep.choke(self)

    def resume_writing(self) -> None:
        self._held &= ~CHOKED
        self._sweep.unchoke(self)
        if self._held & CLOSING:
            self.deadline = self._sweep.write_until
        else:
            self._advance()

    # Called by a guard that wants to know.

    def address(self) -> str:
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "an unknown address"

    # Called by the sweep.

    def expire(self) -> None:
        held = self._held
        if held & CLOSING and not held & CHOKED:
            self.abort()
        elif held & ANSWERED and not held & CLOSING:
            self._close()
        elif held:
            # With its handler, or choked, which the sweep watches apart. Set anew when it goes on.
            self.deadline = NEVER
        elif self._phase == IDLE:
            self._close()
        else:
            unreadable = self._unreadable("the body came too slowly")
            if unreadable is None:
                self._give_up(self._request, 408, "too slow")
            else:
                self._drop_body(self._request)
                self._conclude(self._request, unreadable)

    def unwritten(self) -> int:
        transport = self._transport
        if transport is None:
            return 0
        # The kernel takes megabytes ahead and reports room late: to see a slow client take a few
        # bytes, what it has not acknowledged counts as well.
        waiting = array("i", (0,))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):
                ioctl(sock.fileno(), TIOCOUTQ, waiting)
        return transport.get_write_buffer_size() + waiting[0]

    def abort(self) -> None:
        self._held |= CLOSING
        self.deadline = self._sweep.write_until
        if self._transport is not None:
            self._transport.abort()

    def wind_down(self) -> None:
        """The listener stops: whatever is in progress is the last."""
        if self._held & (WAITING | TURN) or self._queue or self._phase in (HEAD, BODY):
            self._persist = self._current_persist = CLOSE
        else:
            self._close()
