"""`mq`, `mq-mover` and `mq-reaper` as a user runs them, each a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.servers import START_S
from tests.talk import Talk
from tests.waiting import wait_until

_START = "from penstock.cli.mqcore import {0}; from penstock.stores.mqcore import daemons; {1}{0}()"


class Program:
    def __init__(self, name: str, root: Path, *flags: str, log: Path, poll_s: float | None = None) -> None:
        """With `poll_s`, a mover or reaper that hears of nothing looks so often."""
        self.log = log
        polls = f"daemons.POLL_S = {poll_s}; " if poll_s else ""
        start = _START.format(name.replace("-", "_"), polls)
        with log.open("w") as stderr:
            command = [sys.executable, "-c", start, "--root", str(root), *flags]
            self.process = subprocess.Popen(command, stderr=stderr)
        self._wait_for(r"looks after" if name != "mq" else r"serves (http\S+) from")

    def _wait_for(self, pattern: str) -> None:
        def found() -> re.Match[str] | None:
            return re.search(pattern, self.log.read_text())

        wait_until(lambda: found() or self.process.poll() is not None, START_S, every_s=0.02)
        match = found()
        if match is None:
            raise RuntimeError(f"it did not start:\n{self.log.read_text()}")
        self.url = match[1] if match.re.groups else ""

    def talk(self) -> Talk:
        return Talk(self.url)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
