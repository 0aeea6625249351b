"""Files that are being written: how a new message gets its number, and what becomes of those left behind.

The number is the current time. `O_EXCL` makes it unique among messages being written. That no message with the same
number exists in another state is what the document lists the directory for, and what the view answers: with a watch
from the events, without one from a listing.

Why the events are enough: a directory changes one step at a time, and each change queues its event before the next can
start. Once `N.new` exists, every earlier change to any name `N…` is in the queue of events, and no other process can
make a new `N` before `N.new` is gone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from penstock.vsqs import disk, names
from penstock.vsqs.names import DRAFT
from penstock.vsqs.view import View

# A clock set back by less than this is waited for, so that the messages of one instance keep their order.
_PATIENCE_NS = 1_000_000_000
_NAP_S = 0.001


class Drafts:
    def __init__(
        self, directory: int, clock: Callable[[], int], unit_ns: int, lock: threading.Lock, view: View
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._unit_ns = unit_ns
        self._lock = lock
        self._view = view
        self._last = -1

    def create(self) -> tuple[int, int]:
        """A number that is no other message's, and its empty file, open for writing."""
        while True:
            now_ns = self._clock()
            number = now_ns // self._unit_ns
            behind = self._last - number
            if behind < 0 or behind * self._unit_ns > _PATIENCE_NS:
                descriptor = self._try(number)
                if descriptor is not None:
                    return number, descriptor
            # Until the clock shows another number; never long, for the clock may be set meanwhile.
            time.sleep(min(_NAP_S, (self._unit_ns - now_ns % self._unit_ns) / 1e9))

    def _try(self, number: int) -> int | None:
        draft = names.of(number, DRAFT)
        try:
            descriptor = disk.create(self._directory, draft)
        except FileExistsError:
            return None
        try:
            with self._lock:
                self._view.refresh(sure=True)
                mirror = self._view.mirror
                # The highest number seen may be that of a message deleted since: an id is not used twice.
                if number not in mirror and number != mirror.highest:
                    self._last = number
                    return descriptor
        except BaseException:
            self._drop(draft, descriptor)
            raise
        self._drop(draft, descriptor)
        return None

    def _drop(self, draft: str, descriptor: int) -> None:
        os.close(descriptor)
        disk.remove(self._directory, draft)

    def sweep(self, oldest_ns: int) -> None:
        """Remove what was last written to before then: its publisher has died. With the lock held."""
        for number in sorted(self._view.mirror.drafts):
            draft = names.of(number, DRAFT)
            modified_ns = disk.modified_ns(self._directory, draft)
            if modified_ns is not None and modified_ns < oldest_ns:
                disk.remove(self._directory, draft)
                self._view.mirror.drafts.discard(number)
