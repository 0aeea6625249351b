"""Clients that are processes of their own, so that they can be killed and stopped: gq, VSQS, and some of the load."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_numbers = itertools.count(1)


class Process:
    """`python -m soak.processes.KIND`, which says "ready" once it works and ends on SIGTERM. Its client has a name of
    its own in the history."""

    def __init__(
        self, kind: str, history: Path, seed: int, *words: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.kind = kind
        self.name = f"{kind}{next(_numbers)}"
        self._is_ready = False
        self._log = history.parent / "processes.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"soak.processes.{kind}", str(history), self.name, str(seed), *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **(environ or {})},
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        if self._is_ready:
            return
        self._is_ready = self._process.stdout.readline() == b"ready\n"
        if not self._is_ready:
            self.close()
            raise RuntimeError(f"{self.name} did not start:\n{self._log.read_text()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Let it finish what it has begun."""
        self.wait_until_ready()  # or the signal would end it as it ends any process
        self._process.terminate()
        self.wait()

    def wait(self) -> None:
        code = self._process.wait(120)
        self.close()
        if code:
            raise RuntimeError(f"{self.name} has failed:\n{self._log.read_text()}")

    def close(self) -> None:
        with suppress(ProcessLookupError):
            if self._process.poll() is None:
                self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


def told_to_stop() -> threading.Event:
    """Set by SIGTERM; for the process itself."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop
