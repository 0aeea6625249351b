"""How much the next micro-batch of a stream may hold, and when it may begin.

PySpark hands a source one limit at a time, so Spark knows of the number of messages only. The rest is kept here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock import limits
from penstock.spark.options import Options
from penstock.spark.reader import MESSAGES


@dataclass(frozen=True)
class Allowance:
    """What one micro-batch may hold; `max_bytes` is None where it does not matter. `has_minimum` says that there may be
    too little for one as well: see `hold_back`."""

    messages: int
    max_bytes: int | None = None
    has_minimum: bool = False


class Admission:
    def __init__(
        self,
        options: Options,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._max_messages = options.max_messages or MESSAGES
        self._max_bytes = options.max_bytes
        self._min_messages = options.min_messages
        self._max_delay_s = options.max_delay_ms / 1000
        self._max_per_second = options.max_per_second
        self._clock = clock
        self._sleep = sleep
        # With the trigger availableNow: how many messages of each queue this run may still take.
        self._budget: dict[str, int] | None = None
        self._not_before = 0.0
        self._waits_since: float | None = None

    @property
    def ends(self) -> bool:
        """Whether this run ends when it gets no batch."""
        return self._budget is not None

    def default_limit(self) -> ReadLimit:
        return ReadMaxRows(self._max_messages)

    def end_with(self, messages: Mapping[str, int]) -> None:
        """This run takes as many messages of each queue, and ends."""
        self._budget = dict(messages)

    def budget(self, queue: str) -> int:
        return limits.SHIPMENT_ROWS if self._budget is None else self._budget.get(queue, 0)

    def allow(self, limit: ReadLimit) -> Allowance | None:
        """None if it is not yet time for another batch. A run that ends when it gets no batch waits for that time."""
        if isinstance(limit, ReadAllAvailable):
            return Allowance(limits.SHIPMENT_ROWS)
        pause_s = self._not_before - self._clock()
        if pause_s > 0:
            if self._budget is None:
                return None
            if any(self._budget.values()):
                self._sleep(pause_s)
        messages = limit.max_rows if isinstance(limit, ReadMaxRows) else self._max_messages
        has_minimum = self._min_messages is not None and not self.ends
        return Allowance(min(messages, limits.SHIPMENT_ROWS), self._max_bytes, has_minimum)

    def hold_back(self, ready: int) -> bool:
        """Whether to wait until more than these are ready: they are too few, and have not waited for long enough."""
        if self._min_messages is None or ready >= self._min_messages:
            return False
        if not ready:
            self._waits_since = None
            return True
        now = self._clock()
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since < self._max_delay_s

    def note(self, taken: Mapping[str, int]) -> None:
        """These were claimed, by queue: the next batch may begin when their number is within the rate."""
        self._waits_since = None
        for queue, messages in taken.items():
            if self._budget is not None:
                self._budget[queue] = max(0, self._budget.get(queue, 0) - messages)
        if self._max_per_second is not None:
            self._not_before = self._clock() + sum(taken.values()) / self._max_per_second


def shares(ready: Mapping[str, int], most: int) -> dict[str, int]:
    """How many messages of each queue go into a batch of `most`: equally many, and what one does not need goes to the
    others. If not even one of each fits, those that come first have theirs."""
    found: dict[str, int] = {}
    waiting = sorted(list(ready)[:most], key=lambda queue: ready[queue])
    for index, queue in enumerate(waiting):
        found[queue] = min(ready[queue], most // (len(waiting) - index))
        most -= found[queue]
    return found
