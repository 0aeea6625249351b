"""A server of several processes, as the one that starts, watches and ends the others sees it.

It does no work itself, and so has little that could fail. It binds the sockets before there is any other process, and
keeps them: connections that come while an edge is replaced wait for the new one. Edges and the committer are
introduced to each other here, by a socket pair for each edge: a bridge. When the committer has died, its successor gets
a new bridge to every edge.

One file because each beginning and each end of a process depends on the state of all others, which is here.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from typing import Any

import uvloop

from penstock.bridge.failures import error_of
from penstock.errors import InvalidSetting, StoreUnavailable, TryAgain
from penstock.server.board import Board
from penstock.server.committer import StoreFacts
from penstock.server.config import Config, adopted
from penstock.server.front import url_of
from penstock.server.log_lines import say_reloaded, say_where
from penstock.server.memory import fit_memory
from penstock.server.open_files import fit_open_files
from penstock.server.systemd import Systemd
from penstock.server.tls import renew, tls_context
from penstock.server.workers.announcements import Announcements
from penstock.server.workers.control import (
    BridgeLost,
    CannotBegin,
    Finish,
    KeysAnnounced,
    KeysRead,
    ProcessEnd,
    Ready,
    Reload,
    Stop,
    SupervisorEnd,
    ToSupervisor,
)
from penstock.server.workers.listening import bind
from penstock.server.workers.process import COMMITTER, EDGE, Process, how_it_ended, introduce, name_of, take_name
from penstock.server.workers.processes import run_committer, run_edge, run_whole
from penstock.server.workers.watchdog import Watchdog
from penstock.stores.kinds import find_kind

log = logging.getLogger(__name__)

# A process that was at work is replaced at once, and one that could not begin, after a pause, which grows.
_PAUSE_S = 0.5
# One that has died soon after is given a moment, and so is a bridge that has ended: they might do so over and over.
_SOON_S = 0.5
_BREATH_S = 0.1
# Beginnings in vain, one after the other and without a reason, after which the server gives up. A store that cannot be
# reached is a reason: it is waited for, as a server of one process does.
_MOST_FAILURES = 5
# Beyond the grace that requests have at a stop.
_END_S = 5.0
# How long a process that was killed may take to end.
_KILLED_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_Main = Callable[[ProcessEnd], Coroutine[Any, Any, None]]


class Supervisor:
    """`reread` reads the settings once more."""

    def __init__(self, config: Config, reread: Callable[[], Config], systemd: Systemd) -> None:
        self._config = config
        self._reread = reread
        kind = find_kind(config.store)
        # Whether edges write to the store themselves.
        self._are_whole = kind is not None and kind.has_server
        if kind is not None and not kind.is_shared:
            raise InvalidSetting(f"workers is {config.workers}, but {config.store} lives in one process alone")
        # A process that begins has it from here, whatever has become of its files.
        self._ssl = tls_context(config)
        self._sockets = bind(config)
        edges = [name_of(EDGE, number) for number in range(config.workers)]
        self._board = Board(edges if self._are_whole else [COMMITTER, *edges])
        self._systemd = systemd
        self._watchdog = Watchdog(systemd, self._board)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._processes: list[Process] = []
        self._facts: StoreFacts | None = None
        self._failures = 0
        self._serves = False
        self._has_pages = False
        self._has_console = False
        self._stops = False
        self._finishes = False
        self._kill_at = float("inf")
        self._killed_all = False
        # What is to be done later, and when.
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._announcements = Announcements()

    def run(self) -> None:
        """Until a signal says stop. Raises PenstockError where the server cannot begin, or cannot go on."""
        self._heed_signals()
        # Where edges are whole, the others follow the first: one alone makes the tables of a new store.
        self._do_later(0.0, (lambda: self._start_edge(0)) if self._are_whole else self._start_committer)
        try:
            while self._processes or self._later:
                self._turn()
        finally:
            for process in self._processes:
                process.kill()
            for process in self._processes:
                os.waitpid(process.pid, 0)

    # Its loop

    def _heed_signals(self) -> None:
        for end in (self._wake, self._woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def _turn(self) -> None:
        times = [*(at for at, _ in self._later), self._announcements.due(), self._kill_at, self._watchdog.due]
        timeout = max(0.0, min(times) - time.monotonic())
        for key, _ in self._selector.select(min(_END_S, timeout)):
            if key.data is None:
                self._obey(self._woken.recv(4096))
            else:
                self._hear(key.data)
        self._reap()
        now = time.monotonic()
        due = [action for at, action in self._later if at <= now]
        self._later = [one for one in self._later if one[0] > now]
        for action in due:
            self._try(action)
        if not self._are_whole and self._committer() is None:
            self._announcements.put_off()
        for process in self._announcements.take_late(now):
            log.error("%s does not answer: it is replaced", process)
            process.kill()
        self._watchdog.look(now, self._processes)
        if now >= self._kill_at:
            self._kill_late(now)

    def _try(self, action: Callable[[], None]) -> None:
        """What may fail for want of memory or files is tried again: that is when processes are killed."""
        try:
            action()
        except OSError as error:
            if not self._serves:
                raise StoreUnavailable(f"a process cannot be started: {error}") from error
            self._failures += 1
            log.error("a process or a bridge cannot be made, and is tried again: %s", error)
            self._do_later(self._pause_s(), action)

    def _do_later(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def _pause_s(self) -> float:
        return _PAUSE_S * min(self._failures, _MOST_FAILURES)

    def _kill_late(self, now: float) -> None:
        """Edges first: then the committer can still end in order. One that was killed and does not end is kept by the
        kernel, as a disk that hangs does with those who wait for it: the server need not wait as well."""
        late = self._edges() or self._processes
        if self._killed_all:
            log.warning("stopped without the store, which has not answered")
            self._processes = []
            return
        for process in late:
            log.warning("%s has not ended in time", process)
            process.kill()
        self._killed_all = late is self._processes
        self._kill_at = now + (_KILLED_S if self._killed_all else _END_S)

    def _obey(self, signals: bytes) -> None:
        for number in signals:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop()
            elif number == signal.SIGHUP:
                self._reload()

    def _hear(self, process: Process) -> None:
        words = process.end.hear()
        if words is None:
            # It has gone, or is about to: its end is reaped.
            self._selector.unregister(process.end.socket)
            return
        for word in words:
            self._heed(process, word)

    def _heed(self, process: Process, word: ToSupervisor) -> None:
        match word:
            case Ready(facts, has_pages, has_console):
                process.is_ready = True
                process.ready_at = time.monotonic()
                self._has_pages |= has_pages
                self._has_console |= has_console
                self._failures = 0
                if facts is not None:
                    self._take_facts(facts)
                    self._committer_is_ready()
                elif self._are_whole:
                    self._start_missing_edges()
                self._say_if_all_serve()
            case CannotBegin(why):
                process.failed = error_of(why)
            case BridgeLost(number) if number == process.bridge:
                self._do_later(_BREATH_S, lambda: self._build_bridge(process))
            case KeysAnnounced(number):
                self._announcements.announce(process, number, [one for one in self._edges() if one is not process])
            case KeysRead(number):
                self._announcements.note_read(number, process)

    def _take_facts(self, facts: StoreFacts) -> None:
        if self._facts is not None and (self._facts.url, self._facts.secret) != (facts.url, facts.secret):
            log.warning("the store is another one: the edges are replaced")
            for edge in self._edges():
                edge.kill()
        self._facts = facts

    # Beginnings

    def _start_committer(self) -> None:
        if not self._stops:
            place = self._board.place(COMMITTER)
            self._fork(COMMITTER, 0, lambda line: run_committer(self._config, line, place))

    def _start_edge(self, number: int) -> None:
        if self._stops:
            return
        config, ssl, facts, sockets = self._config, self._ssl, self._facts, self._sockets[number]
        place = self._board.place(name_of(EDGE, number))
        if self._are_whole:
            self._fork(EDGE, number, lambda line: run_whole(config, line, sockets, place, ssl))
        elif facts is not None:
            edge = self._fork(EDGE, number, lambda line: run_edge(config, line, sockets, place, ssl, facts))
            self._build_bridge(edge)

    def _build_bridge(self, edge: Process) -> None:
        """Not while there is no committer: the next one gets bridges to all edges."""

        def build() -> None:
            committer = self._committer()
            if committer is not None and committer.is_ready and edge in self._processes and not self._stops:
                introduce(edge, committer)

        self._try(build)

    def _start_missing_edges(self) -> None:
        """At the beginning: later, each is replaced when it ends."""
        if not self._serves:
            there = {process.number for process in self._edges()}
            for number in range(self._config.workers):
                if number not in there:
                    self._start_edge(number)

    def _committer(self) -> Process | None:
        return next((process for process in self._processes if process.role == COMMITTER), None)

    def _edges(self) -> list[Process]:
        return [process for process in self._processes if process.role == EDGE]

    def _committer_is_ready(self) -> None:
        for edge in self._edges():
            self._build_bridge(edge)
        self._start_missing_edges()

    def _say_if_all_serve(self) -> None:
        if self._serves or self._stops or sum(edge.is_ready for edge in self._edges()) < self._config.workers:
            return
        self._serves = True
        url = url_of(self._config, self._sockets[0][0].getsockname()[1])
        say_where(url, self._config, self._has_pages, self._has_console)
        self._watchdog.begin(f"serves {url}")

    def _fork(self, role: str, number: int, main: _Main) -> Process:
        ours, theirs = socket.socketpair()
        # Until the new process has let go of what wakes this one, a signal to it would seem to be for us.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(role, number, main, ours, theirs)
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            theirs.close()
        process = Process(role, number, pid, SupervisorEnd(ours))
        self._processes.append(process)
        self._selector.register(process.end.socket, selectors.EVENT_READ, process)
        return process

    def _become(self, role: str, number: int, main: _Main, ours: socket.socket, theirs: socket.socket) -> None:
        """The new process, from here to its end."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Ctrl-C reaches all of them, and so does what systemd sends: it is the supervisor's to heed.
            for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(ignored, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._let_go(ours, self._sockets[number] if role == EDGE else [])
            take_name(f"penstock-{role}")
            uvloop.run(main(ProcessEnd(theirs)))
            code = 0
        except Exception:
            log.exception("the %s has failed", role)
        finally:
            logging.shutdown()
            os._exit(code)

    def _let_go(self, ours: socket.socket, own: list[socket.socket]) -> None:
        """In a new process. Else it would hold the lifelines of the others, and their ports when they stop."""
        self._selector.close()
        listening = [one for one in chain.from_iterable(self._sockets) if one not in own]
        for end in (self._wake, self._woken, ours, *(process.end.socket for process in self._processes), *listening):
            end.close()

    # Ends

    def _reap(self) -> None:
        for process in list(self._processes):
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._bury(process, status)

    def _bury(self, process: Process, status: int) -> None:
        self._hear_last(process)
        self._processes.remove(process)
        with suppress(KeyError, ValueError):
            self._selector.unregister(process.end.socket)
        process.end.close()
        self._board.leave(process.name)
        self._announcements.forget(process)
        if self._stops:
            self._finish_if_alone()
            return
        failed = process.failed
        if not process.is_ready:
            self._failures += 1
        # An edge that waits for the committer, or a store that can be waited for, once it was there.
        may_try_again = self._serves or (process.role == EDGE and not self._are_whole)
        if failed is not None and not (may_try_again and isinstance(failed, TryAgain)):
            raise failed
        if not process.is_ready and failed is None and (self._failures >= _MOST_FAILURES or not self._serves):
            raise StoreUnavailable(f"{process} could not begin: it {how_it_ended(status)}")
        log.warning("%s has ended, and is replaced: %s", process, failed or f"it {how_it_ended(status)}")
        number = process.number
        begin = self._start_committer if process.role == COMMITTER else lambda: self._start_edge(number)
        has_lived = time.monotonic() - process.ready_at > _SOON_S
        self._do_later(0.0 if has_lived else _BREATH_S if process.is_ready else self._pause_s(), begin)

    def _hear_last(self, process: Process) -> None:
        with suppress(OSError):
            for word in process.end.hear() or ():
                self._heed(process, word)

    def _stop(self) -> None:
        if self._stops:
            self._kill_at = 0.0  # asked twice: at once
            return
        log.info("stopping")
        self._watchdog.end()
        self._stops = True
        self._later = []
        grace_s = self._config.stop_grace_s
        self._kill_at = time.monotonic() + grace_s + _END_S
        for process in self._processes:
            process.say(Stop(grace_s))
        # Then those who come are refused as soon as the edges have closed theirs.
        for one in chain.from_iterable(self._sockets):
            one.close()
        self._finish_if_alone()

    def _finish_if_alone(self) -> None:
        """The committer ends after the last edge."""
        if self._edges():
            return
        if not self._processes:
            log.info("stopped")
        elif not self._finishes:
            self._finishes = True
            now = time.monotonic()
            left_s = min(self._config.stop_grace_s, max(0.0, self._kill_at - _END_S - now))
            if self._board.beat_at(COMMITTER) < now - self._config.store_timeout_s:
                self._kill_at = now + left_s  # it stands still, and will not hear of it
            for process in self._processes:
                process.say(Finish(left_s))
                if not process.is_ready:
                    # It opens the store, maybe on a disk that hangs, and has nothing yet to end in order.
                    process.kill()
                    self._killed_all, self._kill_at = True, now + _KILLED_S

    # Settings

    def _reload(self) -> None:
        self._systemd.reloading()
        self._take_over()
        self._watchdog.say_ready()

    def _take_over(self) -> None:
        try:
            config, unheeded = adopted(self._config, self._reread())
            config = fit_memory(fit_open_files(config))
            renew(self._ssl, config)
        except InvalidSetting as error:
            log.error("settings are not taken over: %s", error)
            return
        self._config = config
        say_reloaded(config, unheeded)
        for process in self._processes:
            process.say(Reload(asdict(self._config)))
