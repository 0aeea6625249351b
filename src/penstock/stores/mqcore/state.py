"""What the units of one process share: the ids they give out, the mover they work with, and their books."""

from __future__ import annotations

from random import Random

from penstock import ids
from penstock.stores.figures import FigureBook
from penstock.stores.mqcore.mover import Mover
from penstock.stores.mqcore.reaper import Reaper

_START_BITS = 46


class State:
    """Without a mover and a reaper, programs of their own redeliver and destroy."""

    def __init__(
        self, random: Random, mover: Mover | None, reaper: Reaper | None, figures: FigureBook | None = None
    ) -> None:
        self.mover = mover
        self.reaper = reaper
        self.claimed = 0
        # A folder has no place for them: they are those of this process, since it has started.
        self.figures = figures or FigureBook()
        # Renames in which another process was faster.
        self.lost = 0
        self._origin = ids.new_origin(random)
        self._last_ms = 0
        # No one process hands out numbers for all, so each begins somewhere else: no two make the same id.
        self._seq = random.getrandbits(_START_BITS)

    def next_id(self, now: int) -> str:
        """Ids of one process rise, also when the clock is set back: the order of the names is the order of age."""
        self._last_ms = max(self._last_ms, now)
        self._seq += 1
        return ids.make_id(self._origin, self._last_ms, self._seq)
