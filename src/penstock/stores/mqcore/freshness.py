"""Whether a folder has changed since it was listed, told by its mtime.

An mtime has a granularity: a change in the same tick as the last one leaves it as it is. So a listing is trusted only
if the mtime had stood still for a while before it began.
"""

from __future__ import annotations

import os

QUIET_S = 2.0


class Freshness:
    def __init__(self) -> None:
        self._mtime: int | None = None
        self._since = 0.0
        self._quiet = False

    def look(self, folder: int, monotonic: float) -> int:
        """Ask for the folder's mtime, and return it."""
        mtime = os.fstat(folder).st_mtime_ns
        if mtime != self._mtime:
            self._mtime = mtime
            self._since = monotonic
            self._quiet = False
        return mtime

    @property
    def is_stale(self) -> bool:
        """Whether a listing could show something new, as the last look has found it."""
        return not self._quiet

    def listed(self, began: float) -> None:
        """A listing that `began` then is complete; the mtime was asked for before it."""
        self._quiet = began - self._since >= QUIET_S
