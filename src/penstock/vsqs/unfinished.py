"""Files that are being written: how a new message gets its number, and what becomes of those left behind.

The number is the current time. `O_EXCL` makes it unique among messages being written. To make sure
that no message has the same number in another state, the document lists the directory; here the view answers that, from
the events with a watch, and from a listing without one.

Neither would notice a message that came and went in between: published, received and deleted while this process was
suspended between reading the clock and creating its `N.new`. Its id would then be given out twice, and a slow consumer
could delete another's message. So a number closes when the clock has passed it: its file must exist before that, and
is published only after. An `N.new` created in time is therefore the first of its number, whatever anyone has seen.
Where creating a file takes longer than a number stays open, numbers are taken that far ahead of the clock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from penstock.vsqs import disk, names
from penstock.vsqs.names import UNFINISHED
from penstock.vsqs.view import View

# If the clock is set back by less than this, wait for it, so that the messages of one instance keep their order.
_PATIENCE_NS = 1_000_000_000
_NAP_S = 0.001
# How far ahead a number of microseconds is taken at first: making a file takes longer than one.
_LEAD_NS = 100_000


class Unfinished:
    def __init__(
        self, directory: int, mode: int, clock: Callable[[], int], unit_ns: int, lock: threading.Lock, view: View
    ) -> None:
        self._directory = directory
        self._mode = mode
        self._clock = clock
        self._unit_ns = unit_ns
        self._lock = lock
        self._view = view
        self._last = -1
        self._lead_ns = _LEAD_NS if unit_ns < _LEAD_NS else 0

    def create(self) -> tuple[int, int]:
        """A number that no other message has, and its empty file, open for writing."""
        while True:
            now_ns = self._clock()
            number = (now_ns + self._lead_ns) // self._unit_ns
            behind = self._last - number
            if behind < 0 or behind * self._unit_ns > _PATIENCE_NS:
                descriptor = self._try(number)
                if descriptor is not None:
                    return number, descriptor
            # Until the clock shows another number; never long, for the clock may be set meanwhile.
            time.sleep(min(_NAP_S, (self._unit_ns - now_ns % self._unit_ns) / 1e9))

    def close(self, number: int) -> None:
        """Wait until the clock has passed this number. The payload was synced meanwhile: little is left, if any."""
        closes_ns = (number + 1) * self._unit_ns
        # By the other clock too: ours may stand still, or be set back at any time.
        patient_until = time.monotonic_ns() + min(closes_ns - self._clock(), _PATIENCE_NS)
        while (left_ns := min(closes_ns - self._clock(), patient_until - time.monotonic_ns())) > 0:
            time.sleep(left_ns / 1e9)

    def _try(self, number: int) -> int | None:
        name = names.of(number, UNFINISHED)
        try:
            descriptor = disk.create(self._directory, name, self._mode)
        except FileExistsError:
            return None
        try:
            late = self._clock() >= (number + 1) * self._unit_ns
            with self._lock:
                # A process that was suspended once soon keeps up again; a slow file system stays slow.
                self._lead_ns = self._longer_lead() if late else self._lead_ns - self._lead_ns // 16
                self._view.refresh(sure=True)
                mirror = self._view.mirror
                # The highest number seen may be that of a message deleted since, while a clock was set.
                if not (late or mirror.is_taken(number) or number == mirror.highest):
                    self._last = number
                    return descriptor
        except BaseException:
            self._drop(name, descriptor)
            raise
        self._drop(name, descriptor)
        return None

    def _longer_lead(self) -> int:
        return min(_PATIENCE_NS, max(2 * self._lead_ns, self._unit_ns))

    def _drop(self, name: str, descriptor: int) -> None:
        os.close(descriptor)
        disk.remove(self._directory, name)

    def sweep(self, oldest_ns: int) -> None:
        """Remove what was last written to before then: its publisher has died. With the lock held."""
        for number in sorted(self._view.mirror.unfinished):
            name = names.of(number, UNFINISHED)
            modified_ns = disk.modified_ns(self._directory, name)
            if modified_ns is not None and modified_ns < oldest_ns:
                disk.remove(self._directory, name)
                self._view.mirror.unfinished.discard(number)
