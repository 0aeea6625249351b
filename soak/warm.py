"""Servers that start in a tenth of the time: forked from a process that has imported all of them already.

A campaign that starts servers thousands of times would otherwise spend its hours importing. Each server is a process of
its own all the same, runs `penstock serve` with its own arguments, and may be traced, stopped and killed.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

# A process takes its time on a busy machine; nothing is judged by how much.
PATIENCE_S = 120
_BEGIN = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61

Prepare = Callable[[int], object]


class WarmServers:
    """The process that forks, until it is closed. Those that it has forked end with it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soak.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._lock = threading.Lock()

    def start(self, store: str, log: Path, *flags: str, prepare: Prepare | None = None) -> WarmServer:
        """Raises OSError with what the server has said, if it does not start."""
        server = WarmServer(self.fork(log, "serve", "--port", "0", "--store", store, *flags, prepare=prepare))
        server.wait_until_it_serves()
        return server

    def fork(self, log: Path, *arguments: str, folder: Path | None = None, prepare: Prepare | None = None) -> Child:
        """A process that does nothing yet while `prepare` is called with its id; in the folder, or in ours."""
        log.touch()
        size = log.stat().st_size
        asked = {"arguments": arguments, "log": str(log.absolute()), "folder": str(folder or Path.cwd())}
        child = Child(self._ask(asked), log, size, self.reap)
        if prepare is not None:
            prepare(child.pid)
        child.send_signal(_BEGIN)
        return child

    def reap(self, pid: int) -> int:
        """The exit code of a process that has ended."""
        return self._ask({"reap": pid})

    def _ask(self, question: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(question) + "\n")
            return int(self._process.stdout.readline())

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_shared: list[WarmServers] = []
_sharing = threading.Lock()


def warm_servers() -> WarmServers:
    """One for all rounds of this process, until it ends."""
    with _sharing:
        if not _shared or not _shared[0].is_running:
            _shared[:] = [WarmServers()]
            atexit.register(_shared[0].close)
        return _shared[0]


class Child:
    """Like a `Popen` of the same command, as far as a server needs it. `before` is how long its log was before it
    came, and `reap` asks its parent how it has ended."""

    def __init__(self, pid: int, log: Path, before: int, reap: Callable[[int], int]) -> None:
        self.pid = pid
        self._reap = reap
        self._code: int | None = None
        self._log = log
        self._before = before
        # The number may be another's by the time that it is used; this cannot.
        self._handle = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def said(self) -> str:
        return self._log.read_bytes()[self._before :].decode(errors="replace").strip()

    def has_ended(self, within_s: float = 0) -> bool:
        if self._handle < 0:
            return True
        look = select.poll()
        look.register(self._handle, select.POLLIN)
        return bool(look.poll(within_s * 1_000))

    def send_signal(self, number: int) -> None:
        if self._handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: int) -> None:
        self.send_signal(number)
        self.wait()

    def poll(self) -> int | None:
        return self.wait() if self.has_ended() else None

    def wait(self, timeout: float = PATIENCE_S) -> int:
        if not self.has_ended(timeout):
            raise TimeoutError(f"the process did not end: {self.said()}")
        with self._lock:
            if self._code is None:
                self._code = self._reap(self.pid)
                os.close(self._handle)
                self._handle = -1
        return self._code


class WarmServer:
    url: str

    def __init__(self, child: Child) -> None:
        self._child = child
        self.said = child.said
        self.kill = child.kill
        self.has_ended = child.has_ended

    def wait_until_it_serves(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            ended = self.has_ended(0.003)
            _, serves, rest = self.said().partition(" serves ")
            if serves and " " in rest:
                self.url = rest.split()[0]
                return
            if ended:
                self._child.wait()
                raise OSError(f"the server did not start: {self.said()}")
        self.kill()
        raise TimeoutError(f"the server did not start in time: {self.said()}")

    def terminate(self) -> None:
        self._child.end(signal.SIGTERM)

    def __enter__(self) -> WarmServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _fork_children() -> None:
    """One for each line that is read."""
    from penstock.cli import main
    from penstock.server import run
    from soak.script import run_vsqs

    assert run  # a command imports it when it needs it, and each child would do so again
    # Or each child would look through all of it, and so copy it.
    gc.collect()
    gc.freeze()
    # Ctrl-C is for the campaign, which closes what it has opened.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [_BEGIN])
    libc = ctypes.CDLL(None)
    for line in sys.stdin:
        asked = json.loads(line)
        if "reap" in asked:
            print(os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1]), flush=True)
            continue
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Where only a parent may trace a process, anybody of ours may trace this one.
        libc.prctl(_PR_SET_PTRACER, ctypes.c_ulong(2**64 - 1))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(asked["folder"])
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(descriptor, number)
        signal.sigwait([_BEGIN])
        if asked["arguments"][0] == "vsqs":
            run_vsqs(*asked["arguments"][1:])
            return
        sys.argv = ["penstock", *asked["arguments"]]
        main()


if __name__ == "__main__":
    _fork_children()
