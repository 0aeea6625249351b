"""How long to wait before something is tried again: longer each time."""

from __future__ import annotations

import logging

from penstock import policy
from penstock.gq.timings import GqTimings

log = logging.getLogger("penstock.gq")

_FIRST_PAUSE_MS = 100
_LONGEST_PAUSE_MS = 60_000


def pause_ms(receives: int, deadline_at: int | None, now: int) -> int:
    """For a message on which a callback has raised, received so many times. With a deadline there is always another try
    before it."""
    pause = policy.doubled_ms(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, receives)
    return pause if deadline_at is None else max(0, min(pause, (deadline_at - now) // 2))


class Backoff:
    """For a database that is away, with one warning for each outage."""

    def __init__(self, what: str, timings: GqTimings) -> None:
        """`what` cannot be done meanwhile, as a warning may say it."""
        self._what = what
        self._timings = timings
        self._delay_s = 0.0

    def failed(self, error: Exception) -> float:
        """The seconds to wait."""
        if not self._delay_s:
            log.warning("%s fails and is tried again: %s", self._what, error)
        doubled = self._delay_s * 2 if self._delay_s else self._timings.retry_first_s
        self._delay_s = min(self._timings.retry_longest_s, doubled)
        return self._delay_s

    def worked(self) -> None:
        if self._delay_s:
            log.info("%s works again", self._what)
        self._delay_s = 0.0
