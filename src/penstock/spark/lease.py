"""One writer at a time: a lease in the server, which a thread prolongs while its holder works.

It keeps two runs of a job from doing the same work, and says so to the second. That nothing is stored twice does not
rest on it: a holder that was believed dead writes the same files as its successor.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from penstock.client import Client, ClientError, LeaseHeld
from penstock.spark.errors import JobFailed
from penstock.terminal import Progress

HOLD_MS = 20_000
_BEATS = 5
_POLL_S = 0.5


class Lease:
    """While it is entered, no one else has the name. `wait` is for a holder that is alive; one that has died is waited
    for as long as its lease lasts, or not at all where it can be seen that it has died."""

    def __init__(
        self, client: Client, queue: str, name: str, progress: Progress, wait: bool = False, hold_ms: int = HOLD_MS
    ) -> None:
        self._client = client
        self._queue = queue
        self._name = name
        self._progress = progress
        self._wait = wait
        self._hold_ms = hold_ms
        self.holder = f"{_this_host()} {os.getpid()}.{_started_at(os.getpid())}.{uuid4().hex[:8]}"
        self._stopped = threading.Event()
        self._lost_to: str | None = None
        self._thread = threading.Thread(target=self._prolong, name=f"lease of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        with suppress(ClientError):
            self._client.drop_lease(self._queue, self._name, self.holder)

    @property
    def is_prolonged(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """It is no longer prolonged, and ends by itself unless it is dropped."""
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Raises JobFailed if somebody else has it by now."""
        if self._lost_to is not None:
            raise JobFailed(
                f"this run was silent for too long, and {self._lost_to} works for {self._name!r} now; it goes on with "
                "what this one has left"
            )

    def _take(self) -> None:
        seen: tuple[str, int] | None = None
        said = False
        while True:
            try:
                self._client.take_lease(self._queue, self._name, self.holder, self._hold_ms)
                return
            except LeaseHeld as held:
                if _is_dead(held.holder):
                    self._client.drop_lease(self._queue, self._name, held.holder)
                    continue
                if seen is None or seen[0] != held.holder:
                    seen = (held.holder, held.until)
                is_alive = held.until > seen[1]
                if is_alive and not self._wait:
                    raise JobFailed(
                        f"another run works on {self._queue} for the consumer {self._name!r} ({held.holder}): wait for "
                        "it with --wait, or use another --consumer"
                    ) from None
                if not said:
                    self._progress.say(f"waiting for another run for the consumer {self._name!r} ({held.holder})")
                    said = True
            time.sleep(_POLL_S)

    def _prolong(self) -> None:
        while not self._stopped.wait(self._hold_ms / 1000 / _BEATS):
            try:
                self._client.take_lease(self._queue, self._name, self.holder, self._hold_ms)
            except LeaseHeld as held:
                self._lost_to = held.holder
                return
            except ClientError:
                continue


def _this_host() -> str:
    """With what tells processes of one number apart: those of another container, or from before a restart."""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{socket.gethostname()}:{started}:{os.readlink('/proc/self/ns/pid')[5:-1]}"
    return socket.gethostname()


def _started_at(pid: int) -> str:
    """Of a process, in ticks since the machine started; empty where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _is_dead(holder: str) -> bool:
    """Whether it can be seen from here that the holder has died."""
    host, _, process = holder.rpartition(" ")
    pid, _, rest = process.partition(".")
    started_at = rest.partition(".")[0]
    return host == _this_host() and pid.isdecimal() and started_at != "" and _started_at(int(pid)) != started_at
