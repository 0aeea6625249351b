"""`mq`, `mq-mover` and `mq-reaper` as a user runs them, each a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.talk import Talk

_START = "from penstock.cli.mqcore import {0}; {0}()"


class Program:
    def __init__(self, name: str, root: Path, *flags: str, log: Path) -> None:
        self.log = log
        with log.open("w") as stderr:
            command = [sys.executable, "-c", _START.format(name.replace("-", "_")), "--root", str(root), *flags]
            self.process = subprocess.Popen(command, stderr=stderr)
        self._wait_for(r"looks after" if name != "mq" else r"serves (http\S+) from")

    def _wait_for(self, pattern: str) -> None:
        while not (found := re.search(pattern, self.log.read_text())):
            if self.process.poll() is not None:
                raise RuntimeError(f"it did not start:\n{self.log.read_text()}")
            threading.Event().wait(0.02)
        self.url = found[1] if found.re.groups else ""

    def talk(self) -> Talk:
        return Talk(self.url)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def eventually(is_so: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it never became so"
        time.sleep(0.01)
