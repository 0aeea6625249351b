"""Real servers for tests: one inside the test's process, and one as a process of its own that may be killed."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from devtools.databases import stat_of
from penstock.bridge.desk import Desk
from penstock.bridge.edge_end import EdgeEnd
from penstock.bridge.remote import RemoteBroker
from penstock.clock import Clock, system_clock
from penstock.limits import Limits
from penstock.pending import Pending
from penstock.server import committer
from penstock.server.app import App
from penstock.server.board import Board, Meter
from penstock.server.committer import Committer
from penstock.server.config import Config
from penstock.server.front import Front
from penstock.server.tls import tls_context
from penstock.server.workers.listening import bind
from penstock.server.workers.processes import AnnouncedKeys
from penstock.stores import open_store
from penstock.stores.protocol import ExpressStore, SideStore
from penstock.timings import Timings
from tests.talk import Talk
from tests.waiting import wait_until

# In how many processes servers of tests speak HTTP; see `make test`.
WORKERS = int(os.environ.get("PENSTOCK_TEST_WORKERS", "1"))

SERVE = [sys.executable, "-m", "penstock", "serve", "--workers", str(WORKERS)]

# On a busy machine a process takes its time; nothing here depends on how much.
START_S = 300


class Door:
    """In front of a server's store: what a test sets here, such as a `unit` that fails, is met instead of the store's
    own. That one may be compiled, and then nothing of it can be replaced."""

    def __init__(self, store: object) -> None:
        self._store = store
        if isinstance(store, ExpressStore):
            self.begin_sends = store.begin_sends  # which is asked for without `__getattr__`
        if isinstance(store, SideStore):
            self.unit_beside = store.unit_beside

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


committer.open_store = lambda *words, **named: Door(open_store(*words, **named))


class ShiftedClock:
    """The system's time, and as much as a test adds to it."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._stopped_at: int | None = None

    def __call__(self) -> int:
        return (system_clock() if self._stopped_at is None else self._stopped_at) + self.ahead_ms

    def stop(self) -> None:
        """From now on only a test lets time go by, however long its requests take."""
        self._stopped_at = system_clock()

    def advance(self, seconds: float) -> None:
        self.ahead_ms += int(seconds * 1000)


class BridgedApp:
    """A committer and several fronts that reach it by real bridges, all on one event loop."""

    def __init__(self, config: Config, clock: Clock, timings: Timings, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self.committer = Committer(config, self._loop, clock, timings, limits)
        names = [f"edge-{number + 1}" for number in range(WORKERS)]
        board = Board(["committer", *names])
        self._meters = [Meter(board.place("committer"), self._loop)]
        self.committer.meter_with(self._meters[0])
        self._brokers = [RemoteBroker(config.store_timeout_s) for _ in range(WORKERS)]
        ssl = tls_context(config)
        self.fronts: list[Front] = []
        self._desks: set[Desk] = set()
        for name, broker in zip(names, self._brokers, strict=True):
            broker.keys = AnnouncedKeys(broker.keys, self)
            meter = Meter(board.place(name), self._loop)
            self._meters.append(meter)
            self.fronts.append(Front(config, broker, self.committer.facts, self._loop, meter, ssl, timings, clock))
        self.front = self.fronts[0]
        self.faces = self.front.faces

    @property
    def url(self) -> str:
        return self.front.url

    def waiting_claims(self) -> list[str]:
        return self.committer.broker.waiting_claims()

    def announce_keys(self) -> Pending[None]:
        """What the supervisor does between processes."""

        async def look(front: Front) -> None:
            read = asyncio.Event()
            front.keys.look_now(read.set)
            await read.wait()

        async def look_everywhere() -> None:
            await asyncio.gather(*map(look, self.fronts))
            told.resolve(None)

        told: Pending[None] = Pending()
        self._announcing = self._loop.create_task(look_everywhere())
        return told

    async def start(self) -> None:
        places = bind(replace(self._config, workers=WORKERS))
        for broker, front, sockets in zip(self._brokers, self.fronts, places, strict=True):
            one, other = socket.socketpair()
            broker.bridge = EdgeEnd(self._loop, broker.forget)
            desk = Desk(self.committer.broker, self._loop, self._desks.discard)
            self._desks.add(desk)
            await self._loop.create_unix_connection(lambda broker=broker: broker.bridge, sock=one)
            await self._loop.create_unix_connection(lambda desk=desk: desk, sock=other)
            await front.start(sockets)
        self.committer.start()
        for meter in self._meters:
            meter.start()

    async def stop(self) -> int:
        until = self._loop.time() + self._config.stop_grace_s
        for meter in self._meters:
            meter.stop()
        self.committer.stop(self._config.stop_grace_s)
        await asyncio.gather(*(front.stop(self._config.stop_grace_s) for front in self.fronts))
        for broker in self._brokers:
            broker.bridge.close()
        while self._desks:
            await asyncio.sleep(0.001)
        return await self.committer.finish(max(0.0, until - self._loop.time()))


class ThreadServer:
    """The whole server on a free port, in a thread: starts in milliseconds."""

    def __init__(
        self, store: str, *, timings: Timings = Timings(), limits: Limits = Limits(), **settings: object
    ) -> None:
        self.clock = ShiftedClock()
        self._timings = timings
        self._limits = limits
        self._config = Config(port=0, store=store, **settings)
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()
        if self._failed:
            raise self._failed

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self._failed = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        make = App if WORKERS == 1 else BridgedApp
        self.app = make(self._config, self.clock, self._timings, self._limits)
        await self.app.start()
        self.url = self.app.url
        self._ready.set()
        await self._stopped.wait()
        await self.app.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def waiting_claims(self) -> list[str]:
        """Asked on the server's own thread: a look from another may meet a change halfway."""

        async def ask() -> list[str]:
            return self.app.waiting_claims()

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    def in_unit(self, work: Callable[[Any], Any], *, write: bool = True) -> Any:
        """What is done in a unit of its store, on the server's own thread: a store serves one thread at a time."""

        async def do() -> Any:
            with self.store.unit(write=write) as unit:
                return work(unit)

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result()

    def changed_elsewhere(self) -> Container[str]:
        """The queues of which its store has had word since it was last asked, by us or by a claim that waits."""
        return self.store.changed_elsewhere()

    @property
    def store(self) -> Any:
        return self.app.committer._store

    @property
    def fronts(self) -> list[Front]:
        return [self.app.front] if WORKERS == 1 else self.app.fronts

    def talk(self) -> Talk:
        return Talk(self.url)


_numbers = itertools.count(1)


class ServerProcess:
    """`penstock serve` as a user runs it. `prefix` is a command to run it under, such as strace. Without `waits`, it
    may not serve yet."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        port: int = 0,
        prefix: Sequence[str] = (),
        waits: bool = True,
        **popen: object,
    ) -> None:
        self.log = folder / f"server-{next(_numbers)}.log"
        self._stderr = self.log.open("w")
        command = [*SERVE, "--port", str(port)]
        if not any(flag.startswith("--store") for flag in flags):
            flags = ("--store", "sqlite:///data/penstock.db", *flags)
        self.process = subprocess.Popen([*prefix, *command, *flags], cwd=folder, stderr=self._stderr, **popen)
        if waits:
            self.wait_until_it_serves()

    def wait_until_it_serves(self) -> None:
        def found() -> re.Match[str] | None:
            return re.search(r"serves (http\S+) from", self.log.read_text())

        wait_until(lambda: found() or self.process.poll() is not None, START_S, every_s=0.02)
        serves = found()
        if serves is None:
            raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")
        self.url = serves[1]

    def processes(self) -> dict[int, str]:
        """Those that it has started and that are still there, by their names."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {}
        for pid in map(int, children):
            with suppress(OSError):
                if is_alive(pid):
                    found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def edges(self) -> list[int]:
        return [pid for pid, name in self.processes().items() if name == "penstock-edge"]

    def kill(self) -> None:
        """All of its processes at once: stopped first, none of them answers that another is gone."""
        started = self.processes()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            self.process.send_signal(number)
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.wait()
        wait_until(lambda: not any(map(is_alive, started)))

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait()
        self._stderr.close()
        return code

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.wait()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @contextmanager
    def kept_port(self) -> Iterator[int]:
        """Its port, once it has left it, for the server that takes its place: no other program gets it meanwhile. A
        socket that has it and does not listen keeps out those that ask for any port, not the one that wants this."""
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            def is_bound() -> bool:
                with suppress(OSError):
                    place.bind(("127.0.0.1", self.port))
                    return True
                return False

            wait_until(is_bound)
            yield self.port

    def has_left_its_port(self) -> bool:
        """Threads of a process may keep it for a moment longer than the process is seen."""
        try:
            socket.create_server(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def talk(self) -> Talk:
        return Talk(self.url)

    @contextmanager
    def talks(self, count: int = 16) -> Iterator[list[Talk]]:
        """Connections of which every process that speaks HTTP has some: the kernel deals them out."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.talk()) for _ in range(count)]

    def waiting_claims(self) -> int:
        """How many claims wait, as its processes tell each other once a second."""
        with self.talk() as talk:
            return sum(process["waiting_claims"] for process in talk("GET", "/v1/processes").json["processes"])

    def is_green(self) -> bool:
        """Whichever of its processes is asked."""
        with self.talks() as talks:
            return all(talk("GET", "/health").body == b"green" for talk in talks)


def is_alive(pid: int) -> bool:
    return stat_of(pid)[0] not in "ZX"
