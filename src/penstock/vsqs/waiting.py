"""How the threads of one instance sleep until the directory may have changed.

One of them, the sentry, sleeps in the kernel on the watch; the others on a condition. When the sentry wakes it wakes
them all, and the first to sleep again is the next sentry. A thread that learns of a change by other means calls `stir`,
because the sentry may have slept through it: an event that was read no longer wakes anyone.
"""

from __future__ import annotations

import os
import select
import threading


class Waiting:
    """Every method is called with the lock held."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._others = threading.Condition(lock)
        self._sentry = False
        self._sleepers = 0
        self._bell: tuple[int, int] | None = None

    def sleep(self, seconds: float, descriptor: int | None) -> None:
        """Until stirred, until the descriptor is readable, or for `seconds`. The lock is free meanwhile."""
        self._sleepers += 1
        try:
            if self._sentry:
                self._others.wait(seconds)
            else:
                self._keep_watch(seconds, descriptor)
        finally:
            self._sleepers -= 1

    def _keep_watch(self, seconds: float, descriptor: int | None) -> None:
        poll = select.poll()
        bell = self._open_bell()
        poll.register(bell, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        self._sentry = True
        self._lock.release()
        try:
            poll.poll(seconds * 1000)
        finally:
            self._lock.acquire()
            self._sentry = False
            self._others.notify_all()
            self._silence(bell)

    def stir(self) -> None:
        """Wake every sleeper."""
        if not self._sleepers:
            return
        self._others.notify_all()
        if self._sentry and self._bell is not None:
            try:
                os.write(self._bell[1], b"!")
            except BlockingIOError:
                # It rings already.
                return

    def _open_bell(self) -> int:
        if self._bell is None:
            self._bell = os.pipe()
            for end in self._bell:
                os.set_blocking(end, False)
        return self._bell[0]

    @staticmethod
    def _silence(bell: int) -> None:
        try:
            while os.read(bell, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        if self._bell is not None:
            for end in self._bell:
                os.close(end)
            self._bell = None
