"""What a server tells the service manager that has started it, by the protocol of sd_notify: a datagram for each event.

Under any other parent nothing is told. A word that cannot be delivered is lost: no server fails or waits for it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress


class Systemd:
    """`watchdog_s` is how often it wants a sign of life, half of the time after which it ends the server; None where it
    wants none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # In the abstract namespace of Linux the first byte is NUL, which an environment cannot hold.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._listens = address[:1] in ("/", "@")
        self.watchdog_s = _watchdog_s(environ) if self._listens else None

    def ready(self, status: str) -> None:
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """`ready` follows, whether or not the settings were good."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=stopping")

    def lives(self) -> None:
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        self._tell(f"STATUS={text}")

    def _tell(self, *words: str) -> None:
        if not self._listens:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto("\n".join(words).encode(), self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    microseconds, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not (microseconds.isascii() and microseconds.isdecimal() and int(microseconds)):
        return None
    # It may have been meant for the process that has started this one.
    return None if pid and pid != str(os.getpid()) else int(microseconds) / 2_000_000
