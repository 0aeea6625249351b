"""What stands in for a server of one process while its event loop stands still.

SQLite works on the event loop, and a disk that hangs holds it up, and with it all that the server could say. The
understudy has a thread and an event loop of its own, and a front whose broker refuses everything. When the loop of the
server has not turned for as long as a request may wait for the store, it takes the connections that have come since, on
the same sockets: `/health` is red, `/metrics` tells what the board knows, and what needs the store is answered 503.
When the loop turns again, it steps back. Connections that the server has taken before wait with it.

It never touches the store, and gives systemd no signs of life.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import suppress

import uvloop

from penstock.bridge.remote import RemoteBroker
from penstock.server.app import UNDERSTUDY, App
from penstock.server.board import Meter
from penstock.server.config import Config
from penstock.server.front import Front
from penstock.server.pulse import Pulse

log = logging.getLogger(__name__)

# Its answers wait for nothing.
_GRACE_S = 1.0
# A loop that has not turned for so long after it was told to stop is not about to.
_SHORTEST_GRACE_S = 1.0
_SIGNAL_BYTES = 4096
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT})
_LOOK_S = 0.1


class Understudy:
    """`start` and `stop` are called in the main thread, on the event loop of the app, which serves by then.

    Signals to the process pass through the understudy: it must know that the process was told to stop, even if the main
    thread cannot run. One that the disk keeps deep in the kernel does not even take them: then they are pending."""

    def __init__(self, app: App, config: Config) -> None:
        self._app = app
        self._loop = uvloop.new_event_loop()
        beat = lambda: app.board.beat_at("server")  # noqa: E731
        self._pulse = Pulse(beat, config.store_timeout_s, self._loop, self._step_in, self._step_back)
        self._config = config
        self._meter = Meter(app.board.place(UNDERSTUDY), self._loop, of_process=False)
        self._front: Front | None = None
        self._grace_s = max(config.stop_grace_s, _SHORTEST_GRACE_S)
        self._is_told_to_stop = False
        self._is_overdue = False
        self._step: asyncio.Task[None] | None = None
        self._woken, self._wake = socket.socketpair()
        # Where the event loop of the app waits for signals.
        self._of_app = -1
        self._thread = threading.Thread(target=self._run, name="penstock-understudy", daemon=True)

    def start(self) -> None:
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._thread.start()
        self._of_app = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def stop(self) -> None:
        signal.set_wakeup_fd(self._of_app, warn_on_full_buffer=False)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_S)
        if not self._thread.is_alive():
            self._loop.close()
            self._woken.close()
            self._wake.close()

    # In its own thread

    def _run(self) -> None:
        # Here, because it takes a while; and now, because it reads files, which the disk might hang with later.
        self._front = self._made_front()
        # Else one that is pending could not be told from one that is not there.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        self._loop.add_reader(self._woken, self._pass_on)
        self._loop.call_soon(self._pulse.start)
        self._loop.run_forever()

    def _made_front(self) -> Front:
        broker = RemoteBroker(self._config.store_timeout_s)
        broker.fall_silent(self._pulse.no_answer())
        facts, ssl = self._app.committer.facts, self._app.ssl
        return Front(self._config, broker, facts, self._loop, self._meter, ssl, understudy_of=self._app.front)

    def _step_in(self) -> None:
        if self._is_overdue:
            self._leave()
        log.warning(
            "the event loop has stood still for %g s, as it does when a disk hangs: new connections are refused until "
            "it turns",
            self._pulse.timeout_s,
        )
        self._step = self._loop.create_task(self._serve())
        self._look_for_signals()

    def _step_back(self) -> None:
        log.info("the event loop turns again")
        self._step = self._loop.create_task(self._hand_back(self._step))

    async def _serve(self) -> None:
        sockets = [socket.socket(fileno=os.dup(one)) for one in self._app.front.descriptors()]
        if sockets and self._front is not None:
            await self._front.start(sockets)

    async def _hand_back(self, serving: asyncio.Task[None] | None) -> None:
        if serving is not None:
            await serving
        if self._front is not None:
            await self._front.close(_GRACE_S)
        self._meter.write()

    def _pass_on(self) -> None:
        """Signals, by their numbers."""
        with suppress(BlockingIOError):
            told = self._woken.recv(_SIGNAL_BYTES)
            os.write(self._of_app, told)
            if not _ENDS.isdisjoint(told):
                self._await_stop()

    def _look_for_signals(self) -> None:
        if not _ENDS.isdisjoint(signal.sigpending()):
            self._await_stop()
        elif self._pulse.stands_still:
            self._loop.call_later(_LOOK_S, self._look_for_signals)

    def _await_stop(self) -> None:
        if not self._is_told_to_stop:
            self._is_told_to_stop = True
            self._loop.call_later(self._grace_s, self._see_whether_it_stops, self._pulse.beat())

    def _see_whether_it_stops(self, beat: float) -> None:
        """At the end of the grace. A server that still turns is about to end, unless it stands still from now on."""
        self._is_overdue = True
        if self._pulse.stands_still or self._pulse.beat() == beat:
            self._leave()

    def _leave(self) -> None:
        """A thread that a disk keeps may keep the whole process in the kernel. Its port must not wait for that."""
        log.warning("stopped without the store, which has not answered")
        for one in self._app.front.descriptors():
            with suppress(OSError), socket.socket(fileno=os.dup(one)) as listening:
                listening.shutdown(socket.SHUT_RDWR)
        os._exit(0)
