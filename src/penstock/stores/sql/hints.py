"""Hints: where a claim need not look."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing is ready up to the sequence number `after`, and nothing has come due up to the instant `due`."""

    after: int = 0
    due: int = 0


FROM_THE_BEGINNING = Start()
_HINT_KEPT_S = 0.2


class Hints:
    """Where a claim need not look: past the dead rows at the head of a queue. Shared by all units of a process.

    In a database that many use at once, a message that was claimed or acked leaves dead rows behind until they are
    cleaned up, and all of them stand where the next claim begins to look. So a process remembers for a moment how far
    it has come. What another process makes ready again behind that point, it finds a moment later; what it makes ready
    itself, at once. Each queue is looked through from its beginning now and then.
    """

    def __init__(self) -> None:
        self._starts: dict[int, tuple[float, Start]] = {}

    def start(self, queue: int) -> Start:
        until, start = self._starts.get(queue, (0.0, FROM_THE_BEGINNING))
        return start if time.monotonic() < until else FROM_THE_BEGINNING

    def keep(self, queue: int, begun: Start, start: Start) -> None:
        """A look that has `begun` where an earlier one left off does not make the hint any younger."""
        known = self._starts.get(queue)
        if begun is FROM_THE_BEGINNING or known is None:
            self._starts[queue] = (time.monotonic() + _HINT_KEPT_S, start)
        else:
            until, _ = known
            self._starts[queue] = (until, start)

    def forget(self) -> None:
        """Messages have become ready again."""
        if self._starts:
            self._starts = {}
