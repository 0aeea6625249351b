"""A purge by age: through the whole queue, a step's rows in each unit, with others in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock import limits
from penstock.model import PeekAfter, Purged
from penstock.pending import Pending
from penstock.stores.protocol import Unit

Work = Callable[[Callable[[Unit, int], "_Step"]], Pending["_Step"]]


@dataclass(frozen=True, slots=True)
class _Step:
    """What has been done, and the bounds that were drawn in the first unit."""

    purged: Purged
    sent_before: int
    through: int


class AgedPurge:
    """`done` is how many messages were older than that when the purge began, and have gone.

    Each unit is asked for when the one before has been committed: a unit that has to be done again starts where the
    last good one ended.
    """

    def __init__(self, work: Work, queue: str, older_than_ms: int) -> None:
        self.done: Pending[int] = Pending()
        self._work = work
        self._queue = queue
        self._older_than_ms = older_than_ms
        self._count = 0
        self._go_on(None)

    def _go_on(self, last: _Step | None) -> None:
        def step(unit: Unit, now: int) -> _Step:
            sent_before = now - self._older_than_ms if last is None else last.sent_before
            through = unit.last_seq() if last is None else last.through
            after: PeekAfter | None = None if last is None else last.purged.after
            purged = unit.purge_older(self._queue, now, limits.STEP_ROWS, through, sent_before, after)
            return _Step(purged, sent_before, through)

        self._work(step).listen(self._take, self.done.reject)

    def _take(self, step: _Step) -> None:
        self._count += step.purged.count
        if step.purged.after is None:
            self.done.resolve(self._count)
        else:
            self._go_on(step)
