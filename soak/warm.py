"""Servers that start in a tenth of the time: forked from a process that has imported all of them already.

A campaign that opens a store thousands of times would otherwise spend its hours importing. Each server is a process of
its own all the same, runs `penstock serve` with its own arguments, and may be killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from soak.server import PATIENCE_S


class WarmServers:
    """The process that forks, until it is closed. Its servers end with it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soak.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, store: str, log: Path, *flags: str) -> WarmServer:
        """Raises OSError with what the server has said, if it does not start."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        log.touch()
        arguments = ["serve", "--port", "0", "--store", store, *flags]
        size = log.stat().st_size
        self._process.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}) + "\n")
        return WarmServer(int(self._process.stdout.readline()), log, size)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> WarmServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WarmServer:
    """`before` is how long its log was before it came."""

    def __init__(self, pid: int, log: Path, before: int) -> None:
        self.pid = pid
        self._log = log
        self._before = before
        # The number may be another's by the time that it is used; this cannot.
        self._handle = os.pidfd_open(pid)
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            _, serves, rest = self.said().partition(" serves ")
            if serves and " " in rest:
                return rest.split()[0]
            if self._has_ended(0.003) and " serves " not in self.said():
                self._close()
                raise OSError(f"the server did not start: {self.said()}")
        self.kill()
        raise TimeoutError(f"the server did not start in time: {self.said()}")

    def said(self) -> str:
        return self._log.read_bytes()[self._before :].decode(errors="replace").strip()

    def _has_ended(self, within_s: float) -> bool:
        return bool(select.select([self._handle], [], [], within_s)[0])

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._handle >= 0:
            self.signal(number)
            if not self._has_ended(PATIENCE_S):
                raise TimeoutError(f"the server did not end: {self.said()}")
            self._close()

    def _close(self) -> None:
        os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> WarmServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _fork_servers() -> None:
    """One for each line that is read."""
    from penstock.cli import main
    from penstock.server import run

    assert run  # a command imports it when it needs it, and each child would do so again

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(descriptor, number)
        sys.argv = ["penstock", *asked["arguments"]]
        main()


if __name__ == "__main__":
    _fork_servers()
