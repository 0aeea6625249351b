"""The processes of a server that has several: what each does from its first moment to its last.

An edge speaks HTTP, and has the broker of another process. The committer has the broker and the store, and serves all
edges. Where a database server keeps the store, processes that write need not be one: there each edge is whole, with a
broker of its own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from ssl import SSLContext
from typing import Any, TypeVar

import msgspec

from penstock.bridge.desk import Desk
from penstock.bridge.edge_end import EdgeEnd
from penstock.bridge.failures import failure
from penstock.bridge.remote import RemoteBroker
from penstock.broker.protocol import Keys
from penstock.errors import InvalidSetting, PenstockError
from penstock.limits import Limits
from penstock.model import Actor, CreatedKey, Key, KeyUse
from penstock.pending import Pending
from penstock.server import logs
from penstock.server.board import Board, Meter, Place
from penstock.server.committer import Committer, StoreFacts
from penstock.server.config import Config
from penstock.server.front import Front
from penstock.server.memory import fit_memory
from penstock.server.open_files import fit_open_files
from penstock.server.pulse import Pulse, beat_s
from penstock.server.workers.control import (
    BridgeLost,
    CannotBegin,
    Finish,
    KeysChanged,
    KeysRead,
    NewBridge,
    ProcessEnd,
    Ready,
    Reload,
    Stop,
    ToProcess,
)
from penstock.server.workers.process import COMMITTER

log = logging.getLogger(__name__)

T = TypeVar("T")


async def run_committer(config: Config, line: ProcessEnd, place: Place) -> None:
    loop = asyncio.get_running_loop()
    try:
        committer = Committer(config, loop)
    except PenstockError as error:
        line.say(_failed(error))
        return
    meter = Meter(place, loop, beat_s(config.store_timeout_s))
    committer.meter_with(meter)
    meter.start()
    await _Desks(committer, line, loop).serve()


async def run_edge(
    config: Config,
    line: ProcessEnd,
    sockets: Sequence[socket.socket],
    place: Place,
    ssl: SSLContext | None,
    facts: StoreFacts,
) -> None:
    loop = asyncio.get_running_loop()
    meter = Meter(place, loop)
    broker = RemoteBroker(config.store_timeout_s)
    broker.keys = AnnouncedKeys(broker.keys, line)
    bridged = asyncio.Event()

    def lost(number: int, bridge: EdgeEnd) -> None:
        broker.forget(bridge)
        line.say(BridgeLost(number))

    async def cross(number: int, end: socket.socket) -> None:
        bridge = EdgeEnd(loop, partial(lost, number))
        await loop.create_unix_connection(lambda: bridge, sock=end)  # type: ignore[type-var]
        if bridge.is_open:  # else the committer has died meanwhile, and there will be another
            former, broker.bridge = broker.bridge, bridge
            if former is not None:
                former.close()
            bridged.set()

    _take_pulse(broker, place.board, config.store_timeout_s, loop)
    orders = _Orders(config, line, loop, cross)
    if not await orders.before_stop(bridged.wait()):
        return
    try:
        if "keys" not in facts.missing:
            # The supervisor was not told.
            facts = msgspec.structs.replace(facts, keys=await _result(broker.keys.list(patient=True)))
        front = Front(orders.config, broker, facts, loop, meter, ssl)
        orders.attend(front)
        await front.start(sockets)
    except PenstockError as error:
        line.say(_failed(error))
        return
    meter.start()
    await orders.serve()
    await front.stop(orders.grace_s)
    if broker.bridge is not None:
        broker.bridge.close()


def _take_pulse(broker: RemoteBroker, board: Board, timeout_s: float, loop: asyncio.AbstractEventLoop) -> None:
    """Whether the committer still turns: it stands still while the disk of its store hangs."""

    def fall_silent() -> None:
        log.warning("the committer has stood still for %g s: requests are refused until it turns", timeout_s)
        broker.fall_silent(pulse.no_answer(), loop.time() - timeout_s)

    def speak_again() -> None:
        log.info("the committer turns again")
        broker.speak_again()

    pulse = Pulse(partial(board.beat_at, COMMITTER), timeout_s, loop, fall_silent, speak_again)
    pulse.start()


async def run_whole(
    config: Config, line: ProcessEnd, sockets: Sequence[socket.socket], place: Place, ssl: SSLContext | None
) -> None:
    loop = asyncio.get_running_loop()
    # All of them together let so many claims wait as one server does.
    limits = replace(Limits(), waiters=max(1, Limits().waiters // config.workers))
    meter = Meter(place, loop)
    orders = _Orders(config, line, loop)
    try:
        committer = Committer(config, loop, limits=limits)
        committer.broker.keys = AnnouncedKeys(committer.broker.keys, line)
        committer.meter_with(meter)
        front = Front(config, committer.broker, committer.facts, loop, meter, ssl)
        orders.attend(front)
        await front.start(sockets)
    except PenstockError as error:
        line.say(_failed(error))
        return
    committer.start()
    meter.start()
    await orders.serve()
    until = loop.time() + orders.grace_s
    committer.stop(orders.grace_s)
    await front.stop(orders.grace_s)
    await _finish(committer, max(0.0, until - loop.time()))


async def _finish(committer: Committer, grace_s: float) -> None:
    if await committer.finish(grace_s):
        log.warning("stopped without the store, which has not answered")


def _failed(error: PenstockError) -> CannotBegin:
    return CannotBegin(failure(0, error))


def _set_log(config: Config) -> None:
    logs.configure(config.log_level, config.log_format)


async def _result(pending: Pending[T]) -> T:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    pending.listen(future.set_result, future.set_exception)
    return await future


class _Tasks:
    """Kept until they have ended: the event loop alone would forget them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Desks:
    """The committer's desks, one for each edge, and what it is told by its supervisor."""

    def __init__(self, committer: Committer, line: ProcessEnd, loop: asyncio.AbstractEventLoop) -> None:
        self._committer = committer
        self._line = line
        self._loop = loop
        self._desks: set[Desk] = set()
        self._tasks = _Tasks(loop)
        self._finishing = asyncio.Event()
        self._grace_s = 0.0
        line.listen(loop, self._hear, self._finishing.set)

    async def serve(self) -> None:
        self._committer.start()
        # Without API keys, of which there may be many: each edge reads them itself.
        self._line.say(Ready(msgspec.structs.replace(self._committer.facts, keys=())))
        await self._finishing.wait()
        self._committer.stop(self._grace_s)
        await _finish(self._committer, self._grace_s)
        for desk in list(self._desks):
            desk.close()

    def _hear(self, word: ToProcess) -> None:
        match word:
            case NewBridge():
                end = self._line.bridge()
                if end is not None:
                    self._tasks.begin(self._cross(end))
            case Stop(grace_s):
                self._committer.stop(grace_s)
            case Finish(grace_s):
                self._finish(grace_s)
            case Reload(settings):
                _set_log(Config(**settings))  # type: ignore[arg-type]

    async def _cross(self, end: socket.socket) -> None:
        desk = Desk(self._committer.broker, self._loop, self._desks.discard)
        self._desks.add(desk)
        await self._loop.create_unix_connection(lambda: desk, sock=end)  # type: ignore[type-var]

    def _finish(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._finishing.set()


class _Orders:
    """What a process that speaks HTTP is told by its supervisor. `cross` takes its end of a new bridge."""

    def __init__(
        self,
        config: Config,
        line: ProcessEnd,
        loop: asyncio.AbstractEventLoop,
        cross: Callable[[int, socket.socket], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._line = line
        self._loop = loop
        self._cross = cross
        self._tasks = _Tasks(loop)
        self._front: Front | None = None
        # Announcements of keys that came before there was a front to know them.
        self._unread: list[int] = []
        self._stopped = asyncio.Event()
        self.config = config
        self.grace_s = 0.0
        line.listen(loop, self._hear, partial(self._stop, 0.0))

    async def before_stop(self, awaited: Coroutine[Any, Any, Any]) -> bool:
        """Whether what is awaited has come before a stop."""
        tasks = [self._loop.create_task(awaited), self._loop.create_task(self._stopped.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        return not self._stopped.is_set()

    def attend(self, front: Front) -> None:
        """What is told from now on is for this front, which has not begun to listen."""
        self._front = front
        unread, self._unread = self._unread, []
        for number in unread:
            self._read_keys(number)

    async def serve(self) -> None:
        """Until a stop."""
        front = self._front
        self._line.say(
            Ready(
                has_pages=front is not None and front.has_pages,
                has_console=front is not None and front.has_console,
            )
        )
        await self._stopped.wait()

    def _hear(self, word: ToProcess) -> None:
        match word:
            case NewBridge(number) if self._cross is not None:
                end = self._line.bridge()
                if end is None:
                    self._line.say(BridgeLost(number))
                else:
                    self._tasks.begin(self._cross(number, end))
            case Stop(grace_s):
                self._stop(grace_s)
            case KeysChanged(number):
                self._read_keys(number)
            case Reload(settings):
                self._reload(Config(**settings))  # type: ignore[arg-type]

    def _stop(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._stopped.set()

    def _read_keys(self, number: int) -> None:
        if self._front is None:
            self._unread.append(number)  # what it reads at the moment may be older
        elif self._front.keys is None:
            self._line.say(KeysRead(number))
        else:
            self._front.keys.look_now(partial(self._line.say, KeysRead(number)))

    def _reload(self, config: Config) -> None:
        self.config = fit_memory(fit_open_files(config))
        _set_log(config)
        if self._front is not None:
            try:
                self._front.reload(self.config)
            except InvalidSetting as error:
                log.error("settings are not taken over: %s", error)


class AnnouncedKeys:
    """Keys whose changes every process of the server knows before they are told."""

    def __init__(self, keys: Keys, line: ProcessEnd) -> None:
        self._keys = keys
        self._line = line

    def create(
        self,
        name: str,
        digest: bytes,
        rules: Sequence[str],
        expires_at: int | None = None,
        by: Actor | None = None,
    ) -> Pending[CreatedKey]:
        return self._announced(self._keys.create(name, digest, rules, expires_at, by))

    def update(self, name: str, expires_at: int | None, by: Actor | None = None) -> Pending[Key]:
        return self._announced(self._keys.update(name, expires_at, by))

    def rotate(self, name: str, digest: bytes, grace_ms: int | None = None, by: Actor | None = None) -> Pending[Key]:
        return self._announced(self._keys.rotate(name, digest, grace_ms, by))

    def retire(self, name: str, by: Actor | None = None) -> Pending[Key]:
        return self._announced(self._keys.retire(name, by))

    def note_uses(self, uses: Sequence[KeyUse]) -> Pending[None]:
        return self._keys.note_uses(uses)

    def revoke(self, name: str, by: Actor | None = None) -> Pending[None]:
        return self._announced(self._keys.revoke(name, by))

    def end_session(self, name: str, session: str, until: int, by: Actor | None = None) -> Pending[None]:
        return self._announced(self._keys.end_session(name, session, until, by))

    def list(self, patient: bool = False) -> Pending[Sequence[Key]]:
        return self._keys.list(patient)

    def _announced(self, changed: Pending[T]) -> Pending[T]:
        told: Pending[T] = Pending()

        def announce(value: T) -> None:
            self._line.announce_keys().listen(lambda _: told.resolve(value), told.reject)

        changed.listen(announce, told.reject)
        return told
