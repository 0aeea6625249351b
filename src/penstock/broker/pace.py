"""How large the steps of long work are: so many rows, and fewer where those take too long.

What a row costs is not known beforehand: one has a body of a megabyte, another a hundred twins, a third lies on a slow
disk. So steps that last longer than `step_ms` are followed by some with half the rows, and one that has taken less than
half of it by one with twice as many, up to the full size. Each kind of task has a pace of its own.

One step may be late for reasons of its own, such as another process: it takes several in a row, and fewer of those
that are very late. And where half the rows take as long as all of them, it is not the rows: a database far away answers
no sooner. Then the size is what it was before, for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.limits import Limits

# How often the full size may be halved.
_HALVINGS: Final = 6
# So many slow steps in a row are too many, and so many of those that take so many times too long.
_IN_A_ROW: Final = 3
_VERY_SLOW_IN_A_ROW: Final = 2
_VERY_SLOW: Final = 8
# A step that takes less than this part of its time may be twice as large.
_EASY: Final = 0.5
# Half the rows should take less than this part of what all of them took.
_HELPED: Final = 0.75
# Steps after which another try is made where halving did not help.
_PATIENCE: Final = 100


class _Kind:
    """How many steps in a row were slow, and how long the quickest of them took; and that of those for which the size
    was halved before."""

    __slots__ = ("halvings", "quickest_s", "rest", "slow", "took_s")

    def __init__(self) -> None:
        self.halvings = 0
        self.slow = 0
        self.quickest_s = 0.0
        self.took_s = 0.0
        self.rest = 0

    def begin_anew(self, took_s: float = 0.0) -> None:
        self.slow = 0
        self.took_s = took_s


class Pace:
    """Units in several threads share one: what they note about a kind at the same time may be lost, which does not
    matter."""

    def __init__(self, limits: Limits, stopwatch: Callable[[], float]) -> None:
        self.stopwatch = stopwatch
        self.step_s = limits.step_ms / 1_000
        self.unit_s = limits.unit_ms / 1_000
        self._sizes = [limits.divided(2**halvings) for halvings in range(_HALVINGS + 1)]
        self._kinds: dict[str, _Kind] = {}

    def limits(self, kind: str) -> Limits:
        """Those of the next step of this kind of task."""
        known = self._kinds.get(kind)
        return self._sizes[0 if known is None else known.halvings]

    def is_slow(self, kind: str) -> bool:
        """Whether a task of this kind has ever taken longer than a step should."""
        return kind in self._kinds

    def note(self, kind: str, took_s: float) -> None:
        """How long a step of this kind has taken."""
        known = self._kinds.get(kind)
        if known is None:
            if took_s <= self.step_s:
                return  # most tasks are small, and are never heard of here
            known = self._kinds[kind] = _Kind()
        if known.rest:
            known.rest -= 1
        elif took_s > self.step_s:
            self._note_slow(known, took_s)
        else:
            known.begin_anew()
            if known.halvings and took_s < self.step_s * _EASY:
                known.halvings -= 1

    def _note_slow(self, known: _Kind, took_s: float) -> None:
        known.quickest_s = min(known.quickest_s, took_s) if known.slow else took_s
        known.slow += 1
        if known.slow < (_IN_A_ROW if known.quickest_s < self.step_s * _VERY_SLOW else _VERY_SLOW_IN_A_ROW):
            return
        if known.took_s and known.quickest_s > known.took_s * _HELPED:
            known.halvings -= 1
            known.rest = _PATIENCE
            known.begin_anew()
        elif known.halvings < _HALVINGS:
            known.halvings += 1
            known.begin_anew(known.quickest_s)
