"""How a job is told to stop, by Ctrl-C or SIGTERM: the first signal ends it in order, the second at once. Either way
none of the processes that it has started stays behind.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from penstock.cli.pipeline.failure import JobEnded
from penstock.terminal import write_at_once

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HOW = {signal.SIGINT: "interrupted", signal.SIGTERM: "told to stop"}


class Told(KeyboardInterrupt):
    """Raised where the job is when the first signal comes."""


class ToldToStop(JobEnded):
    """The job has ended in order because it was told to."""

    def __init__(self, number: int) -> None:
        how = _HOW[signal.Signals(number)]
        super().__init__(f"{how}; nothing is lost: run the same command again to go on", 128 + number)


class Stopping:
    """While it is entered, a signal raises `Told`; `signal` says which one came. A signal that was ignored before, as
    under `nohup`, stays ignored."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._told)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # A last signal must not turn an end in order into another one.
            signal.signal(number, handler if self.signal is None else signal.SIG_IGN)

    def _told(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
            raise Told
        write_at_once(f"{_HOW[signal.Signals(number)]} twice; run the same command again to go on")
        kill_descendants()
        os._exit(128 + number)


def kill_descendants() -> None:
    """The processes that this one has started, and those that they have: a Java has Python workers of its own."""
    for pid in _descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it may have ended meanwhile
            for child in map(int, task.read_text().split()):
                found += [child, *_descendants(child)]
    return found
