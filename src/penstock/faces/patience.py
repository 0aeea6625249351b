"""How many wrong keys are answered as such: a bucket for all callers of all processes together.

Guessing is hopeless anyway, but should not be cheap. A wrong signature is a guess like a wrong key.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.edge.limits import Gauge, OwnGauge
from penstock.timings import Timings


class Patience:
    def __init__(
        self,
        timings: Timings = Timings(),
        monotonic: Callable[[], float] = time.monotonic,
        wrong_keys: Gauge | None = None,
    ) -> None:
        """`wrong_keys` counts them, in all processes of the server."""
        self._timings = timings
        self._monotonic = monotonic
        self._left = timings.wrong_keys
        self._at = monotonic()
        self._wrong_keys: Gauge = wrong_keys or OwnGauge()
        self._wrong_keys_here = 0
        self._wrong_keys_seen = self._wrong_keys.total()

    def spend(self) -> bool:
        """Count one wrong key, if there is patience for it."""
        now, timings = self._monotonic(), self._timings
        regained = (now - self._at) * timings.wrong_keys_per_second
        wrong_keys = self._wrong_keys.total()
        spent = wrong_keys - self._wrong_keys_seen
        self._left = min(timings.wrong_keys, self._left + regained - spent)
        self._at = now
        self._wrong_keys_seen = wrong_keys
        if self._left < 1:
            return False
        self._wrong_keys_here += 1
        self._wrong_keys.set(self._wrong_keys_here)
        return True
