"""Operations are served in a unit of the store, many at once. This may run in a thread: it tells nobody anything."""

from __future__ import annotations

import logging

from penstock.broker.operations import UNSERVED, Operation, Send
from penstock.broker.operations import serve as serve_all
from penstock.clock import Clock
from penstock.errors import PenstockError, StoreBusy, StoreFull, StoreUnavailable
from penstock.stores.protocol import Store

log = logging.getLogger(__name__)

_READINGS = 5
_JUMP_MS = 1_000


class Units:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def serve(self, operations: list[Operation]) -> set[str]:
        """Serve all in one unit; where that fails, each in one of its own, so that a request fails alone.

        Returns the queues in which messages have become ready by other means than a send.
        """
        again: list[list[Operation]] = []
        try:
            return self._serve_in_one(operations)
        except StoreBusy as error:
            self._fail(operations, error)
            # Whoever only wants to look need not wait until the other process has written.
            looking = [operation for operation in operations if not operation.writes]
            if 0 < len(looking) < len(operations):
                again = [looking]
        except StoreUnavailable as error:
            self._fail(operations, error)
        except Exception as error:
            if len(operations) == 1:
                self._fail(operations, error)
            else:
                again = [[operation] for operation in operations]
        # Not in a handler: there, an error would remember the one before it, and all of its frames.
        for group in again:
            for operation in group:
                operation.result = UNSERVED
        return set().union(*map(self.serve, again))

    def _serve_in_one(self, operations: list[Operation]) -> set[str]:
        if not self._store.has_room():
            full = StoreFull("the device of the store is nearly full; claims and acks go on")
            self._fail([operation for operation in operations if isinstance(operation, Send)], full)
            operations = [operation for operation in operations if operation.result is UNSERVED]
        writes = any(operation.writes for operation in operations)
        with self._store.unit(writes) as unit:
            serve_all(unit, operations, self.now())
        return unit.stirred

    def now(self) -> int:
        """The time that all servers on this store agree on. Should our clock be set between two readings of it, a
        message would look as much older as it was set forward: then we read again."""
        for _ in range(_READINGS):
            own = self._clock()
            now = own + self._store.ahead_ms
            if 0 <= self._clock() - own < _JUMP_MS:
                break
        return now

    @staticmethod
    def _fail(operations: list[Operation], error: Exception) -> None:
        if not isinstance(error, PenstockError):
            log.error("an operation failed", exc_info=error)
        for operation in operations:
            operation.fail(error)
