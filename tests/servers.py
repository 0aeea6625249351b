"""Real servers for tests: one inside the test's process, and one as a process of its own that may be killed."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import uvloop

from penstock.clock import system_clock
from penstock.limits import Limits
from penstock.server import app
from penstock.server.app import App
from penstock.server.config import Config
from penstock.stores import open_store
from penstock.stores.protocol import ExpressStore
from penstock.timings import Timings
from tests.talk import Talk
from tests.waiting import wait_until

# On a busy machine a process takes its time; nothing here depends on how much.
START_S = 300


class Door:
    """In front of a server's store: what a test sets here, such as a `unit` that fails, is met instead of the store's
    own. That one may be compiled, and then nothing of it can be replaced."""

    def __init__(self, store: object) -> None:
        self._store = store
        if isinstance(store, ExpressStore):
            self.begin_sends = store.begin_sends  # which is asked for without `__getattr__`

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


app.open_store = lambda *words, **named: Door(open_store(*words, **named))


class ShiftedClock:
    """The system's time, and as much as a test adds to it."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead_ms

    def advance(self, seconds: float) -> None:
        self.ahead_ms += int(seconds * 1000)


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
        self.app = App(self._config, self.clock, self._timings, self._limits)
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

    def changed_elsewhere(self) -> Container[str]:
        """The queues of which its store has had word since it was last asked, by us or by a claim that waits."""
        return self.app._store.changed_elsewhere()

    def talk(self) -> Talk:
        return Talk(self.url)


_numbers = itertools.count(1)


class ServerProcess:
    """`penstock serve` as a user runs it. `prefix` is a command to run it under, such as strace."""

    def __init__(self, folder: Path, *flags: str, port: int = 0, prefix: Sequence[str] = (), **popen: object) -> None:
        self.log = folder / f"server-{next(_numbers)}.log"
        self._stderr = self.log.open("w")
        command = [sys.executable, "-m", "penstock", "serve", "--port", str(port)]
        if not any(flag.startswith("--store") for flag in flags):
            flags = ("--store", "sqlite:///data/penstock.db", *flags)
        self.process = subprocess.Popen([*prefix, *command, *flags], cwd=folder, stderr=self._stderr, **popen)
        self.url = self._wait_until_it_serves()

    def _wait_until_it_serves(self) -> str:
        def found() -> re.Match[str] | None:
            return re.search(r"serves (http\S+) from", self.log.read_text())

        wait_until(lambda: found() or self.process.poll() is not None, START_S, every_s=0.02)
        serves = found()
        if serves is None:
            raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")
        return serves[1]

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait()
        self._stderr.close()
        return code

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def talk(self) -> Talk:
        return Talk(self.url)
