"""Many files and folders on stable media at once.

Each sync of a file ends with a flush of the device, so sixty-four of them cost sixty-four flushes, side by side or not.
Linux can sync a whole file system in one call: for many files that is several times cheaper, unless others have written
much to the same device meanwhile. Both ways are timed, and the one that was cheaper lately is taken.

A failure is told either way. Before Linux 5.8 a sync of the whole file system did not tell it, so there it is not used.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

# Fewer files than this are synced one by one.
_MANY = 8
# Every so many times the way that seemed dearer is tried again.
_TRY_AGAIN = 32
_WEIGHT = 0.2


class Syncs:
    def __init__(self, threads: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._threads = threads
        self._monotonic = monotonic
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sync") if threads > 1 else None
        self._whole = _syncfs() if threads > 1 else None
        # Seconds a file, by whether the whole file system was synced.
        self._cost = {True: 0.0, False: 0.0}
        self._turns = 0

    def sync_files(self, descriptors: Sequence[int], folder: int) -> None:
        """All of them, which lie in `folder`, or an OSError. None is in use any more when this ends."""
        if self._whole is None or len(descriptors) < _MANY:
            self.sync(descriptors)
            return
        self._turns += 1
        whole = self._cost[True] <= self._cost[False]
        if self._turns % _TRY_AGAIN == 0:
            whole = not whole
        began = self._monotonic()
        if whole:
            self._whole(folder)
        else:
            self.sync(descriptors)
        cost = (self._monotonic() - began) / len(descriptors)
        known = self._cost[whole]
        self._cost[whole] = cost if not known else known + _WEIGHT * (cost - known)

    def sync(self, descriptors: Sequence[int]) -> None:
        """Each of them, side by side: a file system makes those that wait together durable together."""
        if self._pool is None or len(descriptors) <= 1:
            _sync_each(descriptors)
            return
        threads = min(self._threads, len(descriptors))
        shares = [descriptors[number::threads] for number in range(threads)]
        # All are waited for, also when one fails: a descriptor must not be closed while another thread syncs it.
        syncing = [self._pool.submit(_sync_each, share) for share in shares]
        errors = [error for error in (one.exception() for one in syncing) if error is not None]
        if errors:
            raise errors[0]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _sync_each(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.fsync(descriptor)


def _syncfs() -> Callable[[int], None] | None:
    """A sync of the file system that a descriptor is on, or None where it cannot be trusted."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or version is None or (int(version[1]), int(version[2])) < (5, 8):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):
        return None

    def syncfs(descriptor: int) -> None:
        if library.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return syncfs
