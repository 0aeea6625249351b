"""Whether anybody but bulk work waits for the store: if not, its steps may be larger.

A shipment of a million messages is claimed, read and settled in steps, which are small so that requests come in
between. Each step is a unit, with a sync of its own. Where nobody has asked for anything else for a while, small steps
only make the shipment slow. So then they are larger, and the first request that comes waits for one of those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock.broker.operations import Operation, Work
from penstock.broker.pace import Pace
from penstock.limits import Limits

# So long after the last other request it is calm.
_SECONDS: Final = 0.25


class Calm:
    def __init__(self, limits: Limits, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._disturbed_at = stopwatch() - _SECONDS
        self._usual = Pace(limits, stopwatch)
        times = limits.calm_times
        larger = replace(
            limits,
            step_ms=limits.step_ms * times,
            shipment_step_rows=limits.shipment_step_rows * times,
            page_step_rows=limits.page_step_rows * times,
        )
        self._calm = self._usual if times == 1 else Pace(larger, stopwatch)

    def pace(self, operations: list[Operation]) -> Pace:
        """The pace of a unit with these operations."""
        now = self._stopwatch()
        is_bulk = False
        for operation in operations:
            if isinstance(operation, Work) and getattr(operation.task, "is_bulk", False):
                is_bulk = True
            elif not operation.is_patient():
                self._disturbed_at = now
                return self._usual
        return self._calm if is_bulk and now - self._disturbed_at >= _SECONDS else self._usual
