"""The operations that wait for a unit, and which of them the next one takes.

Requests come in the order of their arrival, as many as a unit may hold. Steps of long work, which has had its first
unit or for which no one waits, come in turn: each has one, and goes behind the others. While both wait, every other
unit takes requests alone. So a request waits for one step at most, and no step waits forever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.broker.operations import Operation
from penstock.limits import Limits


class Arrivals:
    def __init__(self, limits: Limits) -> None:
        self._most = limits.unit_operations
        self._most_rows = limits.unit_rows
        self.requests: list[Operation] = []
        self.steps: deque[Operation] = deque()
        self._have_given_way = False

    def __len__(self) -> int:
        return len(self.requests) + len(self.steps)

    def add(self, operation: Operation) -> None:
        if operation.is_step:
            self.steps.append(operation)
        else:
            self.requests.append(operation)

    def put_first(self, operations: list[Operation]) -> None:
        """Those that come back, or have waited elsewhere, in their order. A step keeps its turn."""
        requests = [operation for operation in operations if not operation.is_step]
        if requests:
            self.requests[:0] = requests
        if len(requests) < len(operations):
            self.steps.extendleft(operation for operation in reversed(operations) if operation.is_step)

    def take(self) -> list[Operation]:
        """What the next unit is to serve; steps come first in it."""
        taken = self._take_requests()
        if not self.steps:
            return taken
        if taken and not self._have_given_way:
            self._have_given_way = True
            return taken
        self._have_given_way = False
        taken[:0] = self.steps
        self.steps.clear()
        return taken

    def _take_requests(self) -> list[Operation]:
        requests = self.requests
        rows = count = 0
        for operation in requests:
            rows += operation.rows
            if (count and rows > self._most_rows) or count == self._most:
                break
            count += 1
        taken = requests[:count]
        del requests[:count]
        return taken

    def take_late(self, since: float) -> list[Operation]:
        """Those whose callers have waited since then or longer, and should be told."""
        return self._take_out(lambda operation: operation.is_late(since))

    def take_callers(self) -> list[Operation]:
        """All but chores, for which no one waits."""
        return self._take_out(lambda operation: not operation.is_patient())

    def _take_out(self, is_meant: Callable[[Operation], bool]) -> list[Operation]:
        meant = [operation for operation in (*self.requests, *self.steps) if is_meant(operation)]
        if meant:
            self.requests = [operation for operation in self.requests if not is_meant(operation)]
            self.steps = deque(operation for operation in self.steps if not is_meant(operation))
        return meant
