"""Servers that start in a fraction of the time: forked from a process that has imported them already.

A campaign that starts a server thousands of times would spend its hours importing. Each is a process of its own all the
same, which runs `penstock serve` with its own arguments.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
# Each process runs the main module of this one again, by another name: what that imports is there already.
_context.set_forkserver_preload(["__main__", "soak.campaign", "penstock.cli", "penstock.server.run"])


class Forked:
    """Like a `Popen` of the same command, as far as a server needs it."""

    def __init__(self, arguments: list[str], folder: Path, log: Path) -> None:
        self._process = _context.Process(target=_serve, args=(arguments, str(folder), str(log)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError("the process has not ended")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _serve(arguments: list[str], folder: str, log: str) -> None:
    from penstock.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.argv = ["penstock", "serve", *arguments]
    main()
