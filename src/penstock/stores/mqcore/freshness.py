"""Whether a folder has changed since it was listed, told by its mtime.

An mtime has a granularity: a change in the same tick as the last one leaves it as it is. So a listing is trusted only
if the mtime had stood still for a while before it began.
"""

from __future__ import annotations

SETTLE_S = 2.0


class Freshness:
    def __init__(self) -> None:
        self._mtime: int | None = None
        self._since = 0.0
        self._settled = False

    def is_stale(self, mtime: int, monotonic: float) -> bool:
        """Whether a listing could show something new."""
        if mtime != self._mtime:
            self._mtime = mtime
            self._since = monotonic
            self._settled = False
        return not self._settled

    def listed(self, began: float) -> None:
        """A listing that `began` then is complete; the mtime was asked for before it."""
        self._settled = began - self._since >= SETTLE_S
