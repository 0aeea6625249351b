"""A process of a server, as its supervisor knows it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Final

from penstock.server.workers.control import SupervisorEnd

COMMITTER: Final = "committer"
EDGE: Final = "edge"


def name_of(role: str, number: int) -> str:
    return f"{role}-{number + 1}" if role == EDGE else role


class Process:
    def __init__(self, role: str, number: int, pid: int, end: SupervisorEnd) -> None:
        self.role = role
        self.number = number
        self.name = name_of(role, number)
        self.pid = pid
        self.end = end
        self.is_ready = False
        self.failed: Exception | None = None

    def __str__(self) -> str:
        return self.name

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
