"""A process of a server, as its supervisor knows it."""

from __future__ import annotations

import logging
import os
import signal
import socket
from contextlib import suppress
from typing import Final

from penstock.server.workers.control import NewBridge, SupervisorEnd, ToProcess

log = logging.getLogger(__name__)

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
        # When it was ready, and of an edge, the number of the last bridge that was built for it.
        self.ready_at = float("inf")
        self.bridge = 0

    def __str__(self) -> str:
        return self.name

    def say(self, word: ToProcess, descriptors: tuple[int, ...] = ()) -> None:
        if not self.end.say(word, descriptors):
            log.error("%s does not listen: it is replaced", self)
            self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def introduce(edge: Process, committer: Process) -> None:
    one, other = socket.socketpair()
    edge.bridge += 1
    with one, other:
        edge.say(NewBridge(edge.bridge), (one.fileno(),))
        committer.say(NewBridge(edge.bridge), (other.fileno(),))


def how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    return f"has ended with code {os.WEXITSTATUS(status)}"


def take_name(text: str) -> None:
    """As `top` and `ps -e` show the process. A courtesy that only Linux offers."""
    with suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(text)
