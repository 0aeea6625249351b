"""The queue itself: publish, receive, delete, size.

What is on stable storage when a call returns:

    publish   the payload before the name, then the name: the message is there after a power cut
    delete    the absence of the message: it does not come back
    receive   nothing. If a power cut undoes a claim, the message is delivered again, as it would be after its timeout;
              the same goes for making it ready again

The lock of an instance guards its view and is never held over a sync.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Literal

from penstock.vsqs import arguments, disk, names
from penstock.vsqs.claims import Claims
from penstock.vsqs.errors import QueueClosed, QueueFull
from penstock.vsqs.unfinished import Unfinished
from penstock.vsqs.view import View
from penstock.vsqs.waiting import Waiting

_UNITS: Final = {"ms": 1_000_000, "us": 1_000}
# How often leftovers are looked for, at most.
_SWEEP_EVERY_S: Final = 60.0

Precision = Literal["ms", "us"]


class Queue:
    """One directory, one queue. Safe to share between threads, and to inherit through a fork.

    `capacity` is how many messages, ready and claimed, `publish` lets the queue hold. `precision` is the unit of the
    numbers given to new messages: with "ms" a queue takes at most 1,000 messages a second. `sweep_after` is the age in
    seconds at which a file that a publisher has left unfinished is removed. `clock` returns nanoseconds since the
    epoch. With `watch` False the directory is polled, as it is where there is no inotify. `mode` is that of new
    messages, less what the umask takes away: by default only their owner can read them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        capacity: int | None = None,
        precision: Precision = "ms",
        *,
        sweep_after: float = 3600,
        clock: Callable[[], int] = time.time_ns,
        watch: bool = True,
        mode: int = 0o600,
    ) -> None:
        self._closed = True
        self._capacity = arguments.optional_count("capacity", capacity)
        self._sweep_after_ns = int(arguments.seconds("sweep_after", sweep_after) * 1e9)
        if precision not in _UNITS:
            raise ValueError(f"precision is one of {', '.join(_UNITS)}, not {precision!r}")
        self.path = os.fspath(path)
        self._clock = clock
        self._unit_ns = _UNITS[precision]
        self._watched = watch
        self._renamer = disk.Renamer()
        self._mode = arguments.mode("mode", mode)
        self._directory = disk.open_directory(self.path, self._mode)
        self._closed = False
        self._start()
        _opened.add(self)

    def _start(self) -> None:
        """What a process cannot share with another: also called in a child after a fork."""
        self._lock = threading.Lock()
        self._waiting = Waiting(self._lock)
        self._view = View(self._directory, self._watched, self._waiting.stir)
        self._claims = Claims(self._directory, self._clock, self._renamer, self._view)
        self._unfinished = Unfinished(self._directory, self._mode, self._clock, self._unit_ns, self._lock, self._view)
        self._users = 0
        self._publishing = 0
        self._sweep_at = 0.0

    # The verbs

    def publish(self, payload: bytes | bytearray | memoryview, timeout: float | None = None) -> str:
        """Append a message and return its id, once it is on stable storage.

        If the queue is at its capacity, wait `timeout` seconds, or forever, then raise QueueFull. After any OSError
        the message is not in the queue, unless a consumer was faster than the failure.
        """
        data = arguments.payload(payload)
        deadline = _deadline(arguments.optional_seconds("timeout", timeout))
        with self._in_use():
            self._sweep_when_due()
            if self._capacity is None:
                return self._publish(data)
            self._enter_room(self._capacity, deadline)
            try:
                return self._publish(data)
            finally:
                self._leave_room()

    def receive(
        self, visibility_timeout: float = 10, timeout: float | None = None
    ) -> tuple[str, bytes] | tuple[None, None]:
        """Claim the oldest message for `visibility_timeout` seconds: its id and payload.

        Claims that have run out are made ready first. Waits `timeout` seconds for a message, or forever; with 0 it
        looks once. (None, None) when there was none.
        """
        hold_ms = int(arguments.seconds("visibility_timeout", visibility_timeout) * 1000)
        deadline = _deadline(arguments.optional_seconds("timeout", timeout))
        with self._in_use():
            with self._lock:
                while (taken := self._take(hold_ms)) is None:
                    if not self._sleep(deadline):
                        return None, None
            number, descriptor = taken
            try:
                return str(number), disk.read(descriptor)
            finally:
                os.close(descriptor)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Remove a message in any state: ready, claimed by anyone, or left unfinished by its publisher. True if it was
        there.

        When this returns, the message is gone for good, even if another process removed it.
        """
        number = names.number_of(id)
        with self._in_use():
            with self._lock:
                found = self._claims.remove(number)
            disk.sync(self._directory)
        return found

    def size(self) -> int:
        """How many messages there are, ready and claimed."""
        with self._in_use(), self._lock:
            self._view.refresh(sure=True)
            return len(self._view.mirror)

    # Publishing

    def _publish(self, data: memoryview) -> str:
        while True:
            number, descriptor = self._unfinished.create()
            unfinished, ready = names.of(number, names.UNFINISHED), str(number)
            try:
                try:
                    disk.write(descriptor, data)
                    disk.sync(descriptor)
                finally:
                    os.close(descriptor)
                self._unfinished.close(number)
                self._renamer.rename(self._directory, unfinished, ready)
            except FileNotFoundError:
                # This process was suspended for so long that the file was swept as a leftover, or it was deleted.
                continue
            except FileExistsError:
                # Without a watch a listing may have missed the other message: it was renamed while we read on.
                disk.remove(self._directory, unfinished)
                continue
            except BaseException:
                with suppress(OSError):
                    disk.remove(self._directory, unfinished)
                raise
            try:
                disk.sync(self._directory)
            except BaseException:
                # Not acknowledged, so the caller may publish it again.
                with suppress(OSError):
                    disk.remove(self._directory, ready)
                raise
            return ready

    def _enter_room(self, capacity: int, deadline: float | None) -> None:
        with self._lock:
            while True:
                self._view.refresh(sure=True)
                if len(self._view.mirror) + self._publishing < capacity:
                    self._publishing += 1
                    return
                if not self._sleep(deadline):
                    raise QueueFull(f"the queue holds {capacity} messages")

    def _leave_room(self) -> None:
        with self._lock:
            self._publishing -= 1
            self._waiting.stir()

    # Looking and waiting

    def _take(self, hold_ms: int) -> tuple[int, int] | None:
        since = time.monotonic()
        if since >= self._sweep_at:
            self._view.refresh()
            self._sweep()
        return self._claims.take(hold_ms, since)

    def _sleep(self, deadline: float | None) -> bool:
        """Sleep until it is worth looking again. False when the time is up."""
        seconds = self._view.patience_s
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            seconds = min(seconds, left)
        first = self._view.mirror.first_until()
        if first is not None:
            seconds = min(seconds, max(0.0, first[0] / 1000 - self._clock() / 1e9))
        self._waiting.sleep(seconds, self._view.descriptor)
        if self._closed:
            raise QueueClosed("the queue was closed")
        return True

    def _sweep_when_due(self) -> None:
        if time.monotonic() >= self._sweep_at:
            with self._lock:
                self._view.refresh()
                self._sweep()

    def _sweep(self) -> None:
        self._sweep_at = time.monotonic() + min(_SWEEP_EVERY_S, self._sweep_after_ns / 1e9)
        self._unfinished.sweep(self._clock() - self._sweep_after_ns)

    # The end

    def close(self) -> None:
        """End waiting calls with QueueClosed; calls that are at work finish. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.stir()
            if not self._users:
                self._release()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """The descriptors stay open as long as a call uses them: their numbers would be given to other files."""
        with self._lock:
            if self._closed:
                raise QueueClosed("the queue is closed")
            self._users += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._closed and not self._users:
                self._release()

    def _release(self) -> None:
        self._view.close()
        self._waiting.close()
        os.close(self._directory)

    def _restart_after_fork(self) -> None:
        if self._closed:
            return
        # The parent's threads are not here, and of a watch that two processes read, each gets half the events.
        self._view.close()
        self._waiting.close()
        self._start()

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A queue that could not be opened has nothing to close.
        if not self._closed:
            self.close()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


_opened: weakref.WeakSet[Queue] = weakref.WeakSet()


def _restart_all() -> None:
    for queue in list(_opened):
        queue._restart_after_fork()


os.register_at_fork(after_in_child=_restart_all)
