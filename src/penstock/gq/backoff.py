"""How long to wait for a database that is away: longer each time, and one warning for each outage."""

from __future__ import annotations

import logging

log = logging.getLogger("penstock.gq")

_FIRST_S = 0.05
_LONGEST_S = 1.0


class Backoff:
    def __init__(self, what: str) -> None:
        """`what` cannot be done meanwhile, as a warning may say it."""
        self._what = what
        self._delay_s = 0.0

    def failed(self, error: Exception) -> float:
        """The seconds to wait."""
        if not self._delay_s:
            log.warning("%s fails and is tried again: %s", self._what, error)
        self._delay_s = min(_LONGEST_S, self._delay_s * 2) if self._delay_s else _FIRST_S
        return self._delay_s

    def worked(self) -> None:
        if self._delay_s:
            log.info("%s works again", self._what)
        self._delay_s = 0.0
