"""Servers as processes, on a port that stays theirs: killed, stopped, continued, started again."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from devtools.databases import stat_of
from soak.warm import PATIENCE_S, Child, warm_servers

# Outside the range that the kernel hands out, so that no client gets one between two lives of a server.
_PORTS = range(20_000, 32_000)
# Nor another campaign: a port is free between two lives of a server.
_LOCKS = Path(tempfile.gettempdir()) / "penstock-soak-ports"


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE_S, every_s: float = 0.01) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every_s)


def take_port() -> tuple[int, int]:
    """A port, and the descriptor that keeps it from others who ask here, until it is closed."""
    _LOCKS.mkdir(exist_ok=True)
    for port in Random().sample(_PORTS, len(_PORTS)):
        lock = os.open(_LOCKS / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            socket.create_server(("127.0.0.1", port)).close()
            return port, lock
        os.close(lock)
    raise RuntimeError("all ports for servers of campaigns are taken")


class Server:
    """`penstock serve` on one store, life after life, always on the same port."""

    def __init__(
        self,
        folder: Path,
        store: str = "sqlite:///data/penstock.db",
        *flags: str,
        workers: int = 1,
        prefix: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        name: str = "server",
    ) -> None:
        """Under a `prefix` such as strace, or with an environment of its own, it is started as a user starts it;
        otherwise it is forked, which is faster."""
        self.folder = folder
        self.store = store
        self.port, self._lock = take_port()
        self.url = f"{'https' if '--tls-cert' in flags else 'http'}://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        self._flags = ["--port", str(self.port), "--workers", str(workers), *flags]
        self._prefix = prefix
        self._environ = environ
        self._process: subprocess.Popen[bytes] | Child | None = None

    def start(self, *, waits: bool = True) -> None:
        self._read = self.log.stat().st_size if self.log.exists() else 0
        self.log.touch()
        arguments = [*self._flags, "--store", self.store]
        if self._prefix or self._environ is not None:
            command = [*self._prefix, sys.executable, "-m", "penstock", "serve", *arguments]
            environ = {**os.environ, **(self._environ or {})}
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        else:
            self._process = warm_servers().fork(self.log, "serve", *arguments, folder=self.folder)
        if waits:
            self.wait_until_it_serves()

    def use(self, store: str) -> None:
        """From its next life on."""
        self.store = store

    def wait_until_it_serves(self) -> None:
        def serves() -> bool:
            return re.search(r"serves http\S+ from", self.said()) is not None

        wait_until(lambda: serves() or self.process.poll() is not None, "the server serves")
        if not serves():
            raise RuntimeError(f"the server did not start:\n{self.said()}")

    def said(self) -> str:
        """Its log in this life."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            return log.read().decode(errors="replace")

    @property
    def process(self) -> subprocess.Popen[bytes] | Child:
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def children(self) -> dict[int, str]:
        """The processes that it has started and that are there, by their names."""
        found = {}
        with suppress(OSError):
            pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            for pid in map(int, pids):
                with suppress(OSError):
                    if is_alive(pid):
                        found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def signal(self, number: int) -> None:
        """All of its processes."""
        for pid in (*self.children(), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """All of its processes at one moment: stopped first, none of them answers that another is gone."""
        children = self.children()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self.process.pid, *children):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.process.wait()
        wait_until(lambda: not any(map(is_alive, children)), "all processes of the server are gone", every_s=0.001)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def close(self) -> None:
        if self.is_running:
            self.resume()
            self.kill()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_alive(pid: int) -> bool:
    return stat_of(pid)[0] not in "ZX"
