"""Requests to answers, one at a time and in order, and the end of a connection.

A request is started only when the answer before it has been handed to the socket and the client keeps
reading. What the client sends meanwhile stays as bytes, up to a bound, after which reading stops.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.edge.encoding import CLOSE, CONTINUE, encode
from penstock.edge.feeding import Feeder
from penstock.edge.http import Handler, Request, Response
from penstock.edge.judging import BODY, DONE, HEAD, IDLE
from penstock.edge.router import Router
from penstock.edge.sweep import NEVER, Sweep
from penstock.pending import Pending

# Why no request may be started, as bits: one is with its handler, the client does not read, the last
# answer has been written, the transport is closing, the next request waits for a turn of the loop.
WAITING: Final = 1
CHOKED: Final = 2
ANSWERED: Final = 4
CLOSING: Final = 8
TURN: Final = 16

_BACKLOG: Final = 1 << 16
_DRAINED_BEHIND: Final = 1 << 24
_LARGE_BODY: Final = 1 << 16

_BARE_500: Final = Response(500)


class Answerer(Feeder):
    __slots__ = (
        "_backlog",
        "_current",
        "_current_persist",
        "_failed",
        "_held",
        "_lingers",
        "_loop",
        "_owes_continue",
        "_pending",
        "_queue",
        "_reading",
        "_transport",
        "_write",
    )

    _write: Callable[[bytes], object]

    def __init__(self, router: Router, sweep: Sweep, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(router, sweep)
        self._loop = loop
        self._failed = router.errors.failed
        self._transport: asyncio.Transport | None = None
        self._held = 0
        self._queue: deque[tuple[Request | None, Handler, bytes]] = deque()
        self._backlog = b""
        self._reading = True
        self._owes_continue = False
        self._lingers = False
        self._current: Request | None = None
        self._current_persist = CLOSE
        self._pending: Pending[Response] | None = None

    def on_message_complete(self) -> None:
        request = self._request
        if request is None:
            return
        self._request = None
        self._phase = IDLE
        if self._rest or self._chunked or self._refusing:
            self._complete_unusual(request)
        persist = self._persist
        if persist is CLOSE:
            self._phase = DONE
        if self._held or self._queue:
            self._queue.append((request, self._handler, persist))
            # Its body has come without our asking.
            self._owes_continue = False
            return
        try:
            answer = self._handler(request)
        except Exception as error:
            answer = self._explain(request, error)
        if answer.__class__ is Response:
            self._send(request, answer, persist)
        else:
            self._wait(request, answer, persist)

    def _complete_unusual(self, request: Request) -> None:
        if self._rest:
            request.body = b"".join((request.body, self._rest))
            self._rest = bytearray()
        if self._chunked:
            self._chunked = False
            self._headers = {}
        self._refusing = False
        self._repeats = 0

    def _serve(self, request: Request | None, handler: Handler, persist: bytes) -> None:
        """Start a request whose turn has come; None when what was sent could not be read as one."""
        if request is None:
            request = Request("", "")
        if self._sweep.persist is CLOSE:
            persist = CLOSE
        try:
            answer = handler(request)
        except Exception as error:
            answer = self._explain(request, error)
        if isinstance(answer, Response):
            self._send(request, answer, persist)
        else:
            self._wait(request, answer, persist)

    def _wait(self, request: Request, answer: object, persist: bytes) -> None:
        if not isinstance(answer, Pending):
            self._send(request, self._explain(request, TypeError("a handler answered no response")), persist)
            return
        self._held |= WAITING
        self._current = request
        self._current_persist = persist
        self._pending = answer
        self.deadline = NEVER
        answer.listen(self._resolved, self._rejected)

    def _resolved(self, response: Response) -> None:
        request = self._current
        # The client may have gone, or a listener may be told twice.
        if self._transport is None or request is None:
            return
        self._current = None
        self._pending = None
        self._held &= ~WAITING
        self._send(request, response, self._current_persist)
        if self._phase or self._queue or self._backlog or not self._reading:
            # In a later turn: whoever resolved us is in the middle of its own work.
            self._held |= TURN
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._held &= ~TURN
        self._advance()

    def _rejected(self, error: Exception) -> None:
        if self._current is not None:
            self._resolved(self._explain(self._current, error))

    def _explain(self, request: Request, error: Exception) -> Response:
        try:
            return self._failed(request, error)
        except Exception:
            return _BARE_500

    def _send(self, request: Request, response: Response, persist: bytes) -> None:
        without_body = request.method == "HEAD"
        try:
            large = len(response.body) > _LARGE_BODY
            data = encode(response, persist, without_body or large)
        except Exception as error:
            response, large = self._explain(request, error), False
            try:
                data = encode(response, persist, without_body)
            except Exception:
                data = encode(_BARE_500, persist, without_body)
        if self._charged:
            self._free_body()
        self._write(data)
        if large and not without_body and response.status not in (204, 304):
            self._write(response.body)
        if persist is CLOSE:
            self._finish()
        else:
            self.deadline = self._sweep.idle_until

    def _free_body(self) -> None:
        self._sweep.bodies.free(self._charged)
        self._charged = 0

    def _receive(self, data: bytes) -> None:
        """Whatever is not one small piece for an idle connection."""
        if self._phase == DONE:
            self._drain(len(data))
            return
        if self._held or self._queue or self._backlog:
            self._backlog += data
        else:
            self._backlog = self._parse(data)
        if len(self._backlog) > _BACKLOG and self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _drain(self, size: int) -> None:
        """What comes behind the last request is read so that the answer is not lost, but not without end: a client
        that sends on and on can read its answer without our reading along."""
        self._drained += size
        if self._drained > _DRAINED_BEHIND and self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _may_parse(self) -> bool:
        return not self._held and not self._queue

    def _advance(self) -> None:
        """Go on with what has waited, as far as it goes."""
        while not self._held:
            if self._queue:
                self._serve(*self._queue.popleft())
            elif self._owes_continue:
                self._owes_continue = False
                self._write(CONTINUE)
            elif self._backlog and self._phase != DONE:
                data, self._backlog = self._backlog, b""
                self._backlog = self._parse(data)
            else:
                break
        if self._held:
            return
        if self._phase == HEAD:
            self.deadline = self._sweep.head_until
        elif self._phase == BODY:
            self.deadline = self._sweep.body_until
        else:
            self.deadline = self._sweep.idle_until
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    def _owe_continue(self) -> None:
        if self._held or self._queue:
            self._owes_continue = True
        else:
            self._write(CONTINUE)

    def _conclude(self, request: Request | None, handler: Handler, lingers: bool = True) -> None:
        self._phase = DONE
        self._request = None
        self._backlog = b""
        self._rest = bytearray()
        self._owes_continue = False
        self._lingers = lingers
        self._queue.append((request, handler, CLOSE))
        self._advance()

    def _finish(self) -> None:
        """After the last answer. A client that may still be sending is read from until it stops:
        closing on unread bytes resets the connection, and the reset can overtake the answer."""
        self._phase = DONE
        self._held |= ANSWERED
        self._queue.clear()
        self._backlog = b""
        transport = self._transport
        if not self._lingers or transport is None:
            self._close()
            return
        self.deadline = self._sweep.linger_until
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def _close(self) -> None:
        """Close once everything is written; the deadline ends a client that does not take it."""
        self._phase = DONE
        self._held |= CLOSING
        self.deadline = self._sweep.write_until
        if self._transport is not None:
            self._transport.close()
